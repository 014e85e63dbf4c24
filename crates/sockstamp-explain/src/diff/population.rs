//! The messages of one side, by flow and by time.

use std::collections::BTreeMap;

use sockstamp_model::message::Message;

use super::buckets::Buckets;
use super::measure::Measure;

/// Groups of flows, and windows of time, that are kept apart: half of them are enough.
const MOST: usize = 40;

/// The durations of a group of flows, or of a window.
#[derive(Debug, Clone, Default)]
pub(super) struct Cluster {
    pub(super) measures: BTreeMap<Measure, Buckets>,
}

impl Cluster {
    fn add(&mut self, message: &Message) {
        for (measure, duration) in Measure::of(message) {
            let buckets = self.measures.entry(measure).or_default();
            buckets.add(duration, message.weight.into());
        }
    }

    pub(super) fn merge(&mut self, other: &Self, times: u64) {
        for (measure, buckets) in &other.measures {
            self.measures
                .entry(*measure)
                .or_default()
                .merge(buckets, times);
        }
    }
}

/// Clusters by a number, neighbours of which become one where there are many.
#[derive(Debug, Default)]
struct Clusters {
    clusters: BTreeMap<u64, Cluster>,
    /// The logarithm to base 2 of how many numbers a cluster has.
    width: u32,
}

impl Clusters {
    fn add(&mut self, number: u64, message: &Message) {
        self.clusters
            .entry(number >> self.width)
            .or_default()
            .add(message);
        // Half of too many is more than are needed.
        while self.clusters.len() > MOST {
            self.width += 1;
            for (number, cluster) in std::mem::take(&mut self.clusters) {
                self.clusters
                    .entry(number >> 1)
                    .or_default()
                    .merge(&cluster, 1);
            }
        }
    }
}

/// The messages of one side of a comparison.
#[derive(Debug, Default)]
pub struct Population {
    messages: u64,
    /// By the sockets' cookies, which count up: neighbours are of one moment, and often of one
    /// client.
    flows: Clusters,
    /// By the second.
    windows: Clusters,
}

impl Population {
    /// Form one without messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a message; a refused one is left out.
    pub fn add(&mut self, message: &Message) {
        if !message.verdict.is_valid() {
            return;
        }
        if !message.is_connection() {
            self.messages += u64::from(message.weight);
        }
        self.flows.add(message.flow.cookie.0, message);
        let second = message.time.as_nanos() / 1_000_000_000;
        self.windows.add(second, message);
    }

    /// The valid messages, by weight.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    pub(super) fn all(&self) -> Cluster {
        let mut all = Cluster::default();
        let windows = self.windows.clusters.values();
        windows.for_each(|window| all.merge(window, 1));
        all
    }

    /// Return the groups of flows, and the windows in their order.
    pub(super) fn clusters(&self) -> [Vec<&Cluster>; 2] {
        [&self.flows, &self.windows].map(|clusters| clusters.clusters.values().collect())
    }
}
