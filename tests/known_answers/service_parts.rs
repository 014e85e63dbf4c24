//! What a server does between a read and its answer: it computes, waits for a CPU, or sleeps. The
//! witnesses are the scheduler's counters that the server reads from its own `schedstat`.

use std::net::SocketAddr;

use serde_json::Value;
use testbed::{Host, PATIENCE, within_attempts};
use with::expected::{ms, within};
use with::{Stat, number, stage};

const REQUESTS: u64 = 10;

/// Computes for 20 ms of its own time, or sleeps as long, as it is asked; at the end it prints for
/// how long it ran, waited for a CPU, and slept, in all of its answers.
const SERVER: &str = "
import os, socket, time
os.sched_setaffinity(0, {0})
def counters(): return [int(word) for word in open('/proc/thread-self/schedstat').read().split()[:2]]
s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', 8001)); s.listen(9)
c = s.accept()[0]; spent = [0, 0, 0]
while asked := c.recv(9):
    began = time.monotonic_ns(); before = counters()
    if asked == b'sleep': time.sleep(0.02)
    end = time.thread_time() + 0.02
    while asked == b'work' and time.thread_time() < end: pass
    ran, waited = [after - old for after, old in zip(counters(), before)]
    whole = time.monotonic_ns() - began
    spent = [sum(pair) for pair in zip(spent, [ran, waited, max(0, whole - ran - waited)])]
    c.sendall(b'done')
print(*spent, flush=True)
";

const CLIENT: &str = "
import socket, sys
c = socket.create_connection(('127.0.0.1', 8001))
for _ in range(10): c.sendall(sys.argv[1].encode()); c.recv(9)
";

/// Computes beside the server, on its CPU.
const NEIGHBOUR: &str = "
import os
os.sched_setaffinity(0, {0})
print('computes', flush=True)
while True: pass
";

/// Return the report of `stat` of such requests, and what the server spent by its own counters.
fn measure(host: &Host, request: &str) -> (Value, [u64; 3]) {
    let server = host.spawn("python3", &["-c", SERVER]).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 8001));
    host.wait_for_port(address, PATIENCE).unwrap();
    let stat = Stat::start(&["-p", &server.id().to_string()]);
    host.run("python3", &["-c", CLIENT, request]).unwrap();
    let spent = server.wait(PATIENCE).unwrap();
    let report = stat.finish();
    let spent: Vec<u64> = spent
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    println!("{spent:?} {report}");
    (report, spent.try_into().unwrap())
}

fn part(report: &Value, part: &str) -> u64 {
    report["tx"]["parts"]["app.service"][part]["sum_ns"]
        .as_u64()
        .unwrap_or(0)
}

/// The parts are those of the server's own counters, and add up to the stage.
fn are_the_servers(report: &Value, [ran, waited, slept]: [u64; 3]) -> Result<(), String> {
    let slack = REQUESTS * ms(1);
    let near = |value: u64| value.saturating_sub(slack)..=value + slack;
    within("running", part(report, "running"), near(ran))?;
    within("runnable", part(report, "runnable"), near(waited))?;
    within("blocked", part(report, "blocked"), near(slept))?;
    assert_eq!(stage(report, "app.service", "count"), REQUESTS);
    let whole = number(&report["tx"]["stages"]["app.service"]["sum_ns"]);
    let known: u64 = ["running", "runnable", "throttled", "blocked"]
        .map(|name| part(report, name))
        .iter()
        .sum();
    assert!(known <= whole, "{report}");
    within("known", known, whole / 10 * 9..=whole)
}

#[test]
fn a_server_that_computes_runs() {
    let host = Host::new("service").unwrap();
    within_attempts(|| {
        let (report, spent) = measure(&host, "work");
        within("its own", spent[0], REQUESTS * ms(20)..=REQUESTS * ms(30))?;
        are_the_servers(&report, spent)
    });
}

#[test]
fn a_server_that_sleeps_is_blocked() {
    let host = Host::new("service").unwrap();
    within_attempts(|| {
        let (report, spent) = measure(&host, "sleep");
        within("its own", spent[2], REQUESTS * ms(19)..=REQUESTS * ms(30))?;
        are_the_servers(&report, spent)
    });
}

#[test]
fn a_server_beside_a_neighbour_waits_for_its_cpu() {
    let host = Host::new("service").unwrap();
    let mut neighbour = host.spawn("python3", &["-c", NEIGHBOUR]).unwrap();
    neighbour.wait_for_stdout("computes", PATIENCE).unwrap();
    within_attempts(|| {
        let (report, spent) = measure(&host, "work");
        within("its own", spent[1], REQUESTS * ms(5)..=REQUESTS * ms(60))?;
        are_the_servers(&report, spent)
    });
}

/// Takes 30 ms for each answer, and notes how many it gave.
const UPSTREAM: &str = "
import socket, time
s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', 8003)); s.listen(9)
c = s.accept()[0]
while c.recv(9): time.sleep(0.03); c.sendall(b'done')
";

/// Asks twice for each request, by its only connection; at the end it prints for how long its
/// requests asked and waited for that connection, and the number of its questions.
const PROXY: &str = "
import socket, threading, time
upstream = socket.create_connection(('127.0.0.1', 8003)); free = threading.Lock()
spent = [0, 0, 0]
def serve(c):
    while c.recv(9):
        for _ in range(2):
            began = time.monotonic_ns()
            with free:
                got = time.monotonic_ns()
                upstream.sendall(b'ask'); upstream.recv(9)
                spent[0] += time.monotonic_ns() - got
                spent[1] += got - began; spent[2] += 1
        c.sendall(b'done')
s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', 8002)); s.listen(9)
threads = [threading.Thread(target=serve, args=s.accept()[:1]) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*spent, flush=True)
";

const CLIENTS: &str = "
import socket, threading, time
cs = [socket.create_connection(('127.0.0.1', 8002)) for _ in range(3)]
def ask(c):
    for _ in range(5): c.sendall(b'please'); c.recv(9); time.sleep(0.1)
threads = [threading.Thread(target=ask, args=(c,)) for c in cs]
for thread in threads: thread.start()
for thread in threads: thread.join()
";

/// A question takes its share of the time of the request that asks; the others wait for their turn.
#[test]
fn a_proxy_with_one_connection_asks_and_has_others_wait_for_their_turn() {
    let host = Host::new("proxy").unwrap();
    within_attempts(|| {
        let upstream = host.spawn("python3", &["-c", UPSTREAM]).unwrap();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        host.wait_for_port(address(8003), PATIENCE).unwrap();
        let proxy = host.spawn("python3", &["-c", PROXY]).unwrap();
        host.wait_for_port(address(8002), PATIENCE).unwrap();
        let stat = Stat::start(&["-p", &proxy.id().to_string()]);
        host.run("python3", &["-c", CLIENTS]).unwrap();
        let spent = proxy.wait(PATIENCE).unwrap();
        let report = stat.finish();
        drop(upstream);
        let spent: Vec<u64> = spent
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let [asked, waited, questions] = spent[..] else {
            panic!("{spent:?}");
        };
        let service = &report["diagnosis"]["services"][0];
        println!("{spent:?} {service}");
        assert_eq!(number(&service["count"]), 15);
        let to = &service["asked"][0];
        assert_eq!(to["peer"], "127.0.0.1:8003");
        assert_eq!((number(&to["questions"]), questions), (30, 30));
        let part = |node: &str| service["parts"][node].as_u64().unwrap_or(0);
        let near = |value: u64| value / 10 * 8..=value / 10 * 12;
        within("asks", part("service.asks"), near(asked))?;
        within("turn", part("service.turn"), near(waited))
    });
}
