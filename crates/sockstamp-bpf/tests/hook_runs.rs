//! Every hook of a plan runs as often as the traffic that it is for passes: by the kernel's own
//! account. Root.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use sockstamp_bpf::plan::{Datagrams, Entry, Obstacle, Reads, Reason, Stamps};
use sockstamp_bpf::{EntryHook, Error, Hooks, Options, Session, Target};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::summary::Summary;
use sockstamp_model::verdict::Verdict;
use testbed::{Direction, Family, Host, Link, LinkConfig, PATIENCE, within_attempts};

use self::common::account::{Account, Runs};

mod common;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// On each connection, and as many answers.
const REQUESTS: u64 = 100;
const REQUEST: [u8; 500] = [1; 500];
const DATAGRAMS: u64 = 10;
/// Sends of TCP, and reads, that come one by one.
const MESSAGES: u64 = 2 * REQUESTS * FAMILIES.len() as u64;

#[test]
fn every_hook_of_the_best_plan_runs() {
    every_hook_runs(Hooks::Best);
}

#[test]
fn every_hook_of_the_plan_for_older_kernels_runs() {
    every_hook_runs(Hooks::Older);
}

fn every_hook_runs(hooks: Hooks) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::relay(&client, &server, LinkConfig::default()).unwrap();
    let account = Account::open();
    let options = Options {
        target: Target {
            pids: vec![std::process::id()],
            ..Target::default()
        },
        hooks,
        host_path: true,
        on_demand: None,
        ..Options::default()
    };
    let mut session = match Session::start(&options) {
        Err(Error::Plan(Obstacle::NothingToMeasure {
            reason: reason @ Reason::NeedsOrFentry(_),
            ..
        })) if hooks == Hooks::Older => {
            let line = format!("SKIP every_hook_of_the_plan_for_older_kernels_runs: {reason}\n");
            io::stderr().write_all(line.as_bytes()).unwrap();
            return;
        }
        started => started.unwrap(),
    };
    for family in FAMILIES {
        converse(&client, &server, &link, family);
        datagrams(&client, &server, &link, family);
    }
    session.settle(Duration::from_secs(2), &mut drop).unwrap();
    let runs = account.runs(&session);
    let summary = session.stop(&mut drop).unwrap();

    for (program, Runs { count, missed }) in &runs {
        println!("{program}: {count} runs, {missed} missed");
    }
    for (program, Runs { count, missed }) in &runs {
        let least = least(program);
        assert!(
            count + missed >= least,
            "{program} ran {count} times, not {least}"
        );
    }
    assert!(summary.tx.messages >= MESSAGES && summary.rx.messages >= MESSAGES);
    assert_eq!(summary.lost.flows, 0);
}

/// Return how often a program must run at least for the traffic of this test. Other processes add
/// some.
fn least(program: &str) -> u64 {
    let connections = FAMILIES.len() as u64;
    match program {
        // Signals are few.
        "on_signal_deliver" => 0,
        // The addresses of next hops are known.
        "on_neigh_event_send" | "on_neigh_update" => 0,
        // SENDMSG, SCHED, SND and ACK.
        "on_sockops" | "on_series" => 4 * MESSAGES,
        // Both ends, and the end that connects before.
        "on_connections" => 3 * connections,
        "on_tcp_sendmsg_locked" | "on_sendmsg_begun" | "on_sendmsg_ended" | "on_push" => MESSAGES,
        "on_sock_send_length" | "on_sock_recv_length" => MESSAGES + 2 * DATAGRAMS * connections,
        // Nothing goes out of a file.
        "on_sendpages_begun" | "on_sendpages_ended" => 0,
        "on_wait_begun" | "on_wait_ended" | "on_tcp_retransmit_skb" => connections,
        "on_kfree_skb" | "on_packet_dropped" => connections,
        "on_tcp_probe" | "on_sk_data_ready" | "on_sock_def_readable" | "on_recvmsg_ended" => {
            MESSAGES
        }
        // The handshake at either end, and data after the FIN.
        "on_rcv_state_process" => 3 * connections,
        // Established and closed, of both ends.
        "on_inet_sock_set_state" => 4 * connections,
        "on_net_dev_queue" | "on_net_dev_start_xmit" | "on_host_xmit" | "on_cgroup_ingress" => {
            MESSAGES
        }
        "on_consume_skb" | "on_host_ingress" | "on_host_queue" => MESSAGES,
        "on_sock_create" | "on_sock_release" => 2 * connections,
        // One of TCP each, of the IP version that the client speaks.
        "on_connect4" | "on_connect6" => 1,
        // One accept each, of the IP version that the listener speaks.
        "on_getpeername4" | "on_getpeername6" => 1,
        "on_sendmsg4" | "on_sendmsg6" => 2 * DATAGRAMS,
        "on_udp_send_begun" | "on_udp_send_ended" => 2 * DATAGRAMS,
        "on_udpv6_send_begun" | "on_udpv6_send_ended" => 2 * DATAGRAMS,
        "on_datagram" | "on_datagram_queued" | "on_datagram_read" => 2 * DATAGRAMS * connections,
        other => panic!("no number of runs is stated for {other}"),
    }
}

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

fn of_netns(host: &Host) -> Options {
    Options {
        target: Target {
            netns: vec![NetnsInode(u32::try_from(host.netns_inode()).unwrap())],
            ..Target::default()
        },
        ..Options::default()
    }
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

/// Open a connection within a host.
fn connected(host: &Host) -> (TcpStream, TcpStream) {
    let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Send requests and answers, each read by one call.
fn exchange((client, server): &mut (TcpStream, TcpStream), rounds: u64) {
    for _ in 0..rounds {
        pass(client, server);
        pass(server, client);
    }
}

/// Use one connection: requests and answers, then events that make rarer hooks run.
fn converse(client: &Host, server: &Host, link: &Link, family: Family) {
    let listener = server
        .tcp_listen(SocketAddr::new(link.address_b(family), 0))
        .unwrap();
    let mut client = client.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for socket in [&client, &server] {
        socket.set_nodelay(true).unwrap();
    }
    for _ in 0..REQUESTS {
        pass(&mut client, &mut server);
        pass(&mut server, &mut client);
    }
    link.lose_next_data(Direction::AToB, 1).unwrap();
    pass(&mut client, &mut server);
    fill_the_send_buffer(&mut client, &mut server);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    pass(&mut server, &mut client);
}

fn pass(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(&REQUEST).unwrap();
    let mut buffer = REQUEST;
    to.read_exact(&mut buffer).unwrap();
}

/// Send more than both buffers hold, while no task reads.
fn fill_the_send_buffer(from: &mut TcpStream, to: &mut TcpStream) {
    let bytes = vec![1; 32 << 20];
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            to.read_exact(&mut vec![0; bytes.len()]).unwrap();
        });
        from.write_all(&bytes).unwrap();
    });
}

/// Send datagrams and answers by unconnected sockets, and one to an unused port, which the kernel
/// drops.
fn datagrams(client: &Host, server: &Host, link: &Link, family: Family) {
    let any = match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    let client = client.udp_bind(SocketAddr::new(any, 0)).unwrap();
    let bound = server
        .udp_bind(SocketAddr::new(link.address_b(family), 0))
        .unwrap();
    let address = bound.local_addr().unwrap();
    let mut buffer = REQUEST;
    for _ in 0..DATAGRAMS {
        client.send_to(&REQUEST, address).unwrap();
        let (_, from) = bound.recv_from(&mut buffer).unwrap();
        bound.send_to(&REQUEST, from).unwrap();
        client.recv_from(&mut buffer).unwrap();
    }
    drop(bound);
    client.send_to(&REQUEST, address).unwrap();
}

/// A packet may come while the program for the one before runs on that CPU. Here readers work on
/// packets that came while they had the socket's lock, with interrupts on, and the other CPU sends
/// to this one.
#[test]
fn calls_that_the_kernel_leaves_out_are_counted() {
    let host = Host::new("host").unwrap();
    let script = format!(
        "ip netns exec {} sh -c 'echo 3 > /sys/class/net/lo/queues/rx-0/rps_cpus'",
        host.netns_name()
    );
    host.run("sh", &["-c", &script]).unwrap();
    let target = Target {
        pids: vec![std::process::id()],
        ..Target::default()
    };
    let account = Account::open();
    let options = Options {
        target,
        ..Options::default()
    };
    let mut session = Session::start(&options).unwrap();
    // The kernel leaves no run of a cgroup's program out.
    if session.plan().reads_call_back() {
        let line = b"SKIP calls_that_the_kernel_leaves_out_are_counted: no tracing program runs for reads\n";
        io::stderr().write_all(line).unwrap();
        return;
    }
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            let enough = &enough;
            scope.spawn(move || {
                while !enough.load(Ordering::Relaxed) {
                    client.write_all(&[1; 1 << 16]).unwrap();
                }
            });
            scope.spawn(move || while server.read(&mut [0; 1 << 16]).unwrap() > 0 {});
        }
        let begun = Instant::now();
        while session.summary().lost.skipped == 0 && begun.elapsed() < PATIENCE {
            session.poll(Duration::from_millis(50), &mut drop).unwrap();
        }
        println!("after {:?}", begun.elapsed());
        enough.store(true, Ordering::Relaxed);
    });
    let skipped = session.summary().lost.skipped;
    let missed: u64 = account
        .runs(&session)
        .values()
        .map(|runs| runs.missed)
        .sum();
    println!(
        "{:?}",
        account
            .runs(&session)
            .iter()
            .filter(|(_, runs)| runs.missed > 0)
            .collect::<Vec<_>>()
    );
    assert!(skipped > 0);
    assert_eq!(skipped, missed);
}

/// The programs of UDP that packets of all sockets run.
const OF_DATAGRAMS: [&str; 2] = ["on_net_dev_queue", "on_cgroup_ingress"];
const IDLE: Duration = Duration::from_millis(200);

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

/// Poll for this time, and often enough to see what has come before it.
fn pause(session: &mut Session, time: Duration) {
    const LOOKS: usize = 3;
    let begun = Instant::now();
    let mut looks = 0;
    while begun.elapsed() < time || looks < LOOKS {
        session.poll(Duration::from_millis(10), &mut drop).unwrap();
        looks += 1;
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

/// Datagrams that came before the start are unknown: their reads search the next one among all
/// unread ones.
#[test]
fn a_refused_read_costs_little_more_than_a_measured_one_where_many_datagrams_are_unread() {
    /// Together they fit into the receive buffer of every kernel.
    const EARLIER: u64 = 30;
    const LATER: u64 = 100;
    let host = Host::new("host").unwrap();
    let bind = || host.udp_bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let (sender, reader) = (bind(), bind());
    sender.connect(reader.local_addr().unwrap()).unwrap();
    reader
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let send = |count| (0..count).for_each(|_| assert_eq!(sender.send(&[7; 10]).unwrap(), 10));
    send(EARLIER);
    let options = Options {
        target: Target {
            netns: vec![NetnsInode(u32::try_from(host.netns_inode()).unwrap())],
            ..Target::default()
        },
        on_demand: None,
        ..Options::default()
    };
    let session = Session::start(&options).unwrap();
    send(LATER);
    let _account = Account::open();
    let read = |count| {
        let before = cost_of_reads(&session);
        (0..count).for_each(|_| assert_eq!(reader.recv(&mut [0; 10]).unwrap(), 10));
        (cost_of_reads(&session) - before) / count
    };
    let (refused, measured) = (read(EARLIER), read(LATER));
    let summary = session.stop(&mut drop).unwrap();
    println!("{refused} ns, {measured} ns; {:?}", summary.verdicts);
    assert!(summary.rx.messages >= EARLIER + LATER);
    assert!(refused < 10 * measured, "{refused} ns, {measured} ns");
}

/// Return the nanoseconds that the program at the end of reads of UDP has run.
fn cost_of_reads(session: &Session) -> u64 {
    let costs = session.costs().into_iter();
    let program = match session.plan().udp {
        Ok(Datagrams::Callbacks { .. }) => "on_series",
        Ok(Datagrams::Tracepoints) => "on_sock_recv_length",
        _ => "on_datagram_read",
    };
    let of_reads = costs.filter(|(name, _)| name == program);
    of_reads.map(|(_, cost)| cost.time.0).sum()
}
