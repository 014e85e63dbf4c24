//! `peer.answer` of datagrams, message by message: against the asking program's own clock and
//! against tcpdump.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, within_attempts};
use with::capture::{Capture, Packet};
use with::clock::now;
use with::{FAMILIES, Trace, of_direction};

const MS_NS: u64 = 1_000_000;
/// Longest time off the CPU around clock reads on a busy machine, in half of the exchanges.
const SLACK_NS: u64 = 5 * MS_NS;
/// One way.
const DELAY: Duration = Duration::from_millis(5);
const THINKING_MS: u8 = 50;
/// A question with this time is not answered.
const NEVER: u8 = 255;
/// Below all ephemeral ports, as that of a service is.
const PORT: u16 = 53;

/// A host that asks, and one that answers each datagram after the number of ms in its first byte.
struct AnsweringHosts {
    a: Host,
    b: Host,
    link: Link,
}

impl AnsweringHosts {
    fn new() -> AnsweringHosts {
        let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
        let link = Link::relay(&a, &b, LinkConfig::default().delay(DELAY)).unwrap();
        AnsweringHosts { a, b, link }
    }

    fn asking(&self, family: Family) -> UdpSocket {
        let address = SocketAddr::new(self.link.address_a(family), 0);
        self.a.udp_bind(address).unwrap()
    }

    /// Return sockets of the other host at these ports.
    fn answering<const N: usize>(&self, ports: [u16; N]) -> [UdpSocket; N] {
        let address = self.link.address_b(Family::V4);
        ports.map(|port| self.b.udp_bind(SocketAddr::new(address, port)).unwrap())
    }

    /// Trace the asking host from now on. Each server has answered before: the link's ends must
    /// find each other's hardware address.
    fn trace(&self, socket: &UdpSocket, servers: &[&UdpSocket]) -> Trace {
        for server in servers {
            socket.send_to(&[0], server.local_addr().unwrap()).unwrap();
            answer(server, 0);
            assert_eq!(read(socket), 0);
        }
        Trace::start(&["--netns", self.a.netns_name(), "udp"])
    }

    /// Run `ask` while the other host serves at these ports.
    fn with_servers<T>(
        &self,
        family: Family,
        ports: &[u16],
        ask: impl FnOnce(&[SocketAddr]) -> T,
    ) -> T {
        let address = self.link.address_b(family);
        let addresses: Vec<_> = ports
            .iter()
            .map(|port| SocketAddr::new(address, *port))
            .collect();
        let servers: Vec<_> = addresses
            .iter()
            .map(|address| self.b.udp_bind(*address).unwrap())
            .collect();
        thread::scope(|scope| {
            for server in &servers {
                scope.spawn(move || serve(server));
            }
            let _end = End {
                socket: self.asking(family),
                servers: &addresses,
            };
            ask(&addresses)
        })
    }
}

/// Ends servers when it is dropped, also where what was asked is a failure: nothing waits for them.
struct End<'a> {
    socket: UdpSocket,
    servers: &'a [SocketAddr],
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        for server in self.servers {
            // An empty datagram ends a server.
            self.socket.send_to(&[], server).unwrap();
        }
    }
}

fn serve(socket: &UdpSocket) {
    let mut question = [0; 100];
    thread::scope(|scope| {
        loop {
            let (bytes, client) = socket.recv_from(&mut question).unwrap();
            if bytes == 0 {
                return;
            }
            let thinking = question[0];
            if thinking == NEVER {
                continue;
            }
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(thinking.into()));
                socket.send_to(&[thinking; 20], client).unwrap();
            });
        }
    });
}

fn readable(socket: &UdpSocket) -> u64 {
    let events = &mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    poll(events, PollTimeout::NONE).unwrap();
    now()
}

/// Read the next answer, and return its first byte.
fn read(socket: &UdpSocket) -> u8 {
    let mut answer = [0; 100];
    socket.recv_from(&mut answer).unwrap();
    answer[0]
}

fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

fn answer_of(read: &Value) -> Option<u64> {
    read["stages"]["peer.answer"].as_u64()
}

/// The answers of the reads of a socket, in ms without fraction, and those that are pipelined.
fn answers(messages: &[Value]) -> Vec<(Option<u64>, bool)> {
    of_direction(messages, "rx")
        .into_iter()
        .map(|read| {
            assert_eq!(read["verdict"], "valid", "{read}");
            (
                answer_of(read).map(|ns| ns / MS_NS),
                read["pipelined"] == true,
            )
        })
        .collect()
}

/// Return the times on the wire between questions and answers, which come in turns.
fn on_the_wire(packets: &[Packet]) -> Vec<u64> {
    let questions = packets
        .iter()
        .filter(|packet| packet.destination.port() == PORT);
    let answers = packets.iter().filter(|packet| packet.source.port() == PORT);
    questions
        .zip(answers)
        .map(|(question, answer)| answer.time - question.time)
        .collect()
}

fn lockstep(family: Family, connected: bool) -> Result<(), String> {
    const COUNT: usize = 20;
    let setup = AnsweringHosts::new();
    setup.with_servers(family, &[PORT], |addresses| {
        let socket = setup.asking(family);
        if connected {
            socket.connect(addresses[0]).unwrap();
        }
        let send = || match connected {
            true => socket.send(&[THINKING_MS; 40]).unwrap(),
            false => socket.send_to(&[THINKING_MS; 40], addresses[0]).unwrap(),
        };
        // Send one before measuring: the link's ends must find each other's hardware address.
        send();
        read(&socket);
        let capture = Capture::start(&setup.a, setup.link.interface_a(), "udp port 53");
        let traces = Trace::start_in([&setup.a, &setup.b], &["udp"]);
        let exchange = |_| {
            let begun = now();
            send();
            let sent = now();
            let readable = readable(&socket);
            read(&socket);
            [readable - sent, readable - begun]
        };
        let clocks: Vec<[u64; 2]> = (0..COUNT).map(exchange).collect();
        let [asked, served] = traces.map(Trace::finish);
        let wire = on_the_wire(&capture.finish());
        assert!(
            answers(&served)
                .iter()
                .all(|answer| *answer == (None, false)),
            "the side that answers has no answers: {served:?}"
        );
        let reads = of_direction(&asked, "rx");
        let measured: Vec<u64> = reads.iter().filter_map(|read| answer_of(read)).collect();
        assert_eq!([measured.len(), wire.len()], [COUNT; 2], "{asked:?}");
        let mut far = 0;
        for ((answer, wire), [clock, longest]) in measured.iter().zip(&wire).zip(&clocks) {
            assert!(
                (wire..=longest).contains(&answer),
                "{answer} ns, but {wire} on the wire and {longest} by the clock"
            );
            let off = answer.abs_diff(*clock).max(answer - wire);
            far += usize::from(off > SLACK_NS);
        }
        match far * 2 <= COUNT {
            true => Ok(()),
            false => Err(format!(
                "{measured:?}, by the wire {wire:?}, by the clock {clocks:?}"
            )),
        }
    })
}

#[test]
fn a_datagrams_answer_takes_as_long_as_the_program_that_asks_and_the_wire_say() {
    within_attempts(|| {
        for family in FAMILIES {
            lockstep(family, true)?;
            lockstep(family, false)?;
        }
        Ok(())
    });
}

/// Datagrams of one question follow each other within 10 ms.
fn at_once(first: Instant) -> Result<(), String> {
    match first.elapsed() < Duration::from_millis(10) {
        true => Ok(()),
        false => Err("the second datagram was sent late".to_owned()),
    }
}

/// Return the messages of `ask` on a connected socket, on a link whose ends know each other.
fn traced(
    ask: impl FnOnce(&UdpSocket) -> Result<(), String>,
) -> Result<Vec<(Option<u64>, bool)>, String> {
    let setup = AnsweringHosts::new();
    setup.with_servers(Family::V4, &[PORT], |addresses| {
        let socket = setup.asking(Family::V4);
        socket.connect(addresses[0]).unwrap();
        socket.send(&[1]).unwrap();
        read(&socket);
        let trace = Trace::start(&["--netns", setup.a.netns_name(), "udp"]);
        let situation = ask(&socket);
        let messages = trace.finish();
        situation.map(|()| answers(&messages))
    })
}

fn between(answer: (Option<u64>, bool), least: u64, most: u64) -> Result<(), String> {
    let (Some(ms), false) = answer else {
        panic!("{answer:?}");
    };
    match (least..=most).contains(&ms) {
        true => Ok(()),
        false => Err(format!("{ms} is not {least} to {most} ms")),
    }
}

#[test]
fn datagrams_sent_at_once_are_one_question() {
    within_attempts(|| {
        let told = traced(|socket| {
            for _ in 0..2 {
                let first = Instant::now();
                socket.send(&[50]).unwrap();
                socket.send(&[100]).unwrap();
                let sent = at_once(first);
                assert_eq!([read(socket), read(socket)], [50, 100]);
                sent?;
            }
            Ok(())
        })?;
        assert_eq!(told.len(), 4);
        assert_eq!([told[1], told[3]], [(None, false); 2]);
        for first in [told[0], told[2]] {
            between(first, 59, 75)?;
        }
        Ok(())
    });
}

/// The first answer comes 11 ms after its question, and a few after the last datagram: nothing
/// tells for which one it is.
#[test]
fn datagrams_that_are_apart_have_no_answer_together() {
    within_attempts(|| {
        let told = traced(|socket| {
            let first = Instant::now();
            socket.send(&[1]).unwrap();
            for _ in 1..3 {
                pause(2);
                socket.send(&[1]).unwrap();
            }
            let sent = at_once(first);
            (0..3).for_each(|_| assert_eq!(read(socket), 1));
            sent
        })?;
        assert!(told.iter().all(|(answer, _)| answer.is_none()), "{told:?}");
        assert!(told[0].1);
        Ok(())
    });
}

/// Answer a question of one byte, which has this value.
fn answer(server: &UdpSocket, question: u8) {
    let (bytes, client) = hear(server);
    assert_eq!(bytes, [question]);
    server.send_to(&bytes, client).unwrap();
}

fn hear(server: &UdpSocket) -> ([u8; 1], SocketAddr) {
    let mut bytes = [0];
    let (_, client) = server.recv_from(&mut bytes).unwrap();
    (bytes, client)
}

/// Longer than the datagrams of one question may be apart.
fn begin_another_question() {
    thread::sleep(Duration::from_millis(20));
}

#[test]
fn an_answer_while_another_question_is_in_flight_is_pipelined() {
    within_attempts(|| {
        let setup = AnsweringHosts::new();
        let [server] = setup.answering([PORT]);
        let socket = setup.asking(Family::V4);
        socket.connect(server.local_addr().unwrap()).unwrap();
        let trace = setup.trace(&socket, &[&server]);
        socket.send(&[1]).unwrap();
        begin_another_question();
        socket.send(&[2]).unwrap();
        answer(&server, 1);
        assert_eq!(read(&socket), 1);
        begin_another_question();
        let (second, client) = hear(&server);
        socket.send(&[3]).unwrap();
        answer(&server, 3);
        assert_eq!(read(&socket), 3);
        server.send_to(&second, client).unwrap();
        assert_eq!(read(&socket), 2);
        // No message is in flight any more.
        socket.send(&[4]).unwrap();
        pause(50);
        answer(&server, 4);
        assert_eq!(read(&socket), 4);
        let told = answers(&trace.finish());
        assert_eq!(told.len(), 4);
        assert_eq!(told[..3], [(None, true), (None, true), (None, false)]);
        between(told[3], 55, 75)
    });
}

/// The reasons of reads without an answer.
fn reasons(messages: &[Value]) -> Vec<Option<&str>> {
    let reads = of_direction(messages, "rx").into_iter();
    reads.map(|read| read["unpaired"].as_str()).collect()
}

/// The answer may be to either; for as long again, one to the other may come.
#[test]
fn a_question_that_was_asked_again_has_no_answer_and_the_one_after_a_while_has() {
    within_attempts(|| {
        let told = traced(|socket| {
            socket.send(&[NEVER]).unwrap();
            pause(1_100);
            socket.send(&[50]).unwrap();
            read(socket);
            socket.send(&[50]).unwrap();
            read(socket);
            pause(1_300);
            socket.send(&[50]).unwrap();
            read(socket);
            Ok(())
        })?;
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], (None, false));
        assert_eq!(told[1].0, None);
        between(told[2], 59, 75)
    });
}

/// The first answer comes after the question was repeated, or is lost.
#[test]
fn the_late_answer_to_a_repeated_question_is_no_answer_to_the_repetition() {
    let setup = AnsweringHosts::new();
    let [server] = setup.answering([PORT]);
    let socket = setup.asking(Family::V4);
    socket.connect(server.local_addr().unwrap()).unwrap();
    let trace = setup.trace(&socket, &[&server]);
    for late in [true, false] {
        socket.send(&[7]).unwrap();
        pause(1_050);
        socket.send(&[7]).unwrap();
        let (question, client) = hear(&server);
        if late {
            server.send_to(&question, client).unwrap();
        }
        answer(&server, 7);
        assert_eq!(read(&socket), 7);
        if late {
            assert_eq!(read(&socket), 7);
        }
        begin_another_question();
    }
    let messages = trace.finish();
    let [late, second, lost] = answers(&messages)[..] else {
        panic!("{messages:?}");
    };
    assert_eq!([late, second, lost], [(None, false); 3]);
    let reasons = reasons(&messages);
    assert_eq!(reasons[0], Some("asked-again"));
    assert_eq!(reasons[2], Some("asked-again"));
}

/// The server sends at its own pace, and the client acknowledges now and then: no datagram within a
/// round trip answers another.
#[test]
fn a_stream_of_datagrams_has_no_answers() {
    const DATAGRAMS: usize = 200;
    let setup = AnsweringHosts::new();
    let [server] = setup.answering([PORT]);
    let socket = setup.asking(Family::V4);
    socket.connect(server.local_addr().unwrap()).unwrap();
    let trace = setup.trace(&socket, &[&server]);
    thread::scope(|scope| {
        socket.send(&[1; 5]).unwrap();
        scope.spawn(|| {
            let mut bytes = [0; 100];
            let (_, client) = server.recv_from(&mut bytes).unwrap();
            for _ in 0..DATAGRAMS {
                server.send_to(&[2; 1200], client).unwrap();
                pause(2);
            }
        });
        let mut acknowledged = Instant::now();
        for _ in 0..DATAGRAMS {
            read(&socket);
            if acknowledged.elapsed() > Duration::from_millis(25) {
                socket.send(&[3; 30]).unwrap();
                acknowledged = Instant::now();
            }
        }
    });
    let messages = trace.finish();
    let answers = answers(&messages);
    assert_eq!(answers.len(), DATAGRAMS);
    let round_trip = 2 * u64::try_from(DELAY.as_millis()).unwrap();
    let too_soon = answers.iter().filter(|(answer, _)| {
        let answer = answer.as_ref();
        answer.is_some_and(|ms| *ms < round_trip)
    });
    assert_eq!(too_soon.count(), 0, "{answers:?}");
    let reasons = reasons(&messages);
    let streamed = reasons
        .iter()
        .flatten()
        .filter(|reason| **reason == "stream");
    assert!(streamed.count() >= 5, "{reasons:?}");
}

/// The first peer's answer comes while the second one's is waited for.
#[test]
fn an_unconnected_sockets_answer_is_that_of_the_peer_that_it_asked() {
    let setup = AnsweringHosts::new();
    let servers = setup.answering([PORT, PORT + 1]);
    let socket = setup.asking(Family::V4);
    let trace = setup.trace(&socket, &servers.each_ref());
    let ask = |question: u8, server: &UdpSocket| {
        let address = server.local_addr().unwrap();
        socket.send_to(&[question], address).unwrap();
    };
    ask(1, &servers[0]);
    begin_another_question();
    ask(2, &servers[1]);
    for (question, server) in (1..).zip(&servers) {
        answer(server, question);
        assert_eq!(read(&socket), question);
    }
    assert_eq!(answers(&trace.finish()), [(None, false), (None, true)]);
}
