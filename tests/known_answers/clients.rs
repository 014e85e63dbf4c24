//! What clients do before a server can answer: they upload a request slowly, and pause between
//! requests. The witness is the client, by its own clock.

use std::net::SocketAddr;

use serde_json::Value;
use testbed::{Host, PATIENCE, within_attempts};
use with::expected::{ms, within};
use with::{Stat, Trace, number, stage};

const REQUESTS: u64 = 5;

/// Answers uploads of 3000 bytes, whichever way they come.
const SERVER: &str = "
import socket
s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', 8001)); s.listen(9)
while True:
    c = s.accept()[0]; got = 0
    while more := c.recv(9999):
        got += len(more)
        if got == 3000: c.sendall(b'answer'); got = 0
";

/// Uploads in parts of 1000 and 2000 bytes, and prints how long it took for all requests, and how
/// long it did nothing between two of them.
const SLOW: &str = "
import socket, time
now = time.monotonic_ns
c = socket.create_connection(('127.0.0.1', 8001)); c.setsockopt(6, 1, 1); uploads = pauses = done = 0
for _ in range(5):
    if done: time.sleep(0.2); pauses += now() - done
    begun = now(); c.sendall(b'h' * 1000); time.sleep(0.1); c.sendall(b'b' * 2000)
    uploads += now() - begun; c.recv(99); done = now()
print(uploads, pauses)
";

/// Asks at once for as often, and waits for nothing in between.
const QUICK: &str = "
import socket
c = socket.create_connection(('127.0.0.1', 8001))
for _ in range(5): c.sendall(b'x' * 3000); c.recv(99)
";

fn by_python(host: &Host, code: &str) -> Vec<u64> {
    let output = host.run("python3", &["-c", code]).unwrap();
    let words = output.split_whitespace();
    words.map(|word| word.parse().unwrap()).collect()
}

#[test]
fn slow_uploads_and_pauses_are_the_clients() {
    let host = Host::new("clients").unwrap();
    let _server = host.spawn("python3", &["-c", SERVER]).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 8001));
    host.wait_for_port(address, PATIENCE).unwrap();
    let target = ["--netns", host.netns_name()];
    within_attempts(|| {
        let stat = Stat::start(&target);
        let told = by_python(&host, SLOW);
        let report = stat.finish();
        let [uploads, pauses] = told[..] else {
            panic!("{told:?}");
        };
        println!("{uploads} {pauses} {report}");
        assert_eq!(stage(&report, "client.request", "count"), REQUESTS);
        assert_eq!(stage(&report, "client.pause", "count"), REQUESTS - 1);
        let sum = |name| number(&report["tx"]["stages"][name]["sum_ns"]);
        within(
            "client.request",
            sum("client.request"),
            uploads - ms(20)..=uploads + ms(10),
        )?;
        within(
            "client.pause",
            sum("client.pause"),
            pauses - ms(10)..=pauses + ms(20),
        )
    });
}

/// No message is slow by the pause of a client, but by its upload.
#[test]
fn pauses_are_slow_for_nobody() {
    let host = Host::new("clients").unwrap();
    let _server = host.spawn("python3", &["-c", SERVER]).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 8001));
    host.wait_for_port(address, PATIENCE).unwrap();
    let slow_answers = |slow: &str| {
        let trace = Trace::start(&["--netns", host.netns_name(), "--slow", slow]);
        by_python(&host, SLOW);
        let messages = trace.finish();
        let uploads = |message: &&Value| message["stages"]["client.request"].is_u64();
        messages.iter().filter(uploads).count() as u64
    };
    assert_eq!(slow_answers("90ms"), REQUESTS);
    within_attempts(|| match slow_answers("150ms") {
        0 => Ok(()),
        slow => Err(format!("{slow} uploads took 150 ms")),
    });
}

#[test]
fn requests_that_come_at_once_have_no_time_of_their_own() {
    let host = Host::new("clients").unwrap();
    let _server = host.spawn("python3", &["-c", SERVER]).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 8001));
    host.wait_for_port(address, PATIENCE).unwrap();
    let trace = Trace::start(&["--netns", host.netns_name()]);
    by_python(&host, QUICK);
    let messages = trace.finish();
    let answers = |message: &&Value| {
        message["stages"]["app.service"].is_u64() && message["opened"] == "accepted"
    };
    let answers: Vec<_> = messages.iter().filter(answers).collect();
    assert_eq!(answers.len() as u64, REQUESTS, "{messages:?}");
    for answer in answers {
        assert_eq!(answer["stages"]["client.request"], Value::Null, "{answer}");
    }
}
