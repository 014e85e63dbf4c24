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
