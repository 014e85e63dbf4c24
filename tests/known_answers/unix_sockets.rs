//! Questions over Unix sockets: a service that takes 300 ms, by the client's own clock; one that is
//! quick, a log and a subscription, which are none; one that never answers.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::{Host, PATIENCE, Process, within_attempts};
use with::bpf_objects::bpf_objects;
use with::unix::Service;
use with::{number, sockstamp, stat_command, wait_attached, wait_until};

/// Asks five times on one connection, or each time on a new one, once a file is there, and prints
/// the nanoseconds that the answers took.
pub(crate) const ASKS: &str = "
import os, socket, sys, time
def connect():
    c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); return c
c, spent = connect(), 0
if len(sys.argv) > 4: open(sys.argv[4], 'w').close()
while not os.path.exists(sys.argv[3]): time.sleep(0.01)
for _ in range(5):
    if sys.argv[2] == 'anew': c = connect()
    begun = time.monotonic_ns(); c.sendall(b'question'); c.recv(99)
    spent += time.monotonic_ns() - begun; time.sleep(0.05)
print(spent)
";

/// Asks five times, and reads each answer of two parts; prints the nanoseconds until the first one.
const READS_PARTS: &str = "
import socket, sys, time
c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); spent = 0
for _ in range(5):
    begun = time.monotonic_ns(); c.sendall(b'question'); first = c.recv(6)
    spent += time.monotonic_ns() - begun
    while len(first) < 12: first += c.recv(12)
    time.sleep(0.01)
print(spent)
";

/// Answers on as many connections as come.
const SERVES_MANY: &str = "
import resource, select, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(50)
loop, kept = select.epoll(), {}
loop.register(s, 1)
while True:
    for of, _ in loop.poll():
        if of == s.fileno():
            c = s.accept()[0]; kept[c.fileno()] = c; loop.register(c, 1)
        elif kept[of].recv(99): kept[of].send(b'answer')
        else: loop.unregister(of); del kept[of]
";

/// Asks once on each of many connections, and keeps them.
const ASKS_MANY: &str = "
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
kept = []
for _ in range(int(sys.argv[2])):
    c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); kept.append(c)
    c.sendall(b'question'); c.recv(99)
";

/// Asks once, and reads whatever comes for three seconds.
const LISTENS: &str = "
import socket, sys, time
c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.settimeout(0.1)
c.sendall(b'subscribe'); end = time.monotonic() + 3
while time.monotonic() < end:
    try: c.recv(99)
    except TimeoutError: pass
";

/// Sends lines, and reads nothing.
const LOGS: &str = "
import socket, sys, time
c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1])
for line in range(20): c.sendall(b'line %d of many' % line); time.sleep(0.05)
";

/// Measure a client; return what it printed, and the report.
fn measured(host: &Host, script: &str, path: &Path, options: &[&str]) -> (String, Value) {
    let path = path.to_str().unwrap();
    let words = [&["python3", "-c", script, path], options].concat();
    let measured = stat_command(host, &words);
    (measured.stdout, measured.report)
}

fn waits(report: &Value) -> Vec<&Value> {
    println!("{} {}", report["diagnosis"], report["waits"]);
    let waits = report["waits"].as_array().unwrap().iter();
    waits.filter(|wait| wait["protocol"] == "unix").collect()
}

fn findings(report: &Value) -> Vec<&Value> {
    let findings = report["diagnosis"]["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| !finding["unix"].is_null())
        .collect()
}

#[test]
fn a_slow_service_behind_a_unix_socket_is_found_with_the_time_of_its_client() {
    let host = Host::new("unix").unwrap();
    let service = Service::start(&host, ["0.3", "1", "0"]);
    for how in ["again", "anew"] {
        within_attempts(|| {
            let (spent, report) = measured(&host, ASKS, &service.path(), &[how, "/"]);
            let spent: u64 = spent.trim().parse().unwrap();
            let waits = waits(&report);
            let found: u64 = waits.iter().map(|wait| number(&wait["lasted_ns"])).sum();
            assert_eq!(waits.len(), 5);
            if found > spent || found * 100 < spent * 95 {
                return Err(format!("{found} of {spent} ns"));
            }
            for wait in waits {
                assert_eq!(wait["remote"], service.path().to_str().unwrap());
                assert_eq!(wait["server"]["pid"], service.process.id());
                assert_eq!(wait["end"], "data");
                assert_eq!(wait["comm"], "python3");
            }
            let findings = findings(&report);
            let [finding] = findings[..] else {
                panic!("{findings:?}");
            };
            assert_eq!(finding["node"], "answer.unix");
            assert_eq!(finding["count"], 5);
            assert_eq!(finding["tried"], 5);
            let sentence = finding["sentence"].as_str().unwrap();
            let pid = service.process.id();
            assert!(
                sentence.contains(&format!("python3 (PID {pid}), on this host")),
                "{sentence}"
            );
            Ok(())
        });
    }
}

/// The client's own clock tells when the first part of each came.
#[test]
fn an_answer_in_two_parts_over_a_unix_socket_takes_until_the_first() {
    let host = Host::new("unix").unwrap();
    let service = Service::start(&host, ["0.1", "2", "0.2"]);
    within_attempts(|| {
        let (spent, report) = measured(&host, READS_PARTS, &service.path(), &[]);
        let spent: u64 = spent.trim().parse().unwrap();
        let waits = waits(&report);
        let found: u64 = waits.iter().map(|wait| number(&wait["lasted_ns"])).sum();
        assert_eq!(waits.len(), 5);
        match found <= spent && found * 100 >= spent * 95 {
            true => Ok(()),
            false => Err(format!("{found} of {spent} ns")),
        }
    });
}

/// The programs have room for so many connections.
const ROOM: u64 = 8192;
/// The error of a count of elements, which is divided between CPUs.
const BATCH: u64 = 64;

#[test]
fn connections_over_unix_sockets_without_room_are_counted() {
    const OTHERS: u64 = 200;
    let host = Host::new("unix").unwrap();
    let service = Service::of(&host, SERVES_MANY, &[]);
    let all = (ROOM + OTHERS).to_string();
    let (_, report) = measured(&host, ASKS_MANY, &service.path(), &[&all]);
    let notes = report["diagnosis"]["notes"].as_array().unwrap().iter();
    let mut notes = notes.filter_map(Value::as_str);
    let note = notes.find(|note| note.contains("counts of quick waits"));
    let count = note.and_then(|note| note.split(' ').next()?.parse::<u64>().ok());
    let count = count.unwrap_or_else(|| panic!("{}", report["diagnosis"]));
    let expected = OTHERS - BATCH..=OTHERS + BATCH;
    assert!(expected.contains(&count), "{count}");
}

#[test]
fn what_is_no_slow_answer_over_a_unix_socket_is_silent() {
    let host = Host::new("unix").unwrap();
    let quick = Service::start(&host, ["0", "1", "0"]);
    let pushes = Service::start(&host, ["0", "30", "0.08"]);
    let reads = Service::start(&host, ["0", "0", "0"]);
    // A machine that is slow makes quick answers slow.
    within_attempts(|| {
        let (_, report) = measured(&host, ASKS, &quick.path(), &["again", "/"]);
        match waits(&report)[..] {
            [] => Ok(()),
            _ => Err(format!("{}", report["waits"])),
        }
    });
    for (script, service) in [(LISTENS, &pushes), (LOGS, &reads)] {
        within_attempts(|| {
            let (_, report) = measured(&host, script, &service.path(), &[]);
            assert!(findings(&report).is_empty());
            match waits(&report)[..] {
                [] => Ok(()),
                _ => Err(format!("{}", report["waits"])),
            }
        });
    }
}

/// Programs for Unix sockets.
const PROGRAMS: usize = 4;

/// Measure a process from now on.
fn stat_of(host: &Host, process: &Process) -> Process {
    let mut stat = host.command(sockstamp());
    stat.args(["stat", "-p", &process.id().to_string(), "--format", "json"]);
    let mut stat = Process::spawn(stat).unwrap();
    wait_attached(&mut stat);
    stat
}

/// The client has connected before the measurement, and asks in it.
#[test]
fn an_open_question_over_a_unix_socket_has_its_owner_and_its_age() {
    let host = Host::new("unix").unwrap();
    let service = Service::start(&host, ["60", "1", "0"]);
    let [go, ready] = ["go", "ready"].map(|name| service.folder.path().join(name));
    let mut client = host.command("python3");
    client.args(["-c", ASKS]).arg(service.path()).arg("again");
    client.args([&go, &ready]);
    let client = Process::spawn(client).unwrap();
    wait_until("the client is connected", || fs::exists(&ready).unwrap());
    let stat = stat_of(&host, &client);
    // Who asks nobody has none of these programs run for it.
    let mut idle = host.command("sleep");
    idle.arg("600");
    let idle = Process::spawn(idle).unwrap();
    let other = stat_of(&host, &idle);
    let [asks, waits_for_nobody] = [&stat, &other].map(|stat| bpf_objects(stat)[0].len());
    assert_eq!(asks, waits_for_nobody + PROGRAMS);
    let before = Instant::now();
    fs::write(&go, "").unwrap();
    thread::sleep(Duration::from_secs(2));
    // The client looks for the file, and may do so late.
    let least = before.elapsed() - Duration::from_secs(1);
    stat.signal(Signal::SIGINT).unwrap();
    let report = stat.wait(PATIENCE).unwrap();
    let most = before.elapsed();
    let report: Value = serde_json::from_str(&report).unwrap();
    let waits = waits(&report);
    let [wait] = waits[..] else {
        panic!("{waits:?}");
    };
    assert_eq!(wait["end"], "open");
    assert_eq!(wait["pid"], client.id());
    assert_eq!(wait["server"]["pid"], service.process.id());
    let lasted = Duration::from_nanos(number(&wait["lasted_ns"]));
    assert!((least..most).contains(&lasted), "{lasted:?}");
}
