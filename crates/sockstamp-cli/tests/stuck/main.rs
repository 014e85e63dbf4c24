//! `sockstamp stuck` next to programs that wait for ever, and to others that wait for nobody. Their
//! own clocks and `ss` are the witnesses. Root.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_getres};
use serde_json::Value;
use testbed::{Host, within_attempts};
use with::{sockstamp, wait_until};

mod claims;
mod ordinary;
mod programs;
mod unix;

use programs::Programs;

/// The pairs of `programs.py` start one after the other, on a busy host slowly.
const PATIENCE: Duration = Duration::from_secs(60);

/// Difference between a program's clock and a time that TCP keeps in ticks, at 100 Hz.
const SLACK: u64 = 20_000_000;

impl Programs {
    fn stuck(&self, options: &[&str]) -> Command {
        stuck(&self.host, options)
    }

    /// Return the announced waits, in their order, and those that are listed, when they are the
    /// same: a busy machine lets some begin late, and be announced late.
    fn agreed(&self) -> (Vec<Value>, Vec<Value>) {
        let begin = Instant::now();
        loop {
            let listed = listed(&self.host, &[]);
            let mut keys: Vec<_> = listed.iter().map(key).collect();
            keys.sort();
            let mut expected = self.expected();
            expected.sort_by_key(expected_key);
            if keys
                .iter()
                .eq(&expected.iter().map(expected_key).collect::<Vec<_>>())
            {
                return (expected, listed);
            }
            assert!(begin.elapsed() < PATIENCE, "{listed:#?}\n{expected:#?}");
        }
    }
}

fn stuck(host: &Host, options: &[&str]) -> Command {
    let mut command = Command::new(sockstamp());
    command.args(["stuck", "--netns", host.netns_name()]);
    command.args(options);
    command
}

/// The waits in JSON.
fn listed(host: &Host, options: &[&str]) -> Vec<Value> {
    let mut command = stuck(host, &["--format", "json"]);
    let output = command.args(options).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(report["version"], 1);
    assert_eq!(report["unseen"].as_array().unwrap().len(), 2);
    report["waits"].as_array().unwrap().clone()
}

fn port(address: &Value) -> u64 {
    let (_, port) = address.as_str().unwrap().rsplit_once(':').unwrap();
    port.parse().unwrap()
}

/// The port of the service, and the kind. Those of the programs are below the ephemeral ones, and a
/// listener has no remote port.
fn key(wait: &Value) -> (u64, String) {
    let ends = [port(&wait["local"]), port(&wait["remote"])];
    let service = ends.into_iter().filter(|port| *port > 0).min().unwrap();
    (service, wait["kind"].as_str().unwrap().to_owned())
}

fn expected_key(wait: &Value) -> (u64, String) {
    let port = wait["port"].as_u64().unwrap();
    (port, wait["kind"].as_str().unwrap().to_owned())
}

/// Check a wait by what its program noted about it. A busy machine lets time pass between two
/// readings of a clock.
fn check(listed: &Value, expected: &Value) -> Result<(), String> {
    let both = format!("{listed} {expected}");
    let is_bound = listed["at_least"] == true;
    assert_eq!(is_bound, expected["kind"] == "read", "{both}");
    // A connection that is not accepted waits for the process that listens.
    if expected["kind"] != "accept" {
        assert_eq!(listed["pid"], expected["pid"], "{both}");
    }
    if !expected["count"].is_null() {
        assert_eq!(listed["count"], expected["count"], "{both}");
    }
    assert_eq!(listed["comm"], "python3");
    let since = listed["since_ns"].as_u64().unwrap();
    let [from, to] = ["from", "to"].map(|end| expected[end].as_u64().unwrap());
    match since + SLACK >= from && (is_bound || since <= to + SLACK) {
        true => Ok(()),
        false => Err(both),
    }
}

#[test]
fn whoever_waits_is_listed_with_the_right_age_and_nobody_else_is() {
    within_attempts(|| {
        let programs = Programs::start("stuck", "programs.py", &[]);
        let (expected, listed) = programs.agreed();
        for wait in &listed {
            let place = expected.binary_search_by_key(&key(wait), expected_key);
            check(wait, &expected[place.unwrap()])?;
        }
        let ages: Vec<_> = listed.iter().map(|wait| wait["age_ns"].as_u64()).collect();
        assert!(ages.is_sorted_by(|a, b| a >= b), "{ages:?}");
        ss_has_the_sockets(&programs, &listed, &expected);
        the_status_tells_whether_something_waits(&programs, &expected);
        Ok(())
    });
}

/// A service of two tasks that reads ten bytes, of which half come. It is connected to itself.
const READS: &str = "
import socket, threading, time
own = socket.create_server(('127.0.0.1', 0))
waker = socket.create_connection(own.getsockname())
woken, _ = own.accept()
own.close()
waker.send(b'.')
woken.recv(1)
listener = socket.create_server(('127.0.0.1', 8082))
threading.Thread(target=time.sleep, args=(1000,)).start()
peer, _ = listener.accept()
print('ready', flush=True)
peer.recv(10, socket.MSG_WAITALL)
";

const SENDS_HALF: &str = "
import socket
peer = socket.create_connection(('127.0.0.1', 8082))
peer.send(b'halve')
peer.recv(10)
";

#[test]
fn a_peer_on_this_host_that_waits_for_more_is_said_to_do_so() {
    let host = Host::new("halves").unwrap();
    let mut server = host.spawn("python3", &["-c", READS]).unwrap();
    let address = "127.0.0.1:8082".parse().unwrap();
    host.wait_for_port(address, PATIENCE).unwrap();
    let _client = host.spawn("python3", &["-c", SENDS_HALF]).unwrap();
    server.wait_for_stdout("ready", PATIENCE).unwrap();
    let listed = listed(&host, &["--for", "500ms"]);
    let [wait] = &listed[..] else {
        panic!("{listed:?}")
    };
    let tasks = wait["peer"]["tasks"].as_str().unwrap();
    assert!(tasks.contains("each end waits for the other"), "{tasks}");
    assert_eq!(wait["peer"]["pid"], server.id());
}

/// A service that is stopped once it has a question.
const STOPPED: &str = "
import os, signal, socket
listener = socket.create_server(('127.0.0.1', 8081))
peer, _ = listener.accept()
peer.recv(10)
print('ready', flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
";

const ASKS: &str = "
import socket
peer = socket.create_connection(('127.0.0.1', 8081))
peer.send(b'question')
peer.recv(10)
";

#[test]
fn a_peer_on_this_host_that_is_stopped_is_said_to_be() {
    let host = Host::new("halted").unwrap();
    let mut server = host.spawn("python3", &["-c", STOPPED]).unwrap();
    let address = "127.0.0.1:8081".parse().unwrap();
    host.wait_for_port(address, PATIENCE).unwrap();
    let client = host.spawn("python3", &["-c", ASKS]).unwrap();
    server.wait_for_stdout("ready", PATIENCE).unwrap();
    let client = client.id().to_string();
    let options = ["-p", &client, "--for", "500ms"];
    let listed = listed(&host, &options);
    assert_eq!(listed[0]["peer"]["state"], "stopped", "{listed:?}");
    let text = stuck(&host, &options).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("/python3 on this host is stopped (SIGSTOP"),
        "{text}"
    );
}

fn ss_has_the_sockets(programs: &Programs, listed: &[Value], expected: &[Value]) {
    let sockets = programs.host.run("ss", &["-tniaHO"]).unwrap();
    for wait in listed {
        let address = |end: &str| wait[end].as_str().unwrap().to_owned();
        let remote = match wait["kind"].as_str() {
            Some("accept") => "0.0.0.0:*".to_owned(),
            _ => address("remote"),
        };
        let is_it = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            words[3] == address("local") && words[4] == remote
        };
        let line = sockets.lines().find(|line| is_it(line));
        let line = line.unwrap_or_else(|| panic!("{wait} {sockets}"));
        let noted = expected
            .iter()
            .find(|noted| expected_key(noted) == key(wait));
        if let Some(pushed) = noted.and_then(|noted| noted["pushed"].as_bool()) {
            let at_once = pushed && pause(line) <= tick();
            assert_eq!(wait["or_pushed_to"], at_once, "{wait} {line}");
        }
    }
}

/// TCP keeps these times in jiffies.
fn tick() -> Duration {
    clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)
        .unwrap()
        .into()
}

/// Return the time between the last data that came and the last that was sent. A busy machine lets
/// programs answer late, which are then told from those that wait for a push.
fn pause(line: &str) -> Duration {
    let ago = |field: &str| {
        let mut words = line.split_whitespace();
        let value = words.find_map(|word| word.strip_prefix(field));
        // `ss` leaves out what is 0.
        Duration::from_millis(value.map_or(0, |value| value.parse().unwrap()))
    };
    ago("lastrcv:").saturating_sub(ago("lastsnd:"))
}

fn the_status_tells_whether_something_waits(programs: &Programs, expected: &[Value]) {
    let answer = expected.iter().find(|wait| wait["kind"] == "answer");
    let pid = answer.unwrap()["pid"].to_string();
    let output = programs.stuck(&["-p", &pid, "--fail"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let line = text.lines().next().unwrap();
    let who = format!(" {pid}/python3@{} ", programs.host.netns_name());
    assert!(
        line.contains(" waits for an answer of 127.0.0.1:70"),
        "{text}"
    );
    assert!(line.contains(&who), "{text}");
    assert!(text.contains("\n1 wait of 10.0 ms or longer on "), "{text}");
    let output = programs
        .stuck(&["--fail", "--slow", "1m"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        output
            .stdout
            .starts_with(b"nothing is known to wait 60.0 s or longer, and ")
    );
}

/// An event loop that its own threads wake by a connection within the process, and one whose
/// program asks a service of its own, which still listens.
const OWN: &str = "
import select, socket, threading, time
def pair(keep):
    listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen(1)
    begins = socket.create_connection(listener.getsockname()); accepted, _ = listener.accept()
    if not keep: listener.close()
    loop = select.epoll(); loop.register(accepted, 1); loop.register(begins, 1)
    begins.sendall(b'.'); accepted.recv(9)
    return listener, begins, accepted, loop
kept = [pair(False), pair(True)]
for *_, loop in kept: threading.Thread(target=loop.poll, daemon=True).start()
print('ready', kept[1][0].getsockname()[1], flush=True)
time.sleep(600)
";

#[test]
fn nobody_waits_on_a_pair_by_which_a_process_wakes_itself() {
    let host = Host::new("own").unwrap();
    let mut process = host.spawn("python3", &["-c", OWN]).unwrap();
    process.wait_for_stdout("ready", PATIENCE).unwrap();
    let told = process.stdout();
    let service: u64 = told.trim().rsplit_once(' ').unwrap().1.parse().unwrap();
    let mut waits = Vec::new();
    wait_until("its threads wait", || {
        waits = listed(&host, &[]);
        !waits.is_empty()
    });
    let ports = |wait: &Value| [port(&wait["local"]), port(&wait["remote"])];
    assert!(
        waits.iter().all(|wait| ports(wait).contains(&service)),
        "{waits:?}"
    );
}
