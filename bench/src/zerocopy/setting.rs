//! Describe the comparison that a line of figures makes.

use std::time::Duration;

use anyhow::Result;
use testbed::Family;

use super::methods::{Method, Task};
use super::transport::Transport;
use crate::network::{Network, Peer};
use crate::paired::in_turn;
use crate::service::Service;

const ROUND: Duration = Duration::from_millis(50);

/// The sides of a line of figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) peer: Peer,
    pub(super) transport: Transport,
    pub(super) family: Family,
    pub(super) interval: u64,
}

impl Setting {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let families = [Family::V4, Family::V6];
        let transports = Transport::ALL.map(|transport| families.map(|family| (transport, family)));
        [Peer::Sink, Peer::Socket]
            .into_iter()
            .flat_map(move |peer| {
                let transports = transports.concat();
                [1, 32].into_iter().flat_map(move |interval| {
                    transports
                        .clone()
                        .into_iter()
                        .map(move |(transport, family)| Self {
                            peer,
                            transport,
                            family,
                            interval,
                        })
                })
            })
    }

    pub(super) fn name(self) -> String {
        let version = if self.family == Family::V4 { 4 } else { 6 };
        let received = if self.peer == Peer::Socket {
            "-received"
        } else {
            ""
        };
        format!(
            "zerocopy.{}{version}{received}.every-{}",
            self.transport.name(),
            self.interval
        )
    }

    /// Bytes per second of each method.
    pub(super) fn measure(
        self,
        network: &Network,
        rounds: usize,
    ) -> Result<[Vec<f64>; Method::ALL.len()]> {
        in_turn(rounds, Method::ALL, |method| {
            let task = Task {
                method,
                bytes: self.transport.bytes(),
                interval: self.interval,
                time: ROUND,
                completions: None,
            };
            if method != Method::Memory {
                return self.transport.run(network, self.family, &task);
            }
            let mut service = Service::start()?;
            let completions = service.connect()?;
            let task = Task {
                completions: Some(&completions),
                ..task
            };
            let rate = self.transport.run(network, self.family, &task);
            service.stop()?;
            rate
        })
    }
}
