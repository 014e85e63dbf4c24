//! What is no answer has no `peer.answer`, and what answers nothing that was read no `app.service`:
//! where order does not tell, the reason stands there. The programs' own clocks are the witness.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{SpliceFFlags, splice};
use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, TcpInfo, within_attempts};
use with::{Trace, number, of_direction};

const MS: Duration = Duration::from_millis(1);
const MS_NS: u64 = 1_000_000;
/// One way.
const DELAY: Duration = Duration::from_millis(5);
/// There and back.
const LINK_NS: u64 = 10 * MS_NS;
/// Between two speeches of a server that speaks unasked: longer than the link, and shorter than
/// `THINKING`.
const PACE: Duration = Duration::from_millis(20);
const THINKING: Duration = Duration::from_millis(200);
/// The time of an answer that is not what the link and the server need for it.
const THOUGHT_NS: u64 = 200 * MS_NS;

/// Connect over a link: return both ends.
fn connect(a: &Host, b: &Host, link: &Link) -> (TcpStream, TcpStream) {
    let address = SocketAddr::new(link.address_b(Family::V4), 0);
    let listener = b.tcp_listen(address).unwrap();
    let client = a.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for end in [&client, &server] {
        end.set_nodelay(true).unwrap();
    }
    (client, server)
}

/// Write until the other end is gone.
fn say(connection: &Mutex<TcpStream>, bytes: &[u8]) -> bool {
    connection.lock().unwrap().write_all(bytes).is_ok()
}

/// Speak each 20 ms, and answer each question after a while.
fn push(connection: TcpStream) {
    let mut questions = connection.try_clone().unwrap();
    let speaker = Mutex::new(connection);
    thread::scope(|scope| {
        let speaking = scope.spawn(|| {
            while say(&speaker, &[b'p'; 100]) {
                thread::sleep(PACE);
            }
        });
        let mut question = [0; 100];
        while !speaking.is_finished() && matches!(questions.read(&mut question), Ok(1..)) {
            scope.spawn(|| {
                thread::sleep(THINKING);
                say(&speaker, b"A");
            });
        }
    });
}

/// Answer the first question in many parts, and the next ones after a while, between the parts.
fn stream(connection: TcpStream) {
    let mut questions = connection.try_clone().unwrap();
    let speaker = Mutex::new(connection);
    thread::scope(|scope| {
        let mut question = [0; 100];
        assert!(questions.read(&mut question).unwrap() > 0);
        scope.spawn(|| {
            for _ in 0..60 {
                say(&speaker, &[b's'; 1000]);
                thread::sleep(PACE);
            }
        });
        while matches!(questions.read(&mut question), Ok(1..)) {
            scope.spawn(|| {
                thread::sleep(THINKING);
                say(&speaker, b"A");
            });
        }
    });
}

/// Answer each byte `Q` after a while, side by side.
fn multiplex(connection: TcpStream) {
    let mut questions = connection.try_clone().unwrap();
    let speaker = Mutex::new(connection);
    thread::scope(|scope| {
        let mut bytes = [0; 100];
        while let Ok(length @ 1..) = questions.read(&mut bytes) {
            for _ in bytes[..length].iter().filter(|&&byte| byte == b'Q') {
                scope.spawn(|| {
                    thread::sleep(THINKING);
                    say(&speaker, &[b'r'; 50]);
                });
            }
        }
    });
}

/// Answer each question at once, its head before its body.
fn in_turns(mut connection: TcpStream) {
    let mut question = [0; 100];
    while let Ok(1..) = connection.read(&mut question) {
        if connection.write_all(&[b'h'; 40]).is_err() {
            return;
        }
        thread::sleep(3 * MS);
        let _ = connection.write_all(&[b'b'; 4000]);
    }
}

/// Read until the answer `A` has come, and return how long that took.
fn hear(mut connection: &TcpStream, asked: Instant) -> Duration {
    let mut bytes = [0; 4096];
    loop {
        let length = connection.read(&mut bytes).unwrap();
        if bytes[..length].contains(&b'A') {
            return asked.elapsed();
        }
    }
}

/// Ask each of these, half a second apart at most, and return the time of each answer by our own
/// clock.
fn ask(mut connection: &TcpStream, questions: &[&[u8]]) -> Vec<Duration> {
    let ask = |question: &&[u8]| {
        thread::sleep(70 * MS);
        let asked = Instant::now();
        connection.write_all(question).unwrap();
        hear(connection, asked)
    };
    questions.iter().map(ask).collect()
}

/// Ask ten questions at once, twice, and send a little after each answer.
fn ask_side_by_side(mut connection: &TcpStream) {
    for _ in 0..2 {
        for _ in 0..10 {
            connection.write_all(b"Q").unwrap();
            thread::sleep(MS);
        }
        for _ in 0..10 {
            connection.read_exact(&mut [0; 50]).unwrap();
            connection.write_all(b"w").unwrap();
        }
    }
}

/// Return the reads of a connection.
fn reads<'a>(messages: &'a [Value], connection: &TcpStream) -> Vec<&'a Value> {
    let local = connection.local_addr().unwrap().to_string();
    let mut reads = of_direction(messages, "rx");
    reads.retain(|read| read["local"] == local.as_str());
    reads
}

fn answers(reads: &[&Value]) -> Vec<u64> {
    let answers = reads
        .iter()
        .map(|read| read["stages"]["peer.answer"].as_u64());
    answers.flatten().collect()
}

fn reasons<'a>(messages: &[&'a Value]) -> Vec<&'a str> {
    let reasons = messages.iter().map(|message| message["unpaired"].as_str());
    reasons.flatten().collect()
}

#[test]
fn what_the_peer_sends_by_itself_or_to_another_question_is_no_answer() {
    within_attempts(sent_by_itself_or_to_another_question);
}

fn sent_by_itself_or_to_another_question() -> Result<(), String> {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::relay(&a, &b, LinkConfig::default().delay(DELAY)).unwrap();
    let trace = Trace::start(&["--netns", a.netns_name(), "tcp"]);
    let (pushed, pushing) = connect(&a, &b, &link);
    let (streamed, streaming) = connect(&a, &b, &link);
    let (multiplexed, multiplexing) = connect(&a, &b, &link);
    let (plain, serving) = connect(&a, &b, &link);
    thread::scope(|scope| {
        scope.spawn(|| push(pushing));
        scope.spawn(|| stream(streaming));
        scope.spawn(|| multiplex(multiplexing));
        scope.spawn(|| in_turns(serving));
        let asking = [
            scope.spawn(|| {
                // A server that has not spoken yet cannot be known to.
                pushed.peek(&mut [0]).unwrap();
                thread::sleep(5 * PACE);
                let took = ask(&pushed, &[b"question", b"another", b"a third one"]);
                assert!(took.iter().all(|took| *took >= THINKING), "{took:?}");
            }),
            scope.spawn(|| {
                (&streamed).write_all(b"first").unwrap();
                streamed.peek(&mut [0]).unwrap();
                thread::sleep(15 * PACE);
                ask(&streamed, &[b"the second one"]);
            }),
            scope.spawn(|| ask_side_by_side(&multiplexed)),
            scope.spawn(|| {
                for _ in 0..30 {
                    (&plain).write_all(b"question").unwrap();
                    (&plain).read_exact(&mut [0; 4040]).unwrap();
                }
            }),
        ];
        for asking in asking {
            asking.join().unwrap();
        }
        for connection in [&pushed, &streamed, &multiplexed, &plain] {
            connection.shutdown(Shutdown::Both).unwrap();
        }
    });
    let messages = trace.finish();
    let [pushed, streamed, multiplexed, plain] =
        [&pushed, &streamed, &multiplexed, &plain].map(|connection| reads(&messages, connection));

    let right = |reads: &[&Value]| answers(reads).iter().all(|answer| *answer >= THOUGHT_NS);
    assert!(right(&pushed), "{pushed:?}");
    assert!(reasons(&pushed).len() >= 3, "{pushed:?}");
    let answered = answers(&streamed);
    assert!(answered[0] >= LINK_NS, "{answered:?}");
    assert!(answered[1..].iter().all(|answer| *answer >= THOUGHT_NS));
    assert!(
        !reasons(&streamed).is_empty() || answered.len() > 1,
        "{streamed:?}"
    );
    assert!(right(&multiplexed), "{multiplexed:?}");
    assert!(reasons(&multiplexed).len() >= 10, "{multiplexed:?}");
    assert_eq!(answers(&plain).len(), 30, "{plain:?}");
    // The first question of the stream was answered by the first part.
    match answered[0] < THOUGHT_NS {
        true => Ok(()),
        false => Err(format!("{answered:?} ns")),
    }
}

/// Connect from this port.
fn connect_from(port: u16, to: SocketAddr) -> TcpStream {
    let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let local = SocketAddr::from(([127, 0, 0, 1], port));
    client.bind(&local.into()).unwrap();
    client.connect(&to.into()).unwrap();
    client.into()
}

/// A service at a high port, and clients at lower ones, all older than the measurement.
#[test]
fn the_end_that_connected_asks_whatever_its_port() {
    const ASKED: usize = 5;
    let host = Host::new("a").unwrap();
    let (client, server, listener) = host.enter(|| {
        let listener = TcpListener::bind("127.0.0.1:50051").unwrap();
        let client = connect_from(30_000, listener.local_addr().unwrap());
        let (server, _) = listener.accept().unwrap();
        (client, server, listener)
    });
    let (asking, answering) = host.enter(|| {
        let answering = std::net::UdpSocket::bind("127.0.0.1:51820").unwrap();
        let asking = std::net::UdpSocket::bind("127.0.0.1:30001").unwrap();
        asking.connect("127.0.0.1:51820").unwrap();
        (asking, answering)
    });
    let trace = Trace::start(&["--netns", host.netns_name()]);
    let mut bytes = [0; 100];
    let mut longest = Duration::ZERO;
    for _ in 0..ASKED {
        let asked = Instant::now();
        (&client).write_all(b"question").unwrap();
        (&server).read_exact(&mut bytes[..8]).unwrap();
        asking.send(b"question").unwrap();
        let (length, from) = answering.recv_from(&mut bytes).unwrap();
        thread::sleep(5 * MS);
        (&server).write_all(b"answer").unwrap();
        (&client).read_exact(&mut bytes[..6]).unwrap();
        answering.send_to(&bytes[..length], from).unwrap();
        asking.recv(&mut bytes).unwrap();
        longest = longest.max(asked.elapsed());
        // What the other end would take for the time of an answer.
        thread::sleep(30 * MS);
    }
    let messages = trace.finish();
    drop(listener);
    for (local, count) in [(30_000, ASKED), (30_001, ASKED), (50_051, 0), (51_820, 0)] {
        let local = format!("127.0.0.1:{local}");
        let mut reads = of_direction(&messages, "rx");
        reads.retain(|read| read["local"] == local.as_str());
        assert_eq!(reads.len(), ASKED, "{local}: {messages:?}");
        let answers = answers(&reads);
        assert_eq!(answers.len(), count, "{local}: {reads:?}");
        let right = |answer: &u64| {
            let answer = Duration::from_nanos(*answer);
            (5 * MS..longest).contains(&answer)
        };
        assert!(
            answers.iter().all(right),
            "{local}: {answers:?} of {longest:?}"
        );
    }
}

/// Read as a proxy does, without a read call.
fn read_by_splice(connection: &TcpStream, length: usize) {
    let (reading, writing) = nix::unistd::pipe().unwrap();
    let mut left = length;
    while left > 0 {
        left -= splice(
            connection.as_fd(),
            None,
            writing.as_fd(),
            None,
            left,
            SpliceFFlags::empty(),
        )
        .unwrap();
    }
    nix::unistd::read(&reading, &mut vec![0; length]).unwrap();
}

/// Return the sends of a connection, in their order.
fn sends<'a>(messages: &'a [Value], connection: &TcpStream) -> Vec<&'a Value> {
    let local = connection.local_addr().unwrap().to_string();
    let mut sends = of_direction(messages, "tx");
    sends.retain(|send| send["local"] == local.as_str());
    sends.sort_by_key(|send| number(&send["stamps"]["queued"]));
    sends
}

fn service(send: &Value) -> Option<u64> {
    send["stages"]["app.service"].as_u64()
}

/// Connect over loopback.
fn pair(host: &Host) -> (TcpStream, TcpStream) {
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server)
}

#[test]
fn a_service_answers_what_was_read_last_or_nothing() {
    let host = Host::new("a").unwrap();
    let trace = Trace::start(&["--netns", host.netns_name(), "tcp"]);
    let mut bytes = [0; 1000];

    // The second request is taken by splice(), long after the first one's read.
    let (mut client, mut proxy) = pair(&host);
    client.write_all(&[b'h'; 100]).unwrap();
    proxy.read_exact(&mut bytes[..100]).unwrap();
    thread::sleep(100 * MS);
    client.write_all(&[b'b'; 500]).unwrap();
    read_by_splice(&proxy, 500);
    thread::sleep(20 * MS);
    proxy.write_all(b"answer").unwrap();
    client.read_exact(&mut bytes[..6]).unwrap();

    // A while after its request the client ends its side, and nothing is unread.
    let (mut closing, mut served) = pair(&host);
    closing.write_all(&[b'x'; 100]).unwrap();
    served.read_exact(&mut bytes[..100]).unwrap();
    thread::sleep(50 * MS);
    closing.shutdown(Shutdown::Write).unwrap();
    thread::sleep(50 * MS);
    served.write_all(b"answer").unwrap();
    closing.read_exact(&mut bytes[..6]).unwrap();

    // The first of two requests is answered 60 ms after it came, and 20 after the second one.
    let (mut asking, mut threads) = pair(&host);
    asking.write_all(b"request 1").unwrap();
    threads.read_exact(&mut bytes[..9]).unwrap();
    thread::sleep(40 * MS);
    asking.write_all(b"request 2").unwrap();
    threads.read_exact(&mut bytes[..9]).unwrap();
    thread::sleep(20 * MS);
    threads.write_all(b"answer 1").unwrap();
    threads.write_all(b"answer 2").unwrap();
    asking.read_exact(&mut bytes[..16]).unwrap();

    let messages = trace.finish();
    let spliced = sends(&messages, &proxy);
    assert_eq!(spliced.len(), 1, "{messages:?}");
    assert_eq!(service(spliced[0]), None, "{spliced:?}");
    let half_closed = sends(&messages, &served);
    assert!(reasons(&half_closed).is_empty(), "{half_closed:?}");
    let took = service(half_closed[0]).unwrap();
    assert!(took >= 50 * MS_NS, "{half_closed:?}");
    let overlapping = sends(&messages, &threads);
    assert_eq!(overlapping.len(), 2, "{messages:?}");
    let none = |send: &&Value| service(send).is_none();
    assert!(overlapping.iter().all(none), "{overlapping:?}");
    assert_eq!(reasons(&overlapping), ["pipelined"], "{overlapping:?}");
}

/// Two requests of different lengths, from two threads, and from one that does not wait for the
/// first answer: each is answered 60 ms after it was asked, and 20 ms after the other one was.
#[test]
fn overlapping_requests_of_any_lengths_have_no_answer_of_their_own() {
    let host = Host::new("a").unwrap();
    let trace = Trace::start(&["--netns", host.netns_name(), "tcp"]);
    let connections = [pair(&host), pair(&host)];
    let mut bytes = [0; 1000];
    for (is_other_task, (client, server)) in [true, false].into_iter().zip(&connections) {
        let (mut client, mut server) = (client, server);
        client.write_all(&[b'a'; 100]).unwrap();
        server.read_exact(&mut bytes[..100]).unwrap();
        thread::sleep(40 * MS);
        let ask = || (&*client).write_all(&[b'b'; 300]).unwrap();
        match is_other_task {
            true => thread::scope(|scope| drop(scope.spawn(ask))),
            false => ask(),
        }
        server.read_exact(&mut bytes[..300]).unwrap();
        thread::sleep(20 * MS);
        server.write_all(&[b'A'; 50]).unwrap();
        client.read_exact(&mut bytes[..50]).unwrap();
        thread::sleep(40 * MS);
        server.write_all(&[b'B'; 70]).unwrap();
        client.read_exact(&mut bytes[..70]).unwrap();
    }
    let messages = trace.finish();
    for (client, server) in &connections {
        let reads = reads(&messages, client);
        assert_eq!(reads.len(), 2, "{messages:?}");
        assert!(answers(&reads).is_empty(), "{reads:?}");
        assert_eq!(reasons(&reads), ["pipelined"], "{reads:?}");
        let sends = sends(&messages, server);
        assert!(
            sends.iter().all(|send| service(send).is_none()),
            "{sends:?}"
        );
        assert_eq!(reasons(&sends), ["pipelined"], "{sends:?}");
    }
}

/// The client's first request comes with the end of the handshake, and the server sends two tickets
/// before it answers (RFC 8446, section 4.6.1).
#[test]
fn tickets_of_tls_are_no_answer() {
    let host = Host::new("a").unwrap();
    let trace = Trace::start(&["--netns", host.netns_name(), "tcp"]);
    let (client, server) = pair(&host);
    let (mut asking, mut answering) = (&client, &server);
    let mut bytes = [0; 2000];
    let record = |kind: u8, length: usize| [&[kind, 3, 3], &vec![0; length - 3][..]].concat();
    asking.write_all(&record(22, 517)).unwrap();
    answering.read_exact(&mut bytes[..517]).unwrap();
    answering.write_all(&record(22, 1500)).unwrap();
    asking.read_exact(&mut bytes[..1500]).unwrap();
    for round in 0..6 {
        asking.write_all(&record(23, 300)).unwrap();
        answering.read_exact(&mut bytes[..300]).unwrap();
        if round == 0 {
            answering.write_all(&record(23, 510)).unwrap();
            asking.read_exact(&mut bytes[..510]).unwrap();
        }
        thread::sleep(60 * MS);
        answering.write_all(&record(23, 800)).unwrap();
        asking.read_exact(&mut bytes[..800]).unwrap();
    }
    // The last answer is acknowledged with a FIN at the latest.
    asking.shutdown(Shutdown::Write).unwrap();
    assert_eq!(answering.read(&mut bytes).unwrap(), 0);
    while TcpInfo::of(&server).unwrap().unacked > 0 {
        thread::sleep(MS);
    }
    let messages = trace.finish();
    let (reads, sends) = (reads(&messages, &client), sends(&messages, &server));
    let answers = answers(&reads);
    assert_eq!(answers.len(), 6, "{reads:?}");
    assert!(
        answers[1..].iter().all(|answer| *answer >= 60 * MS_NS),
        "{answers:?}"
    );
    assert_eq!(reasons(&reads), ["pushed"], "{reads:?}");
    let services: Vec<u64> = sends.iter().filter_map(|send| service(send)).collect();
    assert_eq!(services.len(), 6, "{sends:?}");
    assert!(
        services[1..].iter().all(|took| *took >= 60 * MS_NS),
        "{services:?}"
    );
}

/// Requests that leave together, with frames that are none after each answer.
#[test]
fn http2_without_tls_says_itself_that_order_tells_nothing() {
    const SETTINGS: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
    const UPDATE: &[u8] = &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    let host = Host::new("a").unwrap();
    let trace = Trace::start(&["--netns", host.netns_name(), "tcp"]);
    let (client, server) = pair(&host);
    let (mut asking, mut answering) = (&client, &server);
    let mut bytes = [0; 2000];
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", SETTINGS, &[1; 120]].concat();
    asking.write_all(&preface).unwrap();
    answering.read_exact(&mut bytes[..preface.len()]).unwrap();
    answering.write_all(SETTINGS).unwrap();
    asking.read_exact(&mut bytes[..SETTINGS.len()]).unwrap();
    for _ in 0..3 {
        thread::sleep(30 * MS);
        answering.write_all(&[2; 200]).unwrap();
        asking.read_exact(&mut bytes[..200]).unwrap();
        asking.write_all(UPDATE).unwrap();
        answering.read_exact(&mut bytes[..UPDATE.len()]).unwrap();
    }
    let messages = trace.finish();
    let (reads, sends) = (reads(&messages, &client), sends(&messages, &server));
    assert!(answers(&reads).is_empty(), "{reads:?}");
    assert_eq!(reasons(&reads), ["multiplexed"; 3], "{reads:?}");
    assert!(
        sends.iter().all(|send| service(send).is_none()),
        "{sends:?}"
    );
    let valid = |message: &Value| message["verdict"] == "valid";
    assert!(messages.iter().all(valid), "{messages:?}");
}
