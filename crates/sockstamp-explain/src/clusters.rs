//! Sums over messages that are slow together: those of a flow, or of a moment.

use std::collections::HashMap;

use sockstamp_model::message::Message;

use crate::chance::{EIGHTHS, Spread, Sums, of_flows, of_time};
use crate::component::Component;

/// Sums over slow messages of one flow, or of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) weight: f64,
    /// For each component, its time.
    pub(crate) sums: Vec<f64>,
}

/// Sums over messages of each flow, of each eighth of the time, and of each second.
#[derive(Debug)]
pub(crate) struct Clusters {
    flows: HashMap<u64, Cluster>,
    eighths: [Cluster; EIGHTHS],
    seconds: HashMap<u64, Cluster>,
}

impl Cluster {
    pub(crate) fn new(components: &[Component]) -> Self {
        Self {
            weight: 0.0,
            sums: vec![0.0; components.len()],
        }
    }

    pub(crate) fn add(&mut self, components: &[Component], message: &Message) {
        let weight = f64::from(message.weight);
        self.weight += weight;
        for (sum, component) in self.sums.iter_mut().zip(components) {
            *sum += weight * component.of(message).0 as f64;
        }
    }

    /// Return the time of all components.
    pub(crate) fn time(&self) -> f64 {
        self.sums.iter().sum()
    }

    /// Return each component's mean time.
    pub(crate) fn means(&self) -> Vec<f64> {
        self.sums
            .iter()
            .map(|sum| sum / self.weight.max(1.0))
            .collect()
    }
}

impl Clusters {
    pub(crate) fn new(components: &[Component]) -> Self {
        Self {
            flows: HashMap::new(),
            eighths: std::array::from_fn(|_| Cluster::new(components)),
            seconds: HashMap::new(),
        }
    }

    pub(crate) fn add(&mut self, components: &[Component], eighth: usize, message: &Message) {
        self.eighths[eighth].add(components, message);
        let cluster = || Cluster::new(components);
        let flow = self
            .flows
            .entry(message.flow.cookie.0)
            .or_insert_with(cluster);
        flow.add(components, message);
        let second = self
            .seconds
            .entry(second_of(message))
            .or_insert_with(cluster);
        second.add(components, message);
    }

    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }

    pub(crate) fn seconds(&self) -> usize {
        self.seconds.len()
    }

    /// Return a figure of each second.
    pub(crate) fn by_second(&self, of: impl Fn(&Cluster) -> f64) -> Vec<(u64, f64)> {
        let seconds = self.seconds.iter();
        seconds
            .map(|(second, cluster)| (*second, of(cluster)))
            .collect()
    }

    /// Return the sum over all messages.
    pub(crate) fn sum(&self, of: impl Fn(&Cluster) -> f64) -> f64 {
        self.eighths.iter().map(of).sum()
    }

    /// Return the spread of a share, from the weight of each cluster and the residual of its part;
    /// `None` if the messages came in too few moments.
    pub(crate) fn spread(
        &self,
        weight: impl Fn(&Cluster) -> f64,
        residual: impl Fn(&Cluster) -> f64,
    ) -> Option<Spread> {
        let sums = |cluster| Sums {
            residual: residual(cluster),
            weight: weight(cluster),
        };
        let time = of_time(self.eighths.iter().map(sums), 1)?;
        Some(time.and(of_flows(self.flows.values().map(sums))))
    }
}

pub(crate) fn second_of(message: &Message) -> u64 {
    message.time.as_nanos() / 1_000_000_000
}
