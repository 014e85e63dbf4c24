//! Waits in the middle of an exchange: between two parts of a question, for the rest of an answer,
//! in close() until all is acknowledged, and for a name server before another one is asked. The
//! witness is the program that waits, by its own clock.

use std::net::SocketAddr;

use serde_json::Value;
use testbed::{Host, PATIENCE, within_attempts};
use with::expected::{ms, within_clock};
use with::{number, stat_command};

/// Answers by head and body at 8001, after two parts of a question at 8002, never reads at 8003. A
/// name server at 8005 answers, one at 8004 does not, and one at 8006 knows addresses of one kind.
const SERVER: &str = "
import socket, threading, time
def tcp(port, serve):
    s = socket.socket(); s.setsockopt(1, 2, 1); s.setsockopt(1, 8, 4096)
    s.bind(('127.0.0.1', port)); s.listen(9)
    def loop():
        while True: threading.Thread(target=serve, args=s.accept()[:1], daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()
def udp(port, answers):
    s = socket.socket(2, 2); s.bind(('127.0.0.1', port))
    def loop():
        while True:
            question, asker = s.recvfrom(99)
            if question in answers: s.sendto(b'known', asker)
    threading.Thread(target=loop, daemon=True).start()
def in_parts(c):
    while c.recv(99): c.sendall(b'head'); time.sleep(0.2); c.sendall(b'body')
def expects_more(c):
    asked = b''
    while not asked.endswith(b'body'): asked += c.recv(99)
    c.sendall(b'done')
def silent(c): time.sleep(60)
udp(8004, []); udp(8005, [b'who']); udp(8006, [b'A'])
tcp(8002, expects_more); tcp(8003, silent); tcp(8001, in_parts)
time.sleep(600)
";

/// Prints the number of answers whose rest it waited for, and the nanoseconds of its waits.
const CLIENT: &str = "
import select, socket, struct, time
now = time.monotonic_ns
c = socket.create_connection(('127.0.0.1', 8001)); rests = waited = 0
for _ in range(3):
    c.sendall(b'question'); got = c.recv(99); begun = now()
    if got == b'head': c.recv(99); rests += 1; waited += now() - begun
c = socket.create_connection(('127.0.0.1', 8002)); begun = now()
c.sendall(b'head, and then'); select.select([c], [], [], 0.2); c.sendall(b'the body')
asked = now() - begun; c.recv(99)
c = socket.create_connection(('127.0.0.1', 8003))
c.setsockopt(1, 13, struct.pack('ii', 1, 1)); c.sendall(b'x' * 1000000)
begun = now(); c.close(); closed = now() - begun
first = socket.socket(2, 2); first.connect(('127.0.0.1', 8004)); first.settimeout(0.2)
begun = now(); first.send(b'who')
try: first.recv(99)
except TimeoutError: pass
other = socket.socket(2, 2); other.connect(('127.0.0.1', 8005)); other.send(b'who')
named = now() - begun; other.recv(99); first.close()
both = socket.socket(2, 2); both.connect(('127.0.0.1', 8006)); both.settimeout(30)
begun = now(); both.send(b'A'); both.send(b'AAAA'); both.recv(99); both.settimeout(0.2)
try: both.recv(99)
except TimeoutError: pass
both.send(b'AAAA'); second = now() - begun
print(rests, waited, asked, closed, named, second)
";

/// Return the time of the waits of this kind for a port.
fn waited(report: &Value, kind: &str, port: u16) -> u64 {
    let waits = report["wall_time"]["waits"].as_array().unwrap();
    let peer = SocketAddr::from(([127, 0, 0, 1], port)).to_string();
    let these = waits
        .iter()
        .filter(|wait| wait["kind"] == kind && wait["peer"] == *peer);
    these.map(|wait| number(&wait["ns"])).sum()
}

#[test]
fn waits_in_the_middle_of_an_exchange_are_the_peers() {
    let host = Host::new("parts").unwrap();
    let _server = host.spawn("python3", &["-c", SERVER]).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 8001));
    host.wait_for_port(address, PATIENCE).unwrap();
    within_attempts(|| {
        let measured = stat_command(&host, &["python3", "-c", CLIENT]);
        let told: Vec<u64> = measured
            .stdout
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let [rests, rest, asked, closed, named, second] = told[..] else {
            panic!("{} {}", measured.stdout, measured.stderr);
        };
        let report = &measured.report;
        println!("{} {}", measured.stdout, report["wall_time"]);
        let seen = &report["rx"]["stages"]["peer.rest"];
        assert!(number(&seen["count"]) <= rests, "{seen}");
        let wait = |kind, port| waited(report, kind, port);
        within_clock("the rests", number(&seen["sum_ns"]), rest / 2, rest)?;
        within_clock("the pause", wait("asking", 8002), ms(190), asked)?;
        within_clock("the close", wait("sending", 8003), ms(900), closed)?;
        within_clock("the silence", wait("waiting", 8004), ms(190), named)?;
        within_clock("the other kind", wait("waiting", 8006), ms(190), second)
    });
}
