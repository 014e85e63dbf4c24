//! Connections: `conn.handshake` and `conn.accept` against tcpdump, against the clock of the
//! programs around connect() and accept(), and against the error that connect() returns.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, opcode, types::Fd};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, accept, connect, getpeername, socket,
};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use testbed::{Direction, Family, Host, Link, LinkConfig, PATIENCE, within_attempts};
use with::capture::{Capture, Packet};
use with::clock::now;
use with::qdisc::kernel_counter;
use with::{FAMILIES, Stat, Trace, number, stage, wait_until};

const MS: Duration = Duration::from_millis(1);
const DELAY: Duration = Duration::from_millis(5);

const SYN: u8 = 2;
const ACK: u8 = 16;

struct LinkedHosts {
    a: Host,
    b: Host,
    link: Link,
}

impl LinkedHosts {
    fn new(delay: Duration) -> LinkedHosts {
        let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
        let link = Link::relay(&a, &b, LinkConfig::default().delay(delay)).unwrap();
        LinkedHosts { a, b, link }
    }

    fn listen(&self, family: Family) -> TcpListener {
        let address = SocketAddr::new(self.link.address_b(family), 0);
        self.b.tcp_listen(address).unwrap()
    }

    fn trace(host: &Host) -> Trace {
        Trace::start(&["--netns", host.netns_name(), "tcp"])
    }

    fn lose(&self, share: f64) {
        let config = LinkConfig::default().delay(DELAY).loss(share);
        self.link.set_direction(Direction::AToB, config).unwrap();
    }
}

/// Between the calls of connect() and accept() and their returns.
#[derive(Clone, Copy, Debug)]
struct Span {
    begin: u64,
    end: u64,
}

impl Span {
    fn of<T>(call: impl FnOnce() -> T) -> (Span, T) {
        let begin = now();
        let result = call();
        (Span { begin, end: now() }, result)
    }

    fn length(self) -> u64 {
        self.end - self.begin
    }
}

fn time_of(packets: &[Packet], from: SocketAddr, flags: u8) -> u64 {
    let first = packets.iter().find(|packet| {
        let sent = packet
            .tcp
            .is_some_and(|tcp| tcp.flags & (SYN | ACK) == flags);
        sent && packet.source == from
    });
    first
        .unwrap_or_else(|| panic!("no {flags:#x} of {from}"))
        .time
}

fn stage_of(connection: &Value, stage: &str) -> u64 {
    number(&connection["stages"][stage])
}

/// Return the connection between these ends, which is reported once.
fn only(connections: &[Value], remote: SocketAddr) -> &Value {
    let remote = remote.to_string();
    let mut ours = connections
        .iter()
        .filter(|connection| connection["remote"] == remote.as_str());
    let first = ours
        .next()
        .unwrap_or_else(|| panic!("none of {remote} in {connections:?}"));
    assert!(ours.next().is_none(), "{connections:?}");
    first
}

fn readable(listener: &TcpListener) -> u64 {
    let mut waited = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    poll(&mut waited, PollTimeout::NONE).unwrap();
    now()
}

/// The handshake is no shorter than on the wire, and no longer than connect().
#[test]
fn a_handshake_lies_between_its_packets_and_the_call() {
    let setup = LinkedHosts::new(DELAY);
    let capture = Capture::start(&setup.a, setup.link.interface_a(), "tcp");
    let trace = LinkedHosts::trace(&setup.a);
    let mut connected = Vec::new();
    for family in FAMILIES {
        let listener = setup.listen(family);
        let to = listener.local_addr().unwrap();
        let (span, stream) = Span::of(|| setup.a.tcp_connect(to).unwrap());
        let local = stream.local_addr().unwrap();
        connected.push((local, to, span));
    }
    let (connections, packets) = (trace.finish_connections(), capture.finish());
    for (local, to, span) in connected {
        let connection = only(&connections, to);
        let wire = time_of(&packets, to, SYN | ACK) - time_of(&packets, local, SYN);
        let handshake = stage_of(connection, "conn.handshake");
        assert_eq!(connection["verdict"], "valid");
        assert!(wire >= 2 * 5_000_000, "{wire} ns on the wire");
        assert!(
            handshake >= wire && handshake <= span.length(),
            "{wire} ns on the wire, {span:?}: {connection}"
        );
    }
}

/// A connection that waits for its accept, and connects that do not wait.
#[test]
fn an_accept_lies_between_its_packets_and_the_call() {
    let setup = LinkedHosts::new(DELAY);
    let capture = Capture::start(&setup.b, setup.link.interface_b(), "tcp");
    let trace = LinkedHosts::trace(&setup.b);
    let mut accepted = Vec::new();
    for family in FAMILIES {
        let listener = setup.listen(family);
        let client = setup.a.tcp_connect(listener.local_addr().unwrap()).unwrap();
        let ready = readable(&listener);
        thread::sleep(50 * MS);
        let (span, (server, from)) = Span::of(|| listener.accept().unwrap());
        accepted.push((from, ready, span));
        drop((client, server));
    }
    let (connections, packets) = (trace.finish_connections(), capture.finish());
    for (from, ready, span) in accepted {
        let connection = only(&connections, from);
        let wait = stage_of(connection, "conn.accept");
        let arrived = time_of(&packets, from, ACK);
        assert_eq!(connection["verdict"], "valid");
        assert_eq!(number(&connection["pid"]), u64::from(std::process::id()));
        assert!(
            wait >= span.begin - ready && wait <= span.end - arrived,
            "ready {ready}, {span:?}, arrived {arrived}: {connection}"
        );
    }
}

/// The first SYN is lost: TCP sends it again after a second.
#[test]
fn a_lost_syn_is_in_the_handshake_and_counted() {
    within_attempts(lost_syn);
}

fn lost_syn() -> Result<(), String> {
    let setup = LinkedHosts::new(DELAY);
    let capture = Capture::start(&setup.a, setup.link.interface_a(), "tcp");
    let (stat, trace) = (
        Stat::start(&["--netns", setup.a.netns_name(), "tcp"]),
        LinkedHosts::trace(&setup.a),
    );
    let listener = setup.listen(Family::V4);
    let to = listener.local_addr().unwrap();
    setup.lose(1.0);
    let span = thread::scope(|scope| {
        let connecting = scope.spawn(|| Span::of(|| setup.a.tcp_connect(to).unwrap()).0);
        let begin = now();
        while setup.link.statistics().a_to_b.lost == 0 {
            assert!(now() - begin < u64::try_from(PATIENCE.as_nanos()).unwrap());
            thread::sleep(MS);
        }
        setup.lose(0.0);
        connecting.join().unwrap()
    });
    let (report, connections) = (stat.finish(), trace.finish_connections());
    let packets = capture.finish();
    let connection = only(&connections, to);
    let handshake = stage_of(connection, "conn.handshake");
    assert!(
        (900_000_000..=span.length()).contains(&handshake),
        "{connection}"
    );
    let again = number(&connection["retransmits"]);
    assert!(again >= 1, "{connection}");
    assert_eq!(report["connections"]["opened"], 1);
    assert_eq!(report["connections"]["syns_again"], again);
    assert_eq!(retransmitted(&setup.a), again);
    assert_eq!(stage(&report, "conn.handshake", "count"), 1);
    let parts = &connection["parts"]["conn.handshake"];
    let (lost, rest) = (number(&parts["syn-again"]), number(&parts["round-trip"]));
    let wire = last_syn(&packets, to) - first_syn(&packets, to);
    assert_eq!(lost + rest, handshake, "{connection}");
    assert!(rest >= 2 * 5_000_000, "{connection}");
    let sum = &report["tx"]["parts"]["conn.handshake"]["syn-again"];
    assert_eq!(number(&sum["count"]), 1);
    let far = |time: u64| time.abs_diff(lost) >= 5_000_000;
    // Neither the capture nor the other measurement takes its stamp at the same moment.
    match far(wire) || far(number(&sum["sum_ns"])) {
        false => Ok(()),
        true => Err(format!("{wire} ns between the SYNs, {sum}: {connection}")),
    }
}

fn syns(packets: &[Packet], to: SocketAddr) -> impl DoubleEndedIterator<Item = u64> {
    packets
        .iter()
        .filter(move |packet| packet.destination == to)
        .filter(|packet| packet.tcp.is_some_and(|tcp| tcp.flags & (SYN | ACK) == SYN))
        .map(|packet| packet.time)
}

fn first_syn(packets: &[Packet], to: SocketAddr) -> u64 {
    syns(packets, to).next().unwrap()
}

fn last_syn(packets: &[Packet], to: SocketAddr) -> u64 {
    syns(packets, to).next_back().unwrap()
}

/// Return the number of segments that the kernel counts as retransmitted.
fn retransmitted(host: &Host) -> u64 {
    let text = host.run("nstat", &["-asz", "TcpRetransSegs"]).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("TcpRetransSegs"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// connect() returns an error, or the socket is closed before it returns.
#[test]
fn failed_connects_have_the_verdict_of_their_error() {
    let setup = LinkedHosts::new(DELAY);
    setup.a.set_sysctl("net.ipv4.tcp_syn_retries", "1").unwrap();
    setup
        .a
        .set_sysctl("net.ipv4.tcp_syn_linear_timeouts", "0")
        .unwrap();
    let (stat, trace) = (
        Stat::start(&["--netns", setup.a.netns_name(), "tcp"]),
        LinkedHosts::trace(&setup.a),
    );
    let host = setup.link.address_b(Family::V4);
    let [refused, aborted, lost] = [1, 2, 3].map(|port| SocketAddr::new(host, port));
    let (refusal, error) = Span::of(|| setup.a.tcp_connect(refused).unwrap_err());
    assert!(error.to_string().contains("refused"), "{error}");
    setup.lose(1.0);
    setup.a.enter(|| {
        let flags = SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        let address = SockaddrStorage::from(aborted);
        assert_eq!(
            connect(socket.as_raw_fd(), &address),
            Err(nix::errno::Errno::EINPROGRESS)
        );
    });
    let (timeout, error) = Span::of(|| setup.a.tcp_connect(lost).unwrap_err());
    assert!(error.to_string().contains("timed out"), "{error}");
    let (report, connections) = (stat.finish(), trace.finish_connections());
    for (to, verdict) in [
        (refused, "connect-refused"),
        (aborted, "connect-aborted"),
        (lost, "connect-timeout"),
    ] {
        assert_eq!(only(&connections, to)["verdict"], verdict);
        assert_eq!(report["connections"]["failed"][verdict], 1, "{report}");
    }
    let [refused, lost] = [refused, lost].map(|to| only(&connections, to));
    let took = stage_of(refused, "conn.handshake");
    assert!((10_000_000..=refusal.length()).contains(&took), "{refused}");
    let took = stage_of(lost, "conn.handshake");
    assert!((1_000_000_000..=timeout.length()).contains(&took), "{lost}");
    assert_eq!(number(&lost["retransmits"]), 1);
    assert_eq!(report["tx"]["messages"], 0);
    assert_eq!(report["verdicts"]["valid"], 0);
}

/// Listeners that existed before, on one port, with two threads each.
#[test]
fn each_accept_of_older_listeners_on_one_port_is_measured_once() {
    const CONNECTIONS: usize = 12;
    let host = Host::new("listeners").unwrap();
    let listeners = host.enter(|| {
        let first = reuseport(SocketAddr::from(([127, 0, 0, 1], 0)));
        let second = reuseport(first.local_addr().unwrap());
        [first, second]
    });
    let to = listeners[0].local_addr().unwrap();
    let stat = Stat::start(&["--netns", host.netns_name(), "tcp"]);
    let left = AtomicUsize::new(CONNECTIONS);
    thread::scope(|scope| {
        for listener in listeners.iter().chain(&listeners) {
            scope.spawn(|| {
                while left.load(Ordering::SeqCst) > 0 {
                    if listener.accept().is_ok() {
                        left.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            });
        }
        let _connected: Vec<_> = (0..CONNECTIONS)
            .map(|_| host.tcp_connect(to).unwrap())
            .collect();
    });
    let report = stat.finish();
    let connections = &report["connections"];
    let counts = ["opened", "accepted"].map(|count| number(&connections[count]));
    assert_eq!(counts, [CONNECTIONS as u64; 2], "{connections}");
    assert_eq!(stage(&report, "conn.accept", "count"), CONNECTIONS as u64);
    assert_eq!(connections["failed"], serde_json::json!({}));
}

/// A listener on a port with others, whose accept() looks up now and then.
fn reuseport(address: SocketAddr) -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.set_read_timeout(Some(20 * MS)).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(16).unwrap();
    socket.into()
}

/// A listener has dropped as many as ss(8) shows.
#[test]
fn a_listener_reports_its_drops_during_the_measurement() {
    let host = Host::new("listeners").unwrap();
    let listener = host.enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket
            .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .unwrap();
        socket.listen(1).unwrap();
        TcpListener::from(socket)
    });
    let to = listener.local_addr().unwrap();
    let knock = |count: usize| -> Vec<Socket> {
        let knock = |_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&to.into());
            socket
        };
        host.enter(|| (0..count).map(knock).collect())
    };
    // Closed at once: no SYN of these is sent again.
    drop(knock(5));
    let before = drops(&host, to);
    let overflows = kernel_counter(&host, "TcpExtListenOverflows");
    let stat = Stat::start(&["--netns", host.netns_name(), "tcp"]);
    drop(knock(4));
    let report = stat.finish();
    let listeners = report["listeners"].as_array().unwrap();
    assert_eq!(listeners.len(), 1, "{listeners:?}");
    assert_eq!(listeners[0]["local"], to.to_string());
    assert_eq!(listeners[0]["limit"], 1);
    assert_eq!(number(&listeners[0]["queue"]), 2);
    assert_eq!(number(&listeners[0]["dropped"]), drops(&host, to) - before);
    assert_eq!(number(&listeners[0]["dropped"]), 4);
    let overflows = kernel_counter(&host, "TcpExtListenOverflows") - overflows;
    assert_eq!(number(&listeners[0]["overflowed"]), overflows);
    assert_eq!(overflows, 4);
}

/// Health checks end the handshake by a RST, and where TCP_DEFER_ACCEPT waits for data a handshake
/// ends without: the listener drops both, and its queue was never full.
#[test]
fn a_listener_that_drops_ends_of_handshakes_is_not_full() {
    const DEFERRING: &str = "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 7001)); \
                             s.setsockopt(6, 9, 5); s.listen(5); time.sleep(60)";
    let host = Host::new("checked").unwrap();
    let listener = host.tcp_listen(([127, 0, 0, 1], 0).into()).unwrap();
    let checked = listener.local_addr().unwrap();
    let deferring = SocketAddr::from(([127, 0, 0, 1], 7001));
    let _server = host.spawn("python3", &["-c", DEFERRING]).unwrap();
    host.wait_for_port(deferring, PATIENCE).unwrap();
    let stat = Stat::start(&["--netns", host.netns_name(), "tcp"]);
    let before = [checked, deferring].map(|to| drops(&host, to));
    for _ in 0..5 {
        host.enter(|| {
            let check = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            check.set_tcp_quickack(false).unwrap();
            check.connect(&checked.into()).unwrap();
            check.set_linger(Some(Duration::ZERO)).unwrap();
        });
        drop(host.tcp_connect(deferring).unwrap());
    }
    wait_until("all are dropped", || {
        let now = [checked, deferring].map(|to| drops(&host, to));
        now[0] >= before[0] + 5 && now[1] > before[1]
    });
    let report = stat.finish();
    let listeners = report["listeners"].as_array().unwrap();
    assert_eq!(listeners.len(), 2, "{listeners:?}");
    for listener in listeners {
        assert!(number(&listener["dropped"]) > 0, "{listener}");
        assert_eq!(listener["overflowed"], 0, "{listener}");
    }
    assert_eq!(kernel_counter(&host, "TcpExtListenOverflows"), 0);
}

/// Return the count of dropped SYNs and handshakes in ss(8)'s `skmem:(…,d9)`.
fn drops(host: &Host, of: SocketAddr) -> u64 {
    let filter = format!("sport = {}", of.port());
    let text = host.run("ss", &["-Hlntm", &filter]).unwrap();
    let (_, count) = text.rsplit_once(",d").unwrap();
    count.trim_end().trim_end_matches(')').parse().unwrap()
}

/// The kernel accepts in a thread of its own, or after a call of the program about something else.
/// A thread takes what waits already; the program has gone to sleep before the other one comes.
#[test]
fn an_accept_by_io_uring_lies_between_its_packets_and_its_completion() {
    let setup = LinkedHosts::new(DELAY);
    let capture = Capture::start(&setup.b, setup.link.interface_b(), "tcp");
    let trace = LinkedHosts::trace(&setup.b);
    let listener = setup.listen(Family::V4);
    let to = listener.local_addr().unwrap();

    let client = setup.a.tcp_connect(to).unwrap();
    let ready = readable(&listener);
    thread::sleep(50 * MS);
    let mut ring = IoUring::builder().setup_sqpoll(1000).build(4).unwrap();
    let (span, server) = Span::of(|| accept_by_ring(&mut ring, &listener, || ()));
    let by_thread = (client.local_addr().unwrap(), ready, span);
    drop((client, server));

    let mut ring = IoUring::new(4).unwrap();
    let mut client = None;
    let connect_and_sleep = || {
        thread::scope(|scope| {
            let connecting = scope.spawn(|| setup.a.tcp_connect(to).unwrap());
            thread::sleep(100 * MS);
            client = Some(connecting.join().unwrap());
        });
    };
    let (span, server) = Span::of(|| accept_by_ring(&mut ring, &listener, connect_and_sleep));
    let client = client.unwrap();
    let by_task_work = client.local_addr().unwrap();
    drop((client, server));

    let (connections, packets) = (trace.finish_connections(), capture.finish());
    let arrived = |from| time_of(&packets, from, ACK);
    let (from, ready, of_thread) = by_thread;
    let wait = accepted(&connections, from);
    assert!(
        wait >= of_thread.begin - ready && wait <= of_thread.end - arrived(from),
        "ready {ready}, {of_thread:?}: {connections:?}"
    );
    let wait = accepted(&connections, by_task_work);
    assert!(
        wait <= span.end - arrived(by_task_work),
        "{span:?}: {connections:?}"
    );
}

/// Return the `conn.accept` of a valid connection from here.
fn accepted(connections: &[Value], from: SocketAddr) -> u64 {
    let connection = only(connections, from);
    assert_eq!(connection["verdict"], "valid", "{connection}");
    assert_eq!(number(&connection["pid"]), u64::from(std::process::id()));
    stage_of(connection, "conn.accept")
}

/// Submit an accept() that asks for the peer's address, do something else, and wait for its end.
fn accept_by_ring(
    ring: &mut IoUring,
    listener: &TcpListener,
    meanwhile: impl FnOnce(),
) -> TcpStream {
    let mut peer = [0_u64; 16];
    let mut length = u32::try_from(size_of_val(&peer)).unwrap();
    let fd = Fd(listener.as_raw_fd());
    let operation = opcode::Accept::new(fd, peer.as_mut_ptr().cast(), &raw mut length).build();
    // SAFETY: The address and its length live until the operation is complete, below.
    unsafe { ring.submission().push(&operation) }.unwrap();
    ring.submit().unwrap();
    meanwhile();
    while let Err(error) = ring.submit_and_wait(1) {
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    }
    let accepted = ring.completion().next().unwrap().result();
    assert!(accepted >= 0, "{accepted}");
    // SAFETY: The descriptor is new, and nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(accepted) }.into()
}

/// A socket that connects to itself, and two that connect to each other at once, each by
/// its own connect(): both ends open, and nobody accepts.
#[test]
fn connections_that_both_ends_open_have_a_handshake_and_no_accept() {
    let setup = LinkedHosts::new(50 * MS);
    let trace = LinkedHosts::trace(&setup.a);
    let stat = Stat::start(&["--netns", setup.a.netns_name(), "tcp"]);
    let port = |host: &Host, address| {
        let socket = host.enter(|| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap());
        socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, address)
    };
    let (alone, own) = port(&setup.a, Ipv4Addr::LOCALHOST.into());
    let (own_span, result) = Span::of(|| alone.connect(&own.into()));
    result.unwrap();
    let (mut alone, mut read) = (TcpStream::from(alone), [0; 100]);
    alone.write_all(&[7; 100]).unwrap();
    alone.read_exact(&mut read).unwrap();

    let (here, from) = port(&setup.a, setup.link.address_a(Family::V4));
    let (there, to) = port(&setup.b, setup.link.address_b(Family::V4));
    let (span, result) = thread::scope(|scope| {
        let other = scope.spawn(|| there.connect(&from.into()));
        let ours = Span::of(|| here.connect(&to.into()));
        other.join().unwrap().unwrap();
        ours
    });
    result.unwrap();
    drop((alone, here, there));

    let (report, connections) = (stat.finish(), trace.finish_connections());
    let took = |remote| {
        let connection = only(&connections, remote);
        assert_eq!(connection["verdict"], "valid", "{connection}");
        stage_of(connection, "conn.handshake")
    };
    assert!(
        took(own) <= own_span.length(),
        "{own_span:?}: {connections:?}"
    );
    // The path is 50 ms long, and each SYN is answered when it has come.
    let least = u64::try_from((100 * MS).as_nanos()).unwrap();
    assert!(
        (least..=span.length()).contains(&took(to)),
        "{span:?}: {connections:?}"
    );
    let counts = ["opened", "accepted"].map(|count| number(&report["connections"][count]));
    assert_eq!(counts, [2, 0], "{report}");
    assert_eq!(report["connections"]["failed"], serde_json::json!({}));
    for direction in ["tx", "rx"] {
        let counts = ["messages", "bytes"].map(|count| number(&report[direction][count]));
        assert_eq!(counts, [1, 100], "{report}");
    }
    assert_eq!(number(&report["verdicts"]["valid"]), 2, "{report}");
}

/// accept() without an address is seen by no hook, and getpeername() is no accept().
#[test]
fn accepts_that_are_not_seen_are_refused() {
    let setup = LinkedHosts::new(DELAY);
    let stat = Stat::start(&["--netns", setup.b.netns_name(), "tcp"]);
    let listener = setup.listen(Family::V4);
    let to = listener.local_addr().unwrap();
    let unseen = setup.a.tcp_connect(to).unwrap();
    readable(&listener);
    #[expect(unsafe_code, reason = "accept() of nix returns a number")]
    // SAFETY: The descriptor is open, and nothing else owns it.
    let server = unsafe { OwnedFd::from_raw_fd(accept(listener.as_raw_fd()).unwrap()) };
    let peer: SockaddrStorage = getpeername(server.as_raw_fd()).unwrap();
    let port = unseen.local_addr().unwrap().port();
    assert_eq!(peer.as_sockaddr_in().unwrap().port(), port);
    drop((unseen, TcpStream::from(server)));
    let unaccepted = setup.a.tcp_connect(to).unwrap();
    readable(&listener);
    drop((listener, unaccepted));
    let closed = |text: String| text.lines().count() <= 1;
    let begin = now();
    while !closed(setup.b.run("ss", &["-tn"]).unwrap()) {
        assert!(now() - begin < u64::try_from(PATIENCE.as_nanos()).unwrap());
        thread::sleep(MS);
    }
    let report = stat.finish();
    assert_eq!(report["connections"]["accepted"], 0, "{report}");
    assert_eq!(
        report["connections"]["failed"]["unseen-accept"], 1,
        "{report}"
    );
    assert_eq!(report["connections"]["failed"]["unaccepted"], 1, "{report}");
}
