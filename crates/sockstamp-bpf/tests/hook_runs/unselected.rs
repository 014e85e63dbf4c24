//! Programs that messages of other flows and sockets run.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use sockstamp_bpf::plan::{Entry, Reads, Stamps};
use sockstamp_bpf::{EntryHook, Options, Session};
use testbed::Host;

use crate::common::account::Account;
use crate::{DATAGRAMS, IDLE, REQUEST, connected, exchange, of_netns, pause};

/// The target is a network namespace, the traffic in another. Where selected sockets call back for
/// sends and reads alike, no program runs for a message of any other.
#[test]
fn messages_of_an_unselected_flow_run_no_program_where_selected_flows_call_back() {
    const ROUNDS: u64 = 200;
    let (selected, unselected) = (
        Host::new("selected").unwrap(),
        Host::new("unselected").unwrap(),
    );
    let account = Account::open();
    let options = of_netns(&selected);
    let mut session = Session::start(&options).unwrap();
    let mut pair = connected(&unselected);
    let ran = programs_run(&account, &session, ROUNDS, || exchange(&mut pair, ROUNDS));
    let plan = session.plan();
    if plan.reads_call_back() && matches!(plan.entry, Some(Entry::Begin(_))) {
        assert!(ran.is_empty(), "{ran:?}");
    } else {
        assert!(!ran.is_empty(), "the account counts");
    }
    assert_eq!(session.summary().tx.messages, 0);
    exchange(&mut connected(&selected), ROUNDS);
    session.settle(Duration::from_secs(2), &mut drop).unwrap();
    let summary = session.stop(&mut drop).unwrap();
    assert_eq!(
        [summary.tx.messages, summary.rx.messages],
        [2 * ROUNDS; 2],
        "{:?}",
        summary.verdicts
    );
}

/// Return the programs that run for this many messages at least, however often they are passed:
/// others of this machine have connections and messages of their own, which run other programs for
/// a while.
fn programs_run(
    account: &Account,
    session: &Session,
    least: u64,
    mut pass: impl FnMut(),
) -> Vec<String> {
    const TIMES: u32 = 20;
    let mut once = || -> BTreeSet<String> {
        let ran = account.of(session, &mut pass);
        println!("at least {least} messages and their reads: {ran:?}");
        let often = ran.into_iter().filter(|&(_, count)| count >= least);
        often.map(|(program, _)| program).collect()
    };
    let mut always = once();
    for _ in 1..TIMES {
        thread::sleep(Duration::from_millis(20));
        let often = once();
        always.retain(|program| often.contains(program));
    }
    always.into_iter().collect()
}

/// Every program that unselected messages run is paid for by the whole host: none comes unnoticed.
#[test]
fn messages_of_an_unselected_flow_run_four_programs_or_as_few_as_two() {
    const ROUNDS: u64 = 200;
    let (selected, unselected) = (
        Host::new("selected").unwrap(),
        Host::new("unselected").unwrap(),
    );
    let account = Account::open();
    let (send, segment) = ("on_tcp_sendmsg_locked", "on_tcp_probe");
    let read = ["on_sk_data_ready", "on_sock_recv_length"];
    let callback = EntryHook::Callback;
    for (causes, entry, others) in [
        (true, EntryHook::Auto, &[segment, send][..]),
        (false, EntryHook::Auto, &[send]),
        (true, callback, &[segment]),
        (false, callback, &[]),
    ] {
        let options = Options {
            causes,
            entry,
            ..of_netns(&selected)
        };
        let session = Session::start(&options).unwrap();
        let plan = session.plan();
        if plan.rx != Some(Reads::Tracepoints) || plan.tx != Some(Stamps::Callbacks) {
            let line =
                b"SKIP messages_of_an_unselected_flow_run_four: other hooks on this kernel\n";
            io::stderr().write_all(line).unwrap();
            return;
        }
        let mut pair = connected(&unselected);
        let ran = programs_run(&account, &session, ROUNDS, || exchange(&mut pair, ROUNDS));
        let mut expected = [others, &read].concat();
        expected.sort_unstable();
        assert_eq!(ran, expected, "causes: {causes}, {entry:?}");
    }
}

/// The same for datagrams, of connected and of unconnected sockets, also while selected ones send.
#[test]
fn unselected_datagrams_run_no_program_where_selected_sockets_call_back() {
    let (selected, unselected) = (
        Host::new("selected").unwrap(),
        Host::new("unselected").unwrap(),
    );
    let account = Account::open();
    let old = unbound(&selected);
    let mut session = Session::start(&of_netns(&selected)).unwrap();
    if !session.plan().datagrams_call_back() {
        let line = b"SKIP unselected_datagrams_run_no_program: selected ones do not call back\n";
        io::stderr().write_all(line).unwrap();
        return;
    }
    let bind = |host: &Host| host.udp_bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let pair = |host: &Host| [bind(host), bind(host)];
    let (unconnected, connected) = (pair(&unselected), pair(&unselected));
    connected[0]
        .connect(connected[1].local_addr().unwrap())
        .unwrap();
    let both = |session: &Session| {
        [
            programs_run(&account, session, DATAGRAMS, || send(&connected, true)),
            programs_run(&account, session, DATAGRAMS, || send(&unconnected, false)),
        ]
    };
    let none = [const { Vec::<String>::new() }; 2];
    assert_eq!(both(&session), none);
    let young = unbound(&selected);
    let mut sent = 0;
    for socket in [bind(&selected), old, young] {
        send(&[socket, bind(&selected)], false);
        sent += DATAGRAMS;
    }
    pause(&mut session, IDLE);
    assert_eq!(both(&session), none);
    let summary = session.stop(&mut drop).unwrap();
    // Each from the first on, which binds the socket.
    assert_eq!(summary.lost.datagrams, 0);
    assert_eq!(summary.tx.messages, sent, "{:?}", summary.verdicts);
}

/// Send datagrams from the first to the second socket, and read them.
fn send(sockets: &[UdpSocket; 2], is_connected: bool) {
    for _ in 0..DATAGRAMS {
        match is_connected {
            true => sockets[0].send(&REQUEST),
            false => sockets[0].send_to(&REQUEST, sockets[1].local_addr().unwrap()),
        }
        .unwrap();
        sockets[1].recv(&mut REQUEST.clone()).unwrap();
    }
}

/// Make a socket that has no port until it sends.
fn unbound(host: &Host) -> UdpSocket {
    let make = || {
        socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::empty(),
            None,
        )
    };
    UdpSocket::from(host.enter(make).unwrap())
}
