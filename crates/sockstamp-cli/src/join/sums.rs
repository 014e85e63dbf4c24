//! The messages of one direction, summed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sockstamp_join::Life;
use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::stage::{Stage, StageMap};

/// A life in the order of its total.
#[derive(Debug)]
struct ByTotal(Life);

impl ByTotal {
    fn key(&self) -> (Nanos, u64) {
        (self.0.total(), self.0.time.as_nanos())
    }
}

impl PartialEq for ByTotal {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ByTotal {}

impl PartialOrd for ByTotal {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByTotal {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Distributions of the stages, and the slowest messages.
pub(super) struct Sums {
    /// Stages of a message's path.
    stages: StageMap<Histogram>,
    pub(super) total: Histogram,
    pub(super) back: Histogram,
    /// The uncertainty of the times between the hosts.
    pub(super) error: Histogram,
    slowest: BinaryHeap<Reverse<ByTotal>>,
    keep: usize,
}

impl Sums {
    pub(super) fn new(keep: usize) -> Self {
        Self {
            stages: StageMap::from_fn(|_| Histogram::new()),
            total: Histogram::new(),
            back: Histogram::new(),
            error: Histogram::new(),
            slowest: BinaryHeap::new(),
            keep,
        }
    }

    pub(super) fn add(&mut self, life: &Life) {
        for (stage, duration) in life.present() {
            self.stages[stage].record(duration, life.weight);
        }
        self.total.record(life.total(), life.weight);
        if let Some(back) = life.back() {
            self.back.record(back, life.weight);
        }
        self.error.record(life.clocks.error, life.weight);
        self.keep_if_slow(life);
    }

    fn keep_if_slow(&mut self, life: &Life) {
        let is_slow = self
            .slowest
            .peek()
            .is_none_or(|Reverse(least)| life.total() > least.0.total());
        if self.slowest.len() < self.keep || (self.keep > 0 && is_slow) {
            self.slowest.push(Reverse(ByTotal(life.clone())));
        }
        if self.slowest.len() > self.keep {
            self.slowest.pop();
        }
    }

    /// Iterate over the stages that any message has.
    pub(super) fn stages(&self) -> impl Iterator<Item = (Stage, &Histogram)> {
        let all = Stage::WAY
            .into_iter()
            .map(|stage| (stage, &self.stages[stage]));
        all.filter(|(_, histogram)| !histogram.is_empty())
    }

    /// Return the slowest messages, the slowest first.
    pub(super) fn slowest(&self) -> Vec<&Life> {
        let mut slowest: Vec<_> = self.slowest.iter().map(|Reverse(life)| &life.0).collect();
        slowest.sort_by_key(|life| Reverse(life.total()));
        slowest
    }
}
