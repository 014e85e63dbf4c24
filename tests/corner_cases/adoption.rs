//! Connections that exist when a measurement starts.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use socket2::SockRef;
use testbed::{Cgroup, Direction, Family, Host, Link, LinkConfig, within_attempts};
use with::answerer::{Answerer, assert_only};
use with::bits::{ROUNDS, calls_of_others, selects_by_bit};
use with::blocked::spawn_blocked;
use with::traced_hosts::{
    Connection, Message, Messages, ONE_WAY, outline, pause, wait_acknowledged,
};
use with::{Stat, Trace, number, wait_until};

const LOCALHOSTS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// A host with a connection that is older than the measurement.
struct Older {
    host: Host,
    connection: Connection,
}

impl Older {
    fn new(address: IpAddr) -> Older {
        let host = Host::new("corner").unwrap();
        let connection = Connection::new(&host, &host, address);
        Older { host, connection }
    }

    fn ipv4() -> Older {
        Older::new(LOCALHOSTS[0])
    }

    fn trace(&self) -> Trace {
        Trace::start(&["--netns", self.host.netns_name()])
    }

    fn client(&mut self) -> &mut TcpStream {
        &mut self.connection.client
    }

    fn server(&mut self) -> &mut TcpStream {
        &mut self.connection.server
    }

    /// Send this many bytes from the client to the server.
    fn talk(&mut self, bytes: usize) {
        self.client().write_all(&vec![1; bytes]).unwrap();
        self.server().read_exact(&mut vec![0; bytes]).unwrap();
        wait_acknowledged(self.client());
    }
}

#[test]
fn both_ends_are_measured_from_the_first_message_on() {
    for address in LOCALHOSTS {
        let mut older = Older::new(address);
        older.talk(70);
        let trace = older.trace();
        older.talk(100);
        older.server().write_all(&[1; 30]).unwrap();
        older.client().read_exact(&mut [0; 30]).unwrap();
        wait_acknowledged(older.server());

        let messages = Messages::new(trace.finish());
        let [client, server] = [
            older.connection.client_address,
            older.connection.server_address,
        ];
        assert_eq!(outline(&messages.sent_from(client)), [(100, "valid")]);
        assert_eq!(outline(&messages.read_at(server)), [(100, "valid")]);
        assert_eq!(outline(&messages.sent_from(server)), [(30, "valid")]);
        assert_eq!(outline(&messages.read_at(client)), [(30, "valid")]);
    }
}

#[test]
fn adopted_connections_are_counted() {
    let mut older = Older::ipv4();
    let listener = older
        .host
        .tcp_listen("127.0.0.1:0".parse().unwrap())
        .unwrap();
    // Closed by both, it only waits for its time to pass.
    let ended = Connection::to(&older.host, &listener, LOCALHOSTS[0]);
    drop(ended);
    let stat = Stat::start(&["--netns", older.host.netns_name()]);
    let newer = Connection::to(&older.host, &listener, LOCALHOSTS[0]);
    older.talk(1);
    drop(newer);

    let report = stat.finish();
    assert_eq!(number(&report["adopted"]), 2, "{report}");
    assert_eq!(number(&report["tx"]["messages"]), 1, "{report}");
    assert_eq!(number(&report["verdicts"]["valid"]), 2, "{report}");
}

/// Their arrival time is unknown.
#[test]
fn bytes_that_came_before_are_refused() {
    let mut older = Older::ipv4();
    older.client().write_all(&[1; 100]).unwrap();
    let trace = older.trace();
    older.server().read_exact(&mut [0; 40]).unwrap();
    older.server().read_exact(&mut [0; 60]).unwrap();
    older.talk(50);

    let messages = Messages::new(trace.finish());
    assert_eq!(
        outline(&messages.read_at(older.connection.server_address)),
        [(40, "adopted"), (60, "adopted"), (50, "valid")]
    );
}

/// The stages are those of the last byte, whose arrival was seen; the age of the first is unknown.
#[test]
fn a_read_that_ends_in_bytes_that_came_after_is_measured() {
    let mut older = Older::ipv4();
    older.client().write_all(&[1; 100]).unwrap();
    let trace = older.trace();
    pause();
    let start = Instant::now();
    older.client().write_all(&[1; 20]).unwrap();
    wait_acknowledged(older.client());
    older.server().read_exact(&mut [0; 120]).unwrap();
    let took = start.elapsed();
    older.talk(50);

    let messages = Messages::new(trace.finish());
    let read = messages.read_at(older.connection.server_address);
    assert_eq!(outline(&read), [(120, "valid"), (50, "valid")]);
    assert_eq!(read[0].oldest_age(), None);
    assert!(read[1].oldest_age().is_some());
    let total = read[0].stage("rx.stack") + read[0].stage("rx.app");
    assert!(total < took, "{total:?} of {took:?}");
}

/// A read that had taken some of its bytes before, and one that had only waited.
#[test]
fn a_read_that_is_under_way_at_adoption_is_refused() {
    for (before, verdict) in [(100, "adopted"), (0, "valid")] {
        let mut older = Older::ipv4();
        older.client().write_all(&vec![1; before]).unwrap();
        let mut server = older.server().try_clone().unwrap();
        // Return when it has taken the available bytes, and waits.
        let reader = spawn_blocked(move || {
            let mut buffer = vec![0; before + 50];
            let taken = recv(server.as_raw_fd(), &mut buffer, MsgFlags::MSG_WAITALL).unwrap();
            assert_eq!(taken, before + 50);
            server.read_exact(&mut [0; 7]).unwrap();
        });
        let trace = older.trace();
        older.client().write_all(&[1; 50]).unwrap();
        pause();
        older.client().write_all(&[1; 7]).unwrap();
        reader.join().unwrap();

        let messages = Messages::new(trace.finish());
        let read = messages.read_at(older.connection.server_address);
        assert_eq!(
            outline(&read),
            [(before as u64 + 50, verdict), (7, "valid")],
            "{before}"
        );
    }
}

#[test]
fn a_send_that_waits_for_room_is_refused() {
    const BYTES: usize = 8 << 20;
    let mut older = Older::ipv4();
    let mut client = older.client().try_clone().unwrap();
    let sender = spawn_blocked(move || {
        client.write_all(&vec![1; BYTES]).unwrap();
        client.write_all(&[1; 10]).unwrap();
    });
    let trace = older.trace();
    older.server().read_exact(&mut vec![0; BYTES + 10]).unwrap();
    sender.join().unwrap();
    wait_acknowledged(older.client());

    let messages = Messages::new(trace.finish());
    let sent = messages.sent_from(older.connection.client_address);
    let verdicts: Vec<_> = sent.iter().map(|message| message.verdict()).collect();
    assert_eq!(verdicts, ["adopted", "valid"]);
    assert_eq!(sent[0].number("pid"), u64::from(std::process::id()));
    assert!(
        (1..BYTES as u64).contains(&sent[0].bytes()),
        "{}",
        sent[0].bytes()
    );
    assert_eq!(sent[1].bytes(), 10);
}

/// Bytes wait for a missing segment when the connection is adopted: the beginning of their wait is
/// unknown.
#[test]
fn data_that_waits_for_a_missing_segment_at_adoption_is_refused() {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let config = LinkConfig::default().delay(ONE_WAY);
    let link = Link::relay(&client, &server, config.clone()).unwrap();
    let mut connection = Connection::new(&client, &server, link.address_b(Family::V4));
    let to_server = || link.statistics().a_to_b;
    link.lose_next_data(Direction::AToB, 1).unwrap();
    connection.client.write_all(&[1; 100]).unwrap();
    wait_until("the first is lost", || to_server().lost == 1);
    let before = to_server().packets;
    connection.client.write_all(&[1; 200]).unwrap();
    wait_until("the second is there", || to_server().packets > before);
    // Lose the client's retransmissions until the measurement runs.
    link.set_direction(Direction::AToB, config.clone().loss(1.0))
        .unwrap();
    let trace = Trace::start(&["--netns", server.netns_name()]);
    assert_eq!(readable(&connection.server), 0);
    link.set_direction(Direction::AToB, config).unwrap();
    connection.server.read_exact(&mut [0; 100]).unwrap();
    connection.server.read_exact(&mut [0; 200]).unwrap();
    wait_acknowledged(&connection.client);
    connection.client.write_all(&[1; 300]).unwrap();
    connection.server.read_exact(&mut [0; 300]).unwrap();

    let messages = Messages::new(trace.finish());
    let read = messages.read_at(connection.server_address);
    // The missing one came when it was seen to.
    assert_eq!(
        outline(&read),
        [(100, "valid"), (200, "hol"), (300, "valid")]
    );
}

/// Return the number of readable bytes.
fn readable(socket: &TcpStream) -> usize {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    match recv(socket.as_raw_fd(), &mut [0; 1000], flags) {
        Ok(bytes) => bytes,
        Err(Errno::EAGAIN) => 0,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn half_closed_connections_are_adopted() {
    let mut older = Older::ipv4();
    older.client().shutdown(Shutdown::Write).unwrap();
    let trace = older.trace();
    older.server().write_all(&[1; 100]).unwrap();
    older.client().read_exact(&mut [0; 100]).unwrap();
    wait_acknowledged(older.server());

    let messages = Messages::new(trace.finish());
    assert_eq!(
        outline(&messages.sent_from(older.connection.server_address)),
        [(100, "valid")]
    );
    assert_eq!(
        outline(&messages.read_at(older.connection.client_address)),
        [(100, "valid")]
    );
}

#[test]
fn the_target_holds_for_older_connections_too() {
    let host = Host::new("corner").unwrap();
    let elsewhere = Host::new("elsewhere").unwrap();
    let (outer, other) = (Cgroup::new("outer").unwrap(), Cgroup::new("other").unwrap());
    let mut inside = Answerer::start(&host, Some(&outer));
    let mut outside = Answerer::start(&host, Some(&other));
    let mut away = Answerer::start(&elsewhere, Some(&outer));
    let pid = inside.process.id().to_string();
    let port = inside.address.port().to_string();
    let (cgroup, netns) = (outer.path().to_str().unwrap(), host.netns_name());
    for target in [
        &["-p", &pid] as &[&str],
        &["--cgroup", cgroup, "--netns", netns],
        &["--cgroup", cgroup, "-p", &pid],
        &["--comm", "python3", "--cgroup", cgroup, "--netns", netns],
        &[
            "--netns", netns, "-i", "lo", "--comm", "python3", "port", &port,
        ],
    ] {
        let trace = Trace::start(target);
        let stat = Stat::start(target);
        for answerer in [&mut inside, &mut outside, &mut away] {
            answerer.ask();
        }
        let (report, messages) = (stat.finish(), Messages::new(trace.finish()));
        assert_only(&messages, &inside, &[&outside, &away]);
        for direction in ["tx", "rx"] {
            assert_eq!(
                number(&report[direction]["messages"]),
                1,
                "{target:?}: {report}"
            );
        }
    }
}

/// No file leads to it yet.
#[test]
fn by_pid_a_connection_that_waits_to_be_accepted_is_adopted() {
    let host = Host::new("corner").unwrap();
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let trace = Trace::start(&["-p", &std::process::id().to_string()]);
    client.write_all(&[1; 100]).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0; 100]).unwrap();

    let messages = Messages::new(trace.finish());
    let server = server.local_addr().unwrap();
    assert_eq!(outline(&messages.read_at(server)), [(100, "valid")]);
}

/// Assert that the connection has the bit: each message has four stamps. Other connections of this
/// machine add far less meanwhile, unless one of them is busy for a while.
fn assert_bit(older: &mut Older, when: &str, expected: bool) {
    let mut look = || calls_of_others(|| (0..ROUNDS).for_each(|_| older.talk(1)));
    if expected {
        let calls = look();
        assert!(calls >= 4 * ROUNDS as u64, "{when}: {calls} calls");
    } else {
        wait_until(&format!("there is no bit {when}"), || {
            look() < ROUNDS as u64
        });
    }
}

#[test]
fn sockets_are_deselected_at_the_end_however_many_measured() {
    if !selects_by_bit("adoption::sockets_are_deselected_at_the_end_however_many_measured") {
        return;
    }
    let mut older = Older::ipv4();
    assert_bit(&mut older, "before", false);
    let of_host = older.trace();
    let pid = std::process::id().to_string();
    let of_process = Trace::start(&["-p", &pid, "--netns", older.host.netns_name()]);
    assert_bit(&mut older, "by both", true);
    of_host.finish();
    assert_bit(&mut older, "by the other", true);
    let sent = Messages::new(of_process.finish()).sent().len();
    assert_eq!(sent, 2 * ROUNDS);
    assert_bit(&mut older, "after", false);
}

/// The first to go leaves what another one has selected, and takes the rest back.
#[test]
fn the_first_to_go_takes_its_own_back() {
    if !selects_by_bit("adoption::the_first_to_go_takes_its_own_back") {
        return;
    }
    let mut older = Older::ipv4();
    let nowhere = Host::new("nowhere").unwrap();
    let of_nowhere = Trace::start(&["--netns", nowhere.netns_name()]);
    let of_host = older.trace();
    assert_bit(&mut older, "by one", true);
    of_host.finish();
    assert_bit(&mut older, "by none", false);
    assert!(of_nowhere.finish().is_empty());
}

/// Sends that fill the buffer and reads that wait for all their bytes: one of each is under way at
/// almost any moment.
struct Stream {
    sender: thread::JoinHandle<()>,
    reader: thread::JoinHandle<()>,
}

impl Stream {
    const SENT: usize = 1_000_000;
    const READ: usize = 70_000;

    fn start(connection: Connection, stopped: &Arc<AtomicBool>) -> Stream {
        let Connection {
            mut client, server, ..
        } = connection;
        let stopped = Arc::clone(stopped);
        SockRef::from(&client)
            .set_send_buffer_size(128 << 10)
            .unwrap();
        let sender = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                client.write_all(&[1; Stream::SENT]).unwrap();
                // The number of messages that a reader of the ring can take on a busy machine.
                thread::sleep(Duration::from_millis(10));
            }
        });
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; Stream::READ];
            while recv(server.as_raw_fd(), &mut buffer, MsgFlags::MSG_WAITALL).unwrap() > 0 {}
        });
        Stream { sender, reader }
    }

    fn end(self) {
        self.sender.join().unwrap();
        self.reader.join().unwrap();
    }
}

#[test]
fn under_load_every_message_follows_the_last() {
    const TIMES: usize = 4;
    /// Of each connection, unless the machine stands still.
    const FEW: usize = 4;
    let host = Host::new("corner").unwrap();
    let stopped = Arc::new(AtomicBool::new(false));
    let connections = [(); 3].map(|()| Connection::new(&host, &host, LOCALHOSTS[0]));
    let ends: Vec<_> = connections
        .iter()
        .map(|connection| (connection.client_address, connection.server_address))
        .collect();
    let streams = connections.map(|connection| Stream::start(connection, &stopped));
    pause();
    let mut refused = 0;
    for _ in 0..TIMES {
        let mut whole = None;
        within_attempts(|| {
            let trace = Trace::start(&["--netns", host.netns_name()]);
            thread::sleep(Duration::from_millis(200));
            let messages = whole.insert(Messages::new(trace.finish_whole()?));
            let counts = ends.iter().flat_map(|&(client, server)| {
                [
                    messages.sent_from(client).len(),
                    messages.read_at(server).len(),
                ]
            });
            match counts.min() {
                Some(FEW..) => Ok(()),
                fewest => Err(format!("{fewest:?} messages of a connection")),
            }
        });
        let messages = whole.unwrap();
        for &(client, server) in &ends {
            refused += assert_follow(&messages.sent_from(client));
            refused += assert_follow(&messages.read_at(server));
        }
    }
    stopped.store(true, Ordering::Relaxed);
    streams.into_iter().for_each(Stream::end);
    println!("{refused} under way");
    assert!(refused > 0, "nothing was under way");
}

/// The end of the first is unknown if it had begun before; each other one starts where the last one
/// ended. Refused ones come first, except those that the load itself pushes out. Return their
/// number.
fn assert_follow(messages: &[&Message]) -> usize {
    let is_adopted = |message: &&&Message| message.verdict() == "adopted";
    let adopted = messages.iter().take_while(is_adopted).count();
    assert!(messages.len() > adopted + 2, "{messages:?}");
    for pair in messages.windows(2).skip(usize::from(adopted > 0)) {
        let [last, next] = [pair[0], pair[1]].map(|message| message.number("seq_end"));
        assert_eq!(
            next.wrapping_sub(last) % (1 << 32),
            pair[1].bytes(),
            "{pair:?}"
        );
    }
    for message in &messages[adopted..] {
        assert!(
            matches!(message.verdict(), "valid" | "evicted"),
            "{message:?}"
        );
    }
    adopted
}
