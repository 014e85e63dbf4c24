//! What requests of a process wait for, by counts of its open requests and of its own questions.
//!
//! Hand-overs between its tasks cannot be seen, so the time of each instant is divided among the
//! requests that are open then: as many as there are questions ask, the rest wait for their turn if
//! the process has as many questions under way as it ever has.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::flows::Served;
use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// Divide what is not known of the services of each process.
pub(in crate::diagnosis) fn divide(waits: &mut [Slow], served: &Served) {
    let mut processes = BTreeMap::<u32, Vec<Change>>::new();
    for wait in waits.iter().filter(|wait| wait.pid != 0) {
        let (requests, questions) = match wait.key.root {
            Node::Service if wait.may_be_no_request() => continue,
            Node::Service => (1, 0),
            _ if served.waits_for(wait) => (0, 1),
            _ => continue,
        };
        let changes = processes.entry(wait.pid).or_default();
        changes.push(Change {
            at: wait.begin,
            requests,
            questions,
        });
        changes.push(Change {
            at: wait.end,
            requests: -requests,
            questions: -questions,
        });
    }
    let clocks: BTreeMap<_, _> = processes
        .into_iter()
        .map(|(pid, changes)| (pid, Clock::new(changes)))
        .collect();
    let asked = asked(waits, served);
    for wait in waits
        .iter_mut()
        .filter(|wait| wait.key.root == Node::Service)
    {
        let Some(clock) = clocks.get(&wait.pid) else {
            continue;
        };
        let spent = clock.between(wait.begin, wait.end);
        wait.seen.questions_at_once = clock.most;
        wait.seen.asked = asked.get(&wait.pid).copied();
        for (node, time) in [
            (Node::ServiceAsks, spent.asks),
            (Node::ServiceTurn, spent.turn),
        ] {
            let mut left = time;
            // A task that asks, or that waits for its turn, sleeps.
            for from in [Node::ServiceAsleep, Node::ServiceUnknown] {
                let time = left.min(wait.parts.of(from));
                wait.parts.shift(from, node, time);
                left -= time;
            }
        }
    }
}

/// Return the service that has four fifths of the time of each process' questions, and the usual
/// time of its answers.
fn asked(waits: &[Slow], served: &Served) -> BTreeMap<u32, (SocketAddr, u64)> {
    let mut processes = BTreeMap::<u32, BTreeMap<SocketAddr, Vec<u64>>>::new();
    let asks =
        |wait: &&Slow| wait.key.root == Node::Answer && !wait.is_unix() && served.waits_for(wait);
    for wait in waits.iter().filter(asks) {
        let services = processes.entry(wait.pid).or_default();
        let times = services.entry(wait.key.service).or_default();
        times.push(wait.time());
    }
    let most = |(pid, services): (u32, BTreeMap<SocketAddr, Vec<u64>>)| {
        let whole: u64 = services.values().flatten().sum();
        let carries = |times: &[u64]| times.iter().sum::<u64>() * 5 >= whole * 4;
        let (service, mut times) = services.into_iter().find(|(_, times)| carries(times))?;
        times.sort_unstable();
        Some((pid, (service, times[times.len() / 2])))
    };
    processes.into_iter().filter_map(most).collect()
}

/// More or fewer open requests and questions of a process.
#[derive(Debug, Clone, Copy)]
struct Change {
    at: u64,
    requests: i64,
    questions: i64,
}

/// Each request's share of the time so far.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    at: u64,
    asks: u64,
    turn: u64,
}

/// The shares at each change.
struct Clock {
    shares: Vec<Spent>,
    /// As many questions as ever were under way at once.
    most: u64,
}

impl Clock {
    fn new(mut changes: Vec<Change>) -> Self {
        changes.sort_unstable_by_key(|change| change.at);
        let most = most_questions(&changes);
        let (mut requests, mut questions) = (0_i64, 0_i64);
        let mut spent = Spent::default();
        let mut all = Vec::with_capacity(changes.len());
        for change in changes {
            let time = change.at.saturating_sub(spent.at);
            let (open, asking) = (requests.unsigned_abs(), questions.unsigned_abs());
            let asking = asking.min(open);
            spent.at = change.at;
            spent.asks += share(time, asking, open);
            if questions >= most && asking > 0 {
                spent.turn += share(time, open - asking, open);
            }
            all.push(spent);
            requests += change.requests;
            questions += change.questions;
        }
        Self {
            shares: all,
            most: most.unsigned_abs(),
        }
    }

    /// Return the shares between two changes.
    fn between(&self, begin: u64, end: u64) -> Spent {
        let at = |moment| {
            let place = self.shares.partition_point(|spent| spent.at < moment);
            self.shares.get(place).copied().unwrap_or_default()
        };
        let (from, to) = (at(begin), at(end));
        Spent {
            at: end,
            asks: to.asks.saturating_sub(from.asks),
            turn: to.turn.saturating_sub(from.turn),
        }
    }
}

/// Return as many questions as it ever has under way, for a tenth of the time with any: an answer
/// that is read late overlaps with the next question for an instant.
fn most_questions(changes: &[Change]) -> i64 {
    let mut levels = BTreeMap::<i64, u64>::new();
    let (mut open, mut last) = (0, 0);
    for change in changes {
        *levels.entry(open).or_default() += change.at.saturating_sub(last);
        open += change.questions;
        last = change.at;
    }
    levels.retain(|open, _| *open > 0);
    let whole: u64 = levels.values().sum();
    let mut above = 0;
    let mut levels = levels.into_iter().rev();
    let is_enough = |(_, time): &(i64, u64)| {
        above += time;
        above > 0 && above.saturating_mul(10) >= whole
    };
    levels.find(is_enough).map_or(0, |(level, _)| level)
}

fn share(time: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(time) * u128::from(part);
    let share = share.checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(share).unwrap_or(u64::MAX)
}
