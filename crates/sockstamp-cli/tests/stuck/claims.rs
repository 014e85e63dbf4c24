//! Claims of `stuck` that a second look, or another tool, would refute: the programs' own clocks
//! and counts, `ss` and /proc are the witnesses.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Family, Host, Link, PATIENCE, Process};
use with::sockstamp;

/// Sleeps before each answer, in a thread for each connection, as many web servers do.
const NAPS: &str = "
import socket, threading, time
def serve(peer):
    while peer.recv(99):
        time.sleep(0.1)
        peer.send(b'answer')
listener = socket.create_server(('0.0.0.0', 8084), backlog=64)
print('ready', flush=True)
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

/// Asks on several connections, and says how often it was answered.
const ASKS: &str = "
import socket, sys, threading, time
answered = [0] * 6
def ask(of):
    peer = socket.create_connection((sys.argv[1], 8084))
    while True:
        peer.send(b'question')
        if not peer.recv(99): return
        answered[of] += 1; time.sleep(0.2)
for of in range(6): threading.Thread(target=ask, args=(of,), daemon=True).start()
while not all(answered): time.sleep(0.01)
print('ready', flush=True)
while True:
    time.sleep(0.05); print('least', min(answered), flush=True)
";

/// Accepts one connection, and waits for another one.
const ONLY_ACCEPTS: &str = "
import socket
listener = socket.create_server(('0.0.0.0', 8085), backlog=8)
print('listens', flush=True)
kept = [listener.accept()]
print('accepted', flush=True)
listener.accept()
";

const SENDS: &str = "
import socket, sys, time
peer = socket.create_connection((sys.argv[1], 8085))
while True:
    peer.send(b'x' * 64); time.sleep(0.3)
";

struct Pair {
    client: Host,
    server: Host,
    link: Link,
}

impl Pair {
    fn new(name: &str) -> Self {
        let client = Host::new(&format!("{name}-c")).unwrap();
        let server = Host::new(&format!("{name}-s")).unwrap();
        let link = Link::veth(&client, &server).unwrap();
        Self {
            client,
            server,
            link,
        }
    }

    fn starts(&self, script: &str) -> Process {
        let mut server = self.server.spawn("python3", &["-c", script]).unwrap();
        server.wait_for_stdout("\n", PATIENCE).unwrap();
        server
    }

    fn asks(&self, script: &str) -> Process {
        let address = self.link.address_b(Family::V4).to_string();
        let words = ["-c", script, &address];
        self.client.spawn("python3", &words).unwrap()
    }

    /// Return what is printed of both ends.
    fn stuck(&self, options: &[&str]) -> String {
        let names = [self.client.netns_name(), self.server.netns_name()].join(",");
        let mut command = Command::new(sockstamp());
        let output = command.args(["stuck", "--netns", &names]).args(options);
        let output = output.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn least_answered(client: &Process) -> u64 {
    let text = client.stdout();
    let mut last = text.lines().filter_map(|line| line.strip_prefix("least "));
    last.next_back().map_or(0, |least| least.parse().unwrap())
}

#[test]
fn a_service_that_sleeps_and_answers_waits_for_nobody() {
    let pair = Pair::new("naps");
    let _server = pair.starts(NAPS);
    let mut client = pair.asks(ASKS);
    client.wait_for_stdout("ready", PATIENCE).unwrap();
    let (before, mut rows) = (least_answered(&client), 0);
    for _ in 0..30 {
        let text = pair.stuck(&[]);
        assert!(!text.contains("each end waits"), "{text}");
        rows += text.matches("has not answered").count();
    }
    // Clients in a deadlock get no answer; these got several each.
    assert!(rows > 0);
    assert!(least_answered(&client) > before + 2);
}

#[test]
fn a_namespace_stands_with_the_process_that_is_in_it() {
    let pair = Pair::new("places");
    let server = pair.starts(NAPS);
    let mut client = pair.asks(ASKS);
    client.wait_for_stdout("ready", PATIENCE).unwrap();
    let (mut asked, mut served) = (0, 0);
    for _ in 0..10 {
        let text = pair.stuck(&["--slow", "1ms"]);
        let waits = text.lines().filter(|line| line.contains("/python3"));
        for line in waits {
            let who = line.split_whitespace().nth(2).unwrap();
            let (pid, _) = who.split_once('/').unwrap();
            let (of, host) = match pid.parse() == Ok(server.id()) {
                true => (&mut served, &pair.server),
                false => (&mut asked, &pair.client),
            };
            *of += 1;
            assert_eq!(
                who,
                format!("{pid}/python3@{}", host.netns_name()),
                "{line}"
            );
            assert_eq!(line.matches('@').count(), 1, "{line}");
        }
    }
    assert!(asked > 0 && served > 0, "{asked} {served}");
}

#[test]
fn a_task_in_accept_reads_no_connection_and_its_wait_has_no_known_begin() {
    let pair = Pair::new("accepts");
    let mut server = pair.starts(ONLY_ACCEPTS);
    let begin = Instant::now();
    let client = pair.asks(SENDS);
    server.wait_for_stdout("accepted", PATIENCE).unwrap();
    thread::sleep(Duration::from_secs(2));
    let pid = server.id();
    let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap();
    assert!(place.contains("accept"), "{place}");
    // The request is older than a second, which a look does not know.
    let text = pair.stuck(&["-p", &pid.to_string(), "--slow", "1s"]);
    assert!(begin.elapsed() > Duration::from_secs(1));
    let told = "nothing is known to wait 1.00 s or longer, and 1 for an unknown time, at least ";
    assert!(text.starts_with(told), "{text}");
    assert!(text.contains("(stuck --for 1s tells)"), "{text}");
    let text = pair.stuck(&["-p", &pid.to_string(), "--for", "1s", "--slow", "900ms"]);
    assert!(text.contains(" has not read "), "{text}");
    let measured = explained(&pair, pid);
    let accepts = "its only task waits for new connections (accept), at ";
    assert!(measured.contains(accepts), "{measured}");
    assert!(measured.contains("none reads these"), "{measured}");
    assert!(!measured.contains("any event"), "{measured}");
    assert!(
        measured.contains(" has not read requests for at least "),
        "{measured}"
    );
    drop(client);
}

/// Return what is told of a process after two seconds, on one line.
fn explained(pair: &Pair, pid: u32) -> String {
    let mut command = Command::new(sockstamp());
    let names = pair.server.netns_name();
    let pid = pid.to_string();
    command.args(["explain", "--netns", names, "-p", &pid, "--duration", "2s"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("→ sockstamp explain"), "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn sockets_are_counted_that_the_process_has() {
    let pair = Pair::new("counts");
    let mut server = pair.starts(ONLY_ACCEPTS);
    let _client = pair.asks(SENDS);
    server.wait_for_stdout("accepted", PATIENCE).unwrap();
    let pid = server.id().to_string();
    // The listener and its connection.
    let listed = pair.server.run("ss", &["-tanpHO"]).unwrap();
    let held = listed
        .lines()
        .filter(|line| line.contains(&format!("pid={pid},")));
    assert_eq!(held.count(), 2, "{listed}");
    let json: Value = serde_json::from_str(&pair.stuck(&["-p", &pid, "--format", "json"])).unwrap();
    assert_eq!(json["sockets"], 2, "{json}");
    let text = pair.stuck(&["-p", &pid]);
    assert!(text.contains(" on 2 TCP sockets"), "{text}");
    let text = pair.stuck(&["-p", &pid, "port", "1"]);
    assert!(text.contains(" on 0 TCP sockets"), "{text}");
}
