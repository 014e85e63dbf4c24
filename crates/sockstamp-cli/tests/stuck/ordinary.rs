//! Ordinary programs that hang, each in its own way, and some that wait for nobody. `ss` and the
//! time at which each was started are the witnesses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;
use testbed::{Host, PATIENCE, Process};
use with::programs::{LOCALHOST, Redis};
use with::wait_until;

use crate::{SLACK, listed, port};

/// Reads everything on these ports, and answers nothing.
const SILENT: &str = "
import selectors, socket, sys
loop = selectors.DefaultSelector(); kept = []
for port in map(int, sys.argv[1:]):
    s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', port)); s.listen(16)
    loop.register(s, 1)
print('listens', flush=True)
while True:
    for key, _ in loop.select():
        if key.fileobj not in kept:
            kept.append(key.fileobj.accept()[0]); loop.register(kept[-1], 1)
        elif not key.fileobj.recv(9999): loop.unregister(key.fileobj)
";

const SILENT_PORTS: [&str; 7] = ["7101", "7102", "7103", "7104", "7105", "7106", "7107"];

const LARGE: usize = 50_000_000;

/// A wait: of whom, for what, at which port of the service.
type Expected = (String, String, u64);

struct Hung {
    host: Host,
    directory: tempfile::TempDir,
    processes: Vec<Process>,
    /// With the time at which the program was started.
    expected: Vec<(Expected, u64)>,
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    u64::try_from(Duration::from(time).as_nanos()).unwrap()
}

impl Hung {
    fn new() -> Self {
        let host = Host::new("hung").unwrap();
        let words = [&["-c", SILENT], &SILENT_PORTS[..]].concat();
        let mut silent = host.spawn("python3", &words).unwrap();
        silent.wait_for_stdout("listens", PATIENCE).unwrap();
        Self {
            host,
            directory: tempfile::tempdir().unwrap(),
            processes: vec![silent],
            expected: Vec::new(),
        }
    }

    fn expect(&mut self, comm: &str, kind: &str, port: u64) {
        let wait = (comm.to_owned(), kind.to_owned(), port);
        self.expected.push((wait, now()));
    }

    /// Start a program; return its place.
    fn start(&mut self, words: &str) -> usize {
        let words: Vec<_> = words.split(' ').collect();
        let process = self.host.spawn(words[0], &words[1..]).unwrap();
        self.processes.push(process);
        self.processes.len() - 1
    }

    /// Start a program that asks a server in vain, which owes it an answer.
    fn asks(&mut self, words: &str, port: u64, server: &str) {
        self.expect(words.split(' ').next().unwrap(), "answer", port);
        self.expect(server, "service", port);
        self.start(words);
    }

    /// Start a program that asks a server which reads everything, and answers nothing.
    fn asks_silent(&mut self, words: &str, port: u64) {
        self.asks(words, port, "python3");
    }

    fn stop(&self, place: usize) {
        self.processes[place].signal(Signal::SIGSTOP).unwrap();
    }

    /// One that passes questions on to a silent server, and has a large file.
    fn start_nginx(&mut self) {
        let directory = self.directory.path();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(directory.join("large"), vec![0; LARGE]).unwrap();
        let root = directory.display();
        let settings = format!(
            "user root; daemon off; master_process off; pid {root}/pid; error_log {root}/errors;
             events {{}}
             http {{
               access_log off;
               server {{ listen 127.0.0.1:8080; location / {{ proxy_pass http://127.0.0.1:7107; }} }}
               server {{ listen 127.0.0.1:8081; root {root}; }}
             }}"
        );
        let file = directory.join("nginx.conf");
        fs::write(&file, settings).unwrap();
        self.start(&format!("nginx -c {}", file.display()));
        for port in [8080, 8081] {
            let address = (LOCALHOST, port).into();
            self.host.wait_for_port(address, PATIENCE).unwrap();
        }
    }

    /// Compare with the list, for as long as the programs may need to get there.
    fn check(&self) {
        let mut expected: Vec<_> = self.expected.iter().map(|(wait, _)| wait.clone()).collect();
        expected.sort();
        let begin = Instant::now();
        let found = loop {
            let found = listed(&self.host, &["--slow", "300ms"]);
            let mut keys: Vec<_> = found.iter().map(key).collect();
            keys.sort();
            if keys == expected {
                break found;
            }
            assert!(begin.elapsed() < PATIENCE, "{keys:#?}\n{expected:#?}");
        };
        let sockets = self.host.run("ss", &["-tnaHO"]).unwrap();
        for wait in &found {
            self.has_begun_since_the_start(wait);
            is_in(&sockets, wait);
        }
    }

    fn has_begun_since_the_start(&self, wait: &Value) {
        let started = self.expected.iter().filter(|(one, _)| *one == key(wait));
        let started = started.map(|(_, time)| *time).min().unwrap();
        let since = wait["since_ns"].as_u64().unwrap();
        assert!(since + SLACK >= started, "{started} {wait}");
    }
}

fn key(wait: &Value) -> Expected {
    let ends = [port(&wait["local"]), port(&wait["remote"])];
    let service = ends.into_iter().filter(|port| *port > 0).min().unwrap();
    let word = |name: &str| wait[name].as_str().unwrap().to_owned();
    (word("comm"), word("kind"), service)
}

/// `ss` shows both ends; a listener has no peer.
fn is_in(sockets: &str, wait: &Value) {
    let local = wait["local"].as_str().unwrap();
    let remote = match wait["kind"].as_str() {
        Some("accept") => "0.0.0.0:*",
        _ => wait["remote"].as_str().unwrap(),
    };
    let is_it = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words[3] == local && words[4] == remote
    };
    assert!(sockets.lines().any(is_it), "{wait} {sockets}");
}

#[test]
fn ordinary_programs_that_hang_are_listed_and_those_that_wait_for_nobody_are_not() {
    let mut hung = Hung::new();
    hung.asks_silent("ssh -F none -o BatchMode=yes -p 7101 127.0.0.1 true", 7101);
    hung.asks_silent("rsync rsync://127.0.0.1:7102/files", 7102);
    hung.asks_silent(
        "dig +tcp +tries=1 +time=100 @127.0.0.1 -p 7103 one.test",
        7103,
    );
    hung.asks_silent("psql -h 127.0.0.1 -p 7104 -U nobody nothing", 7104);
    hung.asks_silent("openssl s_client -connect 127.0.0.1:7105", 7105);
    hung.expect("wrk", "answer", 7106);
    hung.expect("python3", "service", 7106);
    hung.asks_silent(
        "wrk -t1 -c2 -d100 --timeout 100 http://127.0.0.1:7106/",
        7106,
    );

    hung.start_nginx();
    hung.expect("nginx", "answer", 7107);
    hung.expect("python3", "service", 7107);
    hung.asks("curl -s http://127.0.0.1:8080/", 8080, "nginx");
    hung.expect("nginx", "room", 8081);
    let reader = hung.start("curl -s --limit-rate 1M -o /dev/null http://127.0.0.1:8081/large");

    let redis = Redis::start(&hung.host, LOCALHOST, &[]);
    hung.start(&redis.client("SUBSCRIBE news"));
    hung.asks(&redis.client("BLPOP queue 0"), 6379, "redis-server");
    let told = |words: &str| hung.host.run("sh", &["-c", &redis.client(words)]).unwrap();
    wait_until("both wait for redis, and the file is read", || {
        let unsent = hung.host.run("ss", &["-Htn", "sport = 8081"]).unwrap();
        told("INFO clients").contains("blocked_clients:1")
            && told("PUBSUB NUMSUB news").trim_end().ends_with('1')
            && unsent
                .split_whitespace()
                .nth(2)
                .is_some_and(|bytes| bytes != "0")
    });

    // A server that is stopped has not accepted, and one whose reader is has no room.
    hung.stop(reader);
    redis.server.signal(Signal::SIGSTOP).unwrap();
    hung.expect("redis-server", "accept", 6379);
    hung.expect("redis-cli", "answer", 6379);
    hung.start(&redis.client("GET key"));
    hung.check();
}

/// A listener has no route: its oldest connection has one.
#[test]
fn an_interface_keeps_the_waits_for_accept_that_came_by_it() {
    let host = Host::new("stuck-interface").unwrap();
    host.run(
        "ip",
        &[
            "link", "add", "other", "type", "veth", "peer", "name", "end",
        ],
    )
    .unwrap();
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let at = listener.local_addr().unwrap();
    let _client = host.tcp_connect(at).unwrap();
    let accepts = |interface: &str| {
        let waits = listed(&host, &["--slow", "0", "-i", interface]);
        let is_it = |wait: &&Value| wait["kind"] == "accept" && wait["local"] == at.to_string();
        waits.iter().filter(is_it).count()
    };
    assert_eq!(accepts("lo"), 1);
    assert_eq!(accepts("other"), 0);
}
