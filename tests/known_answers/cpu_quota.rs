//! A server whose cgroup has a CPU quota: messages have what it took of them. The witness is
//! `cpu.stat` of the cgroup.

use std::time::Duration;

use serde_json::Value;
use testbed::{Cgroup, Family, PATIENCE, Process, within_attempts};
use with::expected::{ms, within, within_clock};
use with::pair::Pair;
use with::{Trace, of_direction, peer};

const PERIOD: Duration = Duration::from_millis(50);
/// A server that computes 5 ms for each answer uses it up with the second one of a period.
const QUOTA: Duration = Duration::from_millis(10);

/// A server on one CPU, so that the time of its cgroup is that of its only task.
struct Held {
    pair: Pair,
    cgroup: Cgroup,
    _server: Process,
}

impl Held {
    fn new() -> Held {
        let pair = Pair::veth(Family::V4);
        let mut cgroup = Cgroup::new("quota").unwrap();
        cgroup.set_cpu_quota(QUOTA, PERIOD).unwrap();
        let mut server = pair.server.command("taskset");
        let port = pair.address.port().to_string();
        server.args(["--cpu-list", "0", &peer()]);
        server.args(["serve", "--port", &port, "--compute", "5"]);
        cgroup.start_in(&mut server).unwrap();
        let server = Process::spawn(server).unwrap();
        pair.server.wait_for_port(pair.address, PATIENCE).unwrap();
        Held {
            pair,
            cgroup,
            _server: server,
        }
    }

    /// Return the server's messages, and how long its cgroup was held meanwhile, in nanoseconds.
    fn messages(&self) -> (Vec<Value>, u64) {
        let trace = Trace::start(&["--netns", self.pair.server.netns_name()]);
        let before = self.cgroup.cpu_throttled().unwrap();
        self.pair.run_peer("client --count 40");
        let held = self.cgroup.cpu_throttled().unwrap() - before;
        (trace.finish(), u64::try_from(held.as_nanos()).unwrap())
    }
}

/// Return the time of a part in all messages of a direction.
fn sum(messages: &[Value], direction: &str, stage: &str, part: &str) -> u64 {
    let time = |message: &&Value| message["parts"][stage][part].as_u64();
    of_direction(messages, direction)
        .iter()
        .filter_map(time)
        .sum()
}

/// Since Linux 6.18 a task is held on its way back to user space, so between its read and its
/// answer, or between its answer and the next read; before, wherever it runs.
#[test]
fn what_a_quota_holds_is_a_part_of_messages() {
    let held = Held::new();
    within_attempts(|| {
        let (messages, witness) = held.messages();
        let throttled = [("tx", "app.service"), ("rx", "rx.app"), ("rx", "rx.wakeup")]
            .map(|(direction, stage)| sum(&messages, direction, stage, "throttled"));
        println!("throttled {throttled:?}, cpu.stat {witness}");
        within("held", witness, ms(50)..=u64::MAX)?;
        let told = throttled.iter().sum();
        within_clock("throttled", told, witness * 95 / 100, witness * 101 / 100)
    });
}

/// Two tasks on one CPU wait for each other, not for a quota.
#[test]
fn a_neighbour_is_no_quota() {
    let pair = Pair::veth(Family::V4);
    let port = pair.address.port().to_string();
    let mut busy = pair.server.command("taskset");
    busy.args(["--cpu-list", "0", "sh", "-c", "while :; do :; done"]);
    let _busy = Process::spawn(busy).unwrap();
    let mut server = pair.server.command("taskset");
    server.args(["--cpu-list", "0", &peer()]);
    server.args(["serve", "--port", &port, "--compute", "5"]);
    let _server = Process::spawn(server).unwrap();
    pair.server.wait_for_port(pair.address, PATIENCE).unwrap();
    let trace = Trace::start(&["--netns", pair.server.netns_name()]);
    // A request at once after an answer may find the server still on its way to the next read.
    pair.run_peer("client --count 20 --interval-ms 10");
    let messages = trace.finish();
    let throttled = |direction, stage| sum(&messages, direction, stage, "throttled");
    assert_eq!(throttled("tx", "app.service"), 0);
    assert_eq!(throttled("rx", "rx.app") + throttled("rx", "rx.wakeup"), 0);
    assert!(
        sum(&messages, "rx", "rx.wakeup", "runqueue") > 0,
        "{messages:?}"
    );
}
