//! Programs that are attached while traffic needs them.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use sockstamp_bpf::plan::Datagrams;
use sockstamp_bpf::{Options, Session, Target};
use sockstamp_model::summary::Summary;
use sockstamp_model::verdict::Verdict;
use testbed::{Family, Host, Link, LinkConfig, within_attempts};

use crate::common::account::Account;
use crate::{DATAGRAMS, IDLE, REQUEST, pass, pause};

/// The programs of UDP that packets of all sockets run.
const OF_DATAGRAMS: [&str; 2] = ["on_net_dev_queue", "on_cgroup_ingress"];

fn on_demand(idle: Duration) -> Session {
    let options = Options {
        target: Target {
            pids: vec![std::process::id()],
            ..Target::default()
        },
        on_demand: Some(idle),
        ..Options::default()
    };
    Session::start(&options).unwrap()
}

/// Datagrams that come before the programs do are counted, and so are all others.
#[test]
fn programs_of_udp_run_while_datagrams_come_and_what_they_miss_is_counted() {
    within_attempts(programs_of_udp_run_while_datagrams_come);
}

fn programs_of_udp_run_while_datagrams_come() -> Result<(), String> {
    let host = Host::new("host").unwrap();
    let account = Account::open();
    let mut session = on_demand(IDLE);
    if session.plan().udp != Ok(Datagrams::Tracepoints) {
        let line = b"SKIP programs_of_udp_run_while_datagrams_come: this plan has none of them\n";
        io::stderr().write_all(line).unwrap();
        return Ok(());
    }
    if session.plan().looks_at_packets() {
        let line =
            b"SKIP programs_of_udp_run_while_datagrams_come: TCP needs them on this kernel\n";
        io::stderr().write_all(line).unwrap();
        return Ok(());
    }
    let ran = |session: &Session| {
        let runs = account.runs(session);
        OF_DATAGRAMS.map(|program| runs[program].count)
    };
    let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    pass(&mut client, &mut server);
    assert_eq!(ran(&session), [0, 0], "TCP needs none of them");
    let sockets = [(); 2].map(|()| host.udp_bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap());
    let ends = |session: &Session| account.runs(session)["on_sock_send_length"].count;
    // The last time, the connection has been idle, and its sends begin unseen.
    for connected in [false, true, true] {
        if connected {
            sockets[0]
                .connect(sockets[1].local_addr().unwrap())
                .unwrap();
            pause(&mut session, 3 * IDLE);
        }
        let before = session.summary();
        exchange_until_followed(&mut session, &sockets)?;
        let [lost, messages] = since(&session.summary(), &before);
        // The first send, by its begin or its end, and the read of it.
        assert_eq!((lost, messages), (2, 2 * DATAGRAMS));
        pause(&mut session, 3 * IDLE);
        let (followed, ended) = (ran(&session), ends(&session));
        pass(&mut client, &mut server);
        assert_eq!(ran(&session), followed, "TCP needs none of them");
        // Where its function is traced, a send shows itself.
        let awaited = connected && !session.plan().udp_entries;
        assert_eq!(
            ends(&session) > ended,
            awaited,
            "a send of the connection is awaited"
        );
    }
    let valid = session.summary().verdicts[&Verdict::Valid];
    assert!(valid >= 6 * DATAGRAMS, "{:?}", session.summary().verdicts);
    Ok(())
}

/// Messages that TCP has split before the program comes may be refused. The rest leaves as if the
/// program had been there from the start.
#[test]
fn the_program_of_split_packets_runs_from_the_first_of_them_on() {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let slow = LinkConfig::default().delay(Duration::from_millis(20));
    let link = Link::relay(&client, &server, slow).unwrap();
    let account = Account::open();
    let mut session = on_demand(Duration::from_secs(10));
    let address = SocketAddr::new(link.address_b(Family::V4), 0);
    let listener = server.tcp_listen(address).unwrap();
    let taken = |session: &Session| {
        account
            .runs(session)
            .get("on_net_dev_start_xmit")
            .map(|runs| runs.count)
    };
    if taken(&session) != Some(0) {
        let line = b"SKIP the_program_of_split_packets_runs: this plan needs it for every packet\n";
        io::stderr().write_all(line).unwrap();
        return;
    }
    let [_, refused] = [(); 2].map(|()| {
        let before = session.summary();
        send_split(&mut session, &client, &listener);
        let after = session.summary();
        assert_eq!(
            after.tx.messages - before.tx.messages,
            1 + SMALL_SENDS,
            "{:?}",
            after.verdicts
        );
        after.verdicts[&Verdict::Split] - before.verdicts[&Verdict::Split]
    });
    // Now and then a part is sent again, or merged, and refused for that.
    assert!(refused < SMALL_SENDS / 2, "{refused} refused");
    assert!(taken(&session) > Some(SMALL_SENDS));
}

const SMALL_SENDS: u64 = 40;

/// Fill the first congestion window, and queue messages after it that TCP splits anywhere.
fn send_split(session: &mut Session, client: &Host, listener: &TcpListener) {
    let mut client = client.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    client.write_all(&[1; 14_000]).unwrap();
    for _ in 0..SMALL_SENDS {
        client.write_all(&[1; 1000]).unwrap();
    }
    thread::scope(|scope| {
        let reader = scope.spawn(|| server.read_exact(&mut [0; 54_000]).unwrap());
        while !reader.is_finished() {
            session.poll(Duration::from_millis(1), &mut drop).unwrap();
        }
    });
    session.settle(Duration::from_secs(2), &mut drop).unwrap();
}

/// Exchange datagrams, of which the first comes too early, before the programs may go again.
fn exchange_until_followed(session: &mut Session, sockets: &[UdpSocket; 2]) -> Result<(), String> {
    let begun = Instant::now();
    let mut buffer = REQUEST;
    let mut pass = || {
        sockets[0]
            .send_to(&REQUEST, sockets[1].local_addr().unwrap())
            .unwrap();
        sockets[1].recv(&mut buffer).unwrap();
    };
    pass();
    pause(session, IDLE / 4);
    for _ in 0..DATAGRAMS {
        pass();
    }
    match begun.elapsed() {
        took if took < IDLE => Ok(()),
        took => Err(format!("{took:?} for the datagrams")),
    }
}

/// Return the lost datagrams and the messages of both directions since an earlier summary.
fn since(now: &Summary, before: &Summary) -> [u64; 2] {
    let of = |summary: &Summary| {
        [
            summary.lost.datagrams,
            summary.tx.messages + summary.rx.messages,
        ]
    };
    let [now, before] = [of(now), of(before)];
    [now[0] - before[0], now[1] - before[1]]
}
