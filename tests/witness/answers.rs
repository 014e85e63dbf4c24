//! `peer.answer`, message by message: against the asking program's own clock, against tcpdump, and
//! against the stamps of the messages around it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use testbed::{Direction, Family, Host, Link, LinkConfig, TcpInfo, within_attempts};
use with::capture::{Capture, Packet};
use with::clock::now;
use with::{FAMILIES, Trace, number, of_direction};

const MS: Duration = Duration::from_millis(1);
const MS_NS: u64 = 1_000_000;
/// Longest time off the CPU around clock reads on a busy machine, in half of the exchanges.
const SLACK_NS: u64 = 5 * MS_NS;
/// One way.
const DELAY: Duration = Duration::from_millis(5);
/// There and back.
const LINK_NS: u64 = 10 * MS_NS;
const THINKING: Duration = Duration::from_millis(50);
const REQUEST: usize = 300;

/// From the start and the end of a send call to the moment when poll(2) reports data to read.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    begun: u64,
    sent: u64,
    readable: u64,
}

/// An asking host and one that thinks before it answers.
struct AnsweringHosts {
    a: Host,
    b: Host,
    link: Link,
    capture: Capture,
    trace: Trace,
    /// The server's own thinking time per request.
    thought: Mutex<Vec<u64>>,
}

impl AnsweringHosts {
    fn new() -> AnsweringHosts {
        let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
        let link = Link::relay(&a, &b, LinkConfig::default().delay(DELAY)).unwrap();
        let capture = Capture::start(&a, link.interface_a(), "tcp");
        let trace = Trace::start(&["--netns", a.netns_name(), "tcp"]);
        AnsweringHosts {
            a,
            b,
            link,
            capture,
            trace,
            thought: Mutex::default(),
        }
    }

    /// Connect to a server that answers each request with this many bytes, while `ask` runs.
    fn with_server<T>(
        &self,
        family: Family,
        answer: usize,
        ask: impl FnOnce(&TcpStream) -> T,
    ) -> T {
        let address = SocketAddr::new(self.link.address_b(family), 0);
        let listener = self.b.tcp_listen(address).unwrap();
        let connection = self.a.tcp_connect(listener.local_addr().unwrap()).unwrap();
        connection.set_nodelay(true).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut request = [0; REQUEST];
                while peer.read_exact(&mut request).is_ok() {
                    let read = now();
                    thread::sleep(THINKING);
                    self.thought.lock().unwrap().push(now() - read);
                    peer.write_all(&vec![7; answer]).unwrap();
                }
            });
            let result = ask(&connection);
            connection.shutdown(std::net::Shutdown::Both).unwrap();
            result
        })
    }
}

/// Return when the call began and ended.
fn send(mut connection: &TcpStream, bytes: usize) -> [u64; 2] {
    let data = vec![1; bytes];
    let begun = now();
    connection.write_all(&data).unwrap();
    [begun, now()]
}

fn readable(connection: &TcpStream) -> u64 {
    poll(
        &mut [PollFd::new(connection.as_fd(), PollFlags::POLLIN)],
        PollTimeout::NONE,
    )
    .unwrap();
    now()
}

fn read(mut connection: &TcpStream, bytes: usize, by: usize) {
    let mut left = bytes;
    let mut buffer = vec![0; by];
    while left > 0 {
        left -= connection.read(&mut buffer[..by.min(left)]).unwrap();
    }
}

/// Return the times on the wire, from the last packet of a question to the first of its answer, in
/// order.
fn on_the_wire(packets: &[Packet], asking: &str) -> Vec<u64> {
    let mut asked = None;
    let mut answers = Vec::new();
    for packet in packets.iter().filter(|packet| packet.length > 0) {
        if packet.source.to_string() == asking {
            asked = Some(packet.time);
        } else if let Some(asked) = asked.take() {
            answers.push(packet.time - asked);
        }
    }
    answers
}

fn answer_of(read: &Value) -> Option<u64> {
    read["stages"]["peer.answer"].as_u64()
}

/// Return the parts of the answer whose read is `read`, which add up to it, and its distances from
/// its two witnesses.
fn compare(read: &Value, sent: &[&Value], exchange: &Exchange, wire: u64) -> (u64, u64, u64) {
    let answer = answer_of(read).unwrap();
    let longest = exchange.readable - exchange.begun;
    assert!(
        (wire..=longest).contains(&answer),
        "{answer} ns, but {wire} on the wire and {longest} by the clock: {read}"
    );
    let clock = exchange.readable - exchange.sent;
    let ready = number(&read["stamps"]["ready"]);
    let queued = sent.iter().map(|sent| number(&sent["stamps"]["queued"]));
    let asked = queued.filter(|queued| *queued < ready).max().unwrap();
    assert_eq!(answer, ready - asked, "{read}");
    let parts = &read["parts"]["peer.answer"];
    let (network, peer) = (number(&parts["network"]), number(&parts["peer"]));
    assert_eq!(network + peer, answer, "{read}");
    (network, peer, answer.abs_diff(clock).max(answer - wire))
}

fn check(setup: AnsweringHosts, exchanges: &[Exchange]) -> Result<(), String> {
    let (messages, packets) = (setup.trace.finish(), setup.capture.finish());
    let (sent, reads) = (of_direction(&messages, "tx"), of_direction(&messages, "rx"));
    let answered: Vec<&Value> = reads
        .into_iter()
        .filter(|read| answer_of(read).is_some())
        .collect();
    assert_eq!(
        answered.len(),
        exchanges.len(),
        "one answer per question: {messages:?}"
    );
    let wire = on_the_wire(&packets, answered[0]["local"].as_str().unwrap());
    let thought = setup.thought.into_inner().unwrap();
    assert_eq!([wire.len(), thought.len()], [exchanges.len(); 2]);
    let mut far = Vec::new();
    for (place, (read, exchange)) in answered.into_iter().zip(exchanges).enumerate() {
        let (network, peer, off) = compare(read, &sent, exchange, wire[place]);
        assert!(
            network >= LINK_NS,
            "the way is shorter than its link: {read}"
        );
        if off > SLACK_NS || network > LINK_NS + SLACK_NS || peer > thought[place] + SLACK_NS {
            far.push(format!(
                "{off} ns from its witnesses, {} ns of thought: {read}",
                thought[place]
            ));
        }
    }
    if far.len() * 2 <= exchanges.len() {
        Ok(())
    } else {
        Err(far.join("\n"))
    }
}

#[test]
fn an_answer_takes_as_long_as_the_program_that_asks_and_the_wire_say() {
    within_attempts(|| {
        FAMILIES.into_iter().try_for_each(|family| {
            let setup = AnsweringHosts::new();
            let exchanges: Vec<Exchange> = setup.with_server(family, 200, |connection| {
                let exchange = |_| {
                    let [begun, sent] = send(connection, REQUEST);
                    let readable = readable(connection);
                    read(connection, 200, 4096);
                    thread::sleep(3 * MS);
                    Exchange {
                        begun,
                        sent,
                        readable,
                    }
                };
                (0..20).map(exchange).collect()
            });
            check(setup, &exchanges)
        })
    });
}

/// An answer in one arrival, so that each read of it has the same time of arrival.
#[test]
fn a_question_in_pieces_counts_from_its_last_and_an_answer_in_many_reads_to_its_first_byte() {
    within_attempts(|| {
        let setup = AnsweringHosts::new();
        let exchanges: Vec<Exchange> = setup.with_server(Family::V4, 1000, |connection| {
            let exchange = |_| {
                send(connection, REQUEST / 3);
                thread::sleep(7 * MS);
                let [begun, sent] = send(connection, REQUEST - REQUEST / 3);
                let readable = readable(connection);
                read(connection, 1000, 100);
                Exchange {
                    begun,
                    sent,
                    readable,
                }
            };
            (0..10).map(exchange).collect()
        });
        check(setup, &exchanges)
    });
}

/// The second question is lost at first, so the first one's answer comes before its
/// acknowledgement.
#[test]
fn an_answer_that_comes_before_the_last_question_is_acknowledged_is_pipelined() {
    const ANSWER: usize = 200;
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::relay(&a, &b, LinkConfig::default()).unwrap();
    let trace = Trace::start(&["--netns", a.netns_name(), "tcp"]);
    let address = SocketAddr::new(link.address_b(Family::V4), 0);
    let listener = b.tcp_listen(address).unwrap();
    let asking = a.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (answering, _) = listener.accept().unwrap();
    let unacknowledged = || TcpInfo::of(&asking).unwrap().unacked;
    send(&asking, REQUEST);
    read(&answering, REQUEST, REQUEST);
    while unacknowledged() > 0 {
        thread::sleep(MS);
    }
    link.set_direction(Direction::AToB, LinkConfig::default().loss(1.0))
        .unwrap();
    send(&asking, REQUEST);
    send(&answering, ANSWER);
    read(&asking, ANSWER, ANSWER);
    assert!(unacknowledged() > 0);
    link.set_config(LinkConfig::default()).unwrap();
    read(&answering, REQUEST, REQUEST);
    send(&answering, ANSWER);
    read(&asking, ANSWER, ANSWER);
    let messages = trace.finish();
    let told: Vec<_> = of_direction(&messages, "rx")
        .iter()
        .map(|read| (answer_of(read), read["pipelined"] == true))
        .collect();
    assert_eq!(told, [(None, true), (None, false)]);
}

#[test]
fn the_side_that_answers_has_no_answers() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let trace = Trace::start(&["--netns", b.netns_name(), "tcp"]);
    let listener = b
        .tcp_listen(SocketAddr::new(link.address_b(Family::V4), 0))
        .unwrap();
    let client = a.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for _ in 0..5 {
        send(&client, 10);
        read(&server, 10, 10);
        send(&server, 10);
        read(&client, 10, 10);
    }
    drop((client, server));
    let messages = trace.finish();
    let reads = of_direction(&messages, "rx");
    assert_eq!(reads.len(), 5);
    assert!(
        reads.iter().all(|read| answer_of(read).is_none()),
        "{messages:?}"
    );
}
