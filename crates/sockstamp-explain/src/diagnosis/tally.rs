//! The tally: lost time by node, and counts, of each key.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sockstamp_model::clock::Nanos;
use sockstamp_model::name::Name;
use sockstamp_model::wait::{Attempts, End, UnixAttempts};

use super::evidence::sleep::Sleep;
use super::slow::{Key, Parts, Slow};
use super::tree::Node;

/// A failure costs no time; for the order of findings it counts as this much.
pub(super) const FAILURE: u64 = 1_000_000_000;

/// All waits of a key, short ones included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) count: u64,
    pub(super) failed: u64,
    pub(super) sum_ns: u128,
    /// Slow answers that ended when another client's message was read.
    pub(super) prompted: u64,
}

impl Tried {
    pub(super) fn add(&mut self, more: &Attempts) {
        self.count = self.count.saturating_add(more.count);
        self.failed = self.failed.saturating_add(more.failed);
        self.sum_ns = self.sum_ns.saturating_add(more.sum_ns);
        self.prompted = self.prompted.saturating_add(more.prompted);
    }

    pub(super) fn add_unix(&mut self, more: &UnixAttempts) {
        self.count = self.count.saturating_add(more.count);
        self.failed = self.failed.saturating_add(more.failed);
        self.sum_ns = self.sum_ns.saturating_add(more.sum_ns);
    }

    pub(super) fn and(self, more: Self) -> Self {
        Self {
            count: self.count.saturating_add(more.count),
            failed: self.failed.saturating_add(more.failed),
            sum_ns: self.sum_ns.saturating_add(more.sum_ns),
            prompted: self.prompted.saturating_add(more.prompted),
        }
    }

    pub(super) fn mean(&self) -> Option<Nanos> {
        let mean = self.sum_ns.checked_div(u128::from(self.count))?;
        Some(Nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }
}

/// A wait that lost enough to count, or that failed.
#[derive(Debug, Clone)]
pub(super) struct Counted<'a> {
    pub(super) wait: &'a Slow,
    pub(super) lost: Parts,
}

/// What one key lost.
#[derive(Debug, Clone, Default)]
pub(super) struct Account<'a> {
    pub(super) counted: Vec<Counted<'a>>,
    /// Of failures, where they are counted apart.
    pub(super) failure: Option<End>,
    pub(super) programs: BTreeSet<Name>,
    pub(super) services: BTreeSet<SocketAddr>,
    /// All attempts of its keys, where they were counted.
    pub(super) tried: Option<Tried>,
    /// Answers of its services that came otherwise.
    pub(super) answered: u64,
    /// Answers of its services that came to whatever program.
    pub(super) answered_to_any: u64,
    /// Questions to the peer for whose data its tasks sleep.
    pub(super) asked: Option<Tried>,
}

impl<'a> Account<'a> {
    pub(super) fn add(&mut self, key: &Key, counted: Counted<'a>) {
        self.programs.insert(key.program.clone());
        self.services.insert(key.service);
        self.counted.push(counted);
    }

    /// Count questions that were asked again among those that were tried: the answer that comes
    /// then may be that to either, and is not counted.
    pub(super) fn try_again(&mut self) {
        let again = self.counted.len() as u64;
        if let (Some(End::AskedAgain), Some(tried)) = (self.failure, &mut self.tried) {
            tried.count = tried.count.saturating_add(again);
            tried.failed = tried.failed.saturating_add(again);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.counted.extend(other.counted);
        self.programs.extend(other.programs);
        self.services.extend(other.services);
        self.answered = self.answered.saturating_add(other.answered);
        self.answered_to_any = self.answered_to_any.saturating_add(other.answered_to_any);
        self.tried = match (self.tried, other.tried) {
            (Some(mine), Some(more)) => Some(mine.and(more)),
            _ => None,
        };
    }

    /// Return true for so few waits of a service that pushes, too, that they may be more of the
    /// same: no look shows tasks that do anything for them but wait for each other.
    pub(super) fn may_be_pushed(&self) -> bool {
        const MANY: usize = 3;
        let is_idle = |counted: &Counted<'_>| {
            let seen = &counted.wait.seen;
            let slept = seen.slept.as_ref().map(|slept| &slept.sleep);
            let sleeps = slept.is_none_or(|slept| {
                matches!(slept, Sleep::Idle | Sleep::More) || slept.is_own_lock()
            });
            sleeps && seen.ran.is_none() && counted.wait.key.root == Node::Service
        };
        self.failure.is_none() && self.counted.len() < MANY && self.counted.iter().all(is_idle)
    }

    /// Return those waits that have most of their lost time at a node, if they carry four fifths of
    /// the whole.
    pub(super) fn focused(&self, node: Node) -> Option<Self> {
        let is_mostly = |counted: &&Counted<'_>| counted.lost.of(node) * 2 >= counted.lost.whole();
        let counted: Vec<_> = self.counted.iter().filter(is_mostly).cloned().collect();
        let focused = Self {
            counted,
            ..self.clone()
        };
        // Single questions tell nothing of look-ups that take several.
        let is_chain = matches!(
            node,
            Node::AnswerChain | Node::AnswerTrips | Node::AnswerSteps
        );
        let carries = u128::from(focused.lost()) * 5 >= u128::from(self.lost()) * 4;
        (carries || is_chain).then_some(focused)
    }

    /// Return the lost time; failures count as a second each.
    pub(super) fn lost(&self) -> u64 {
        let lost = |counted: &Counted<'_>| match self.failure {
            Some(_) => FAILURE,
            None => counted.lost.whole(),
        };
        self.counted
            .iter()
            .fold(0, |sum, counted| sum.saturating_add(lost(counted)))
    }

    /// Return the lost time by node.
    pub(super) fn parts(&self) -> Parts {
        let mut parts = Parts::default();
        for counted in &self.counted {
            parts.merge(&counted.lost);
        }
        parts
    }

    pub(super) fn root(&self) -> Option<Node> {
        self.counted.first().map(|counted| counted.wait.key.root)
    }

    /// Return the paths of its services behind Unix sockets.
    pub(super) fn paths(&self) -> BTreeSet<Name> {
        let paths = self.counted.iter().map(|counted| &counted.wait.seen.path);
        paths.flatten().cloned().collect()
    }

    /// Return the process at the other end, if that is one on this host.
    pub(super) fn server(&self) -> Option<u32> {
        let seen = self.counted.iter().map(|counted| &counted.wait.seen);
        let there = seen.map(|seen| seen.there.as_ref()?.process.as_ref());
        let pids: Option<BTreeSet<u32>> = there.map(|there| Some(there?.0)).collect();
        match pids?.into_iter().collect::<Vec<_>>()[..] {
            [pid] if pid != 0 => Some(pid),
            _ => None,
        }
    }

    /// Return the lost time by peer, the most first.
    pub(super) fn peers(&self) -> Vec<(IpAddr, u64)> {
        let mut peers = BTreeMap::<IpAddr, u64>::new();
        for counted in &self.counted {
            let lost = counted.lost.whole().max(1);
            let sum = peers.entry(counted.wait.peer()).or_default();
            *sum = sum.saturating_add(lost);
        }
        let mut peers: Vec<_> = peers.into_iter().collect();
        peers.sort_by_key(|&(_, lost)| std::cmp::Reverse(lost));
        peers
    }

    /// Return the lengths of its occasions: waits that overlap are one.
    pub(super) fn occasions(&self) -> Vec<u64> {
        let mut spans: Vec<_> = self
            .counted
            .iter()
            .map(|counted| (counted.wait.begin, counted.wait.end))
            .collect();
        spans.sort_unstable();
        let mut occasions: Vec<(u64, u64)> = Vec::new();
        for (begin, end) in spans {
            match occasions.last_mut() {
                Some((_, last)) if begin <= *last => *last = end.max(*last),
                _ => occasions.push((begin, end)),
            }
        }
        occasions
            .into_iter()
            .map(|(begin, end)| end - begin)
            .collect()
    }

    /// Return the number of connections that it is about: those that were there before, and of new
    /// ones as many as waited at one moment.
    pub(super) fn connections(&self) -> usize {
        let waits = || self.counted.iter().map(|counted| counted.wait);
        let old: BTreeSet<_> = waits()
            .filter(|wait| !wait.is_new)
            .map(Slow::socket)
            .collect();
        let new = waits().filter(|wait| wait.is_new);
        (old.len() + most_at_once(new.map(|wait| (wait.begin, wait.end)))).max(1)
    }

    /// Return true if a tenth of its waits begins while another one goes on.
    pub(super) fn is_crowded(&self) -> bool {
        let beside = self.counted.len() - self.occasions().len();
        beside * 10 >= self.counted.len()
    }

    /// Return the sorted times of its waits.
    pub(super) fn times(&self) -> Vec<u64> {
        let mut times: Vec<_> = self
            .counted
            .iter()
            .map(|counted| counted.wait.time())
            .collect();
        times.sort_unstable();
        times
    }
}

/// Return how many of these go on at one moment, at most.
pub(super) fn most_at_once(spans: impl Iterator<Item = (u64, u64)>) -> usize {
    let mut changes: Vec<_> = spans
        .flat_map(|(begin, end)| [(begin, true), (end, false)])
        .collect();
    changes.sort_unstable();
    let open = changes.into_iter().scan(0_usize, |open, (_, begins)| {
        *open = if begins {
            *open + 1
        } else {
            open.saturating_sub(1)
        };
        Some(*open)
    });
    open.max().unwrap_or(0)
}

/// Return what a number of failures counts as.
pub(super) fn failures(count: u64) -> Nanos {
    Nanos(count.saturating_mul(FAILURE))
}
