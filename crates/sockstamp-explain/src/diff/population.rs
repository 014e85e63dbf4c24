//! The messages of one recording, by flow and by time.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;

use super::buckets::Buckets;
use super::measure::Measure;
use crate::chance::EIGHTHS;

/// Groups of flows that are kept apart.
const MOST_GROUPS: u64 = 40;
/// Windows of time that are kept apart: several in each eighth.
const MOST_WINDOWS: u64 = 64;
/// The shortest window is of 2^16 ns: 65 µs.
const SHORTEST: u32 = 16;

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

    pub(super) fn merge(&mut self, other: &Self) {
        for (measure, buckets) in &other.measures {
            self.measures.entry(*measure).or_default().merge(buckets);
        }
    }
}

/// Clusters by a number, neighbours of which become one where the numbers are far apart.
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
    }

    /// Make clusters twice as wide.
    fn widen(&mut self) {
        self.width += 1;
        for (number, cluster) in std::mem::take(&mut self.clusters) {
            self.clusters
                .entry(number >> 1)
                .or_default()
                .merge(&cluster);
        }
    }

    /// Return the numbers from the first cluster to the last.
    fn span(&self) -> u64 {
        let first = self.clusters.first_key_value();
        let last = self.clusters.last_key_value();
        first
            .zip(last)
            .map_or(0, |((first, _), (last, _))| last - first + 1)
    }
}

/// The messages of one recording.
#[derive(Debug, Default)]
pub struct Population {
    messages: u64,
    /// By the sockets' cookies, which count up: neighbours are of one moment, and often of one
    /// client.
    flows: Clusters,
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
        while self.flows.clusters.len() as u64 > MOST_GROUPS {
            self.flows.widen();
        }
        self.windows
            .add(message.time.as_nanos() >> SHORTEST, message);
        while self.windows.span() > MOST_WINDOWS {
            self.windows.widen();
        }
    }

    /// The valid messages, by weight.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    pub(super) fn all(&self) -> Cluster {
        let mut all = Cluster::default();
        let windows = self.windows.clusters.values();
        windows.for_each(|window| all.merge(window));
        all
    }

    /// Return the time from the first message to the last, about.
    pub(super) fn length(&self) -> Nanos {
        Nanos(self.windows.span() << (self.windows.width + SHORTEST))
    }

    /// Return the groups of flows.
    pub(super) fn flows(&self) -> impl Iterator<Item = &Cluster> {
        self.flows.clusters.values()
    }

    /// Return the windows, each with the eighth of the time that it is in.
    pub(super) fn windows(&self) -> impl Iterator<Item = (usize, &Cluster)> {
        let span = self.windows.span();
        let first = self
            .windows
            .clusters
            .first_key_value()
            .map_or(0, |(first, _)| *first);
        self.windows.clusters.iter().map(move |(number, window)| {
            let eighth = (number - first) * EIGHTHS as u64 / span;
            (usize::try_from(eighth).unwrap_or(0), window)
        })
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::{Nanos, Timestamp};
    use sockstamp_model::fixture;
    use sockstamp_model::stage::{Direction, Stage};

    use super::*;

    #[test]
    fn windows_are_of_the_eighth_of_their_time() {
        for nanos in [8_000_u64, 2_000_000_000, 3_600_000_000_000] {
            let mut population = Population::new();
            // In an order that is not that of time, as in files.
            for number in 0..800 {
                let mut message = fixture::message(Direction::Rx);
                let part = number * 3 % 800;
                message.time = Timestamp::from_nanos(1_000_000_007 + part * nanos);
                message.stages[Stage::RxApp] = Some(Nanos(1000));
                population.add(&message);
            }
            let mut eighths = [0; EIGHTHS];
            for (eighth, window) in population.windows() {
                eighths[eighth] += window.measures[&Measure::Read].count();
            }
            let even = eighths.iter().all(|count| (60..=140).contains(count));
            assert!(nanos == 8_000 || even, "{nanos}: {eighths:?}");
            assert_eq!(eighths.iter().sum::<u64>(), 800);
        }
    }
}
