//! Bounds of the time that a process computed while it had requests open, by its own clocks.

use std::collections::BTreeMap;

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// The CPU time of a process since a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// The moment.
    pub since: Timestamp<Monotonic>,
    /// The time that its tasks were on a CPU since.
    pub ran: Nanos,
    /// The time that its tasks waited for a CPU since.
    pub waited: Nanos,
    /// The time that the quota of its cgroup held its tasks since.
    pub held: Nanos,
    /// Bytes that it read from disks since, where that may be read.
    pub fetched: Option<u64>,
}

/// Say what processes did in the part of their services that is not known, where a bound tells.
/// `quick`: the time of all other requests of each.
pub(in crate::diagnosis) fn divide(
    waits: &mut [Slow],
    processes: &BTreeMap<u32, Cpu>,
    quick: &BTreeMap<u32, u64>,
) {
    for (&pid, cpu) in processes {
        let is_of = |wait: &Slow| {
            let is_service = wait.key.root == Node::Service && !wait.may_be_no_request();
            is_service && wait.pid == pid && wait.begin >= cpu.since.as_nanos()
        };
        let is_held = |wait: &&Slow| is_of(wait) && wait.parts.of(Node::ServiceThrottled) > 0;
        let held = waits.iter().filter(is_held).count();
        let spans = waits.iter().filter(|wait| is_of(wait));
        let open = union(spans.map(|wait| (wait.begin, wait.end)).collect());
        let quick = quick.get(&pid).copied().unwrap_or(0);
        let bound = match held {
            0 => cpu.bound(open, quick),
            _ => cpu.quota(open),
        };
        if let Some(node) = bound {
            for wait in waits.iter_mut().filter(|wait| is_of(wait)) {
                wait.parts.give(|node| node == Node::ServiceUnknown, node);
            }
        }
    }
}

impl Cpu {
    /// A task that sleeps behind one that is held waits for the quota, too: the process ran for
    /// most of the time with a request open, or was held, and was held for half of it. The time
    /// that its tasks waited for a CPU contains that in which they were held.
    fn quota(&self, open: u64) -> Option<Node> {
        let busy = self.ran.0.saturating_add(self.held.0);
        let is_most = busy.saturating_mul(5) >= open.saturating_mul(4);
        (is_most && self.held.0.saturating_mul(2) >= open).then_some(Node::ServiceThrottled)
    }

    /// Its tasks slept if all of their time is a quarter of the time with a request open; four
    /// fifths are most of it. They may have run for the `quick` requests as long as these took.
    fn bound(&self, open: u64, quick: u64) -> Option<Node> {
        let ran = self.ran.0.saturating_sub(quick);
        let is_most = open > 0 && ran.saturating_mul(5) >= open.saturating_mul(4);
        let busy = self.ran.0.saturating_add(self.waited.0);
        match is_most {
            true => Some(Node::ServiceRunning),
            false => (busy.saturating_mul(4) <= open).then_some(Node::ServiceAsleep),
        }
    }
}

/// Return the time in which any of these goes on.
pub(in crate::diagnosis) fn union(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let (mut sum, mut last) = (0, 0);
    for (begin, end) in spans {
        sum += end.saturating_sub(begin.max(last));
        last = last.max(end);
    }
    sum
}
