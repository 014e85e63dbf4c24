//! The peers whose answers a measurement waited for, where its messages are known.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::canonical;
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::stage::Stage;

use super::figures::Sum;

/// Most peers that are kept: half a megabyte.
const MOST_PEERS: usize = 4096;

/// The answers of a peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) whole: Sum,
    pub(super) network: Sum,
}

/// The time of answers, by peer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    answers: BTreeMap<SocketAddr, Answers>,
}

impl Peers {
    /// Add the answer that a message is, if it is one.
    pub(crate) fn record(&mut self, message: &Message) {
        let Some(answer) = message.stages[Stage::PeerAnswer].filter(|_| message.verdict.is_valid()) else {
            return;
        };
        let network = message.parts[Part::Network].unwrap_or(Nanos::ZERO);
        self.add(canonical(message.flow.remote), answer, network, message.weight);
    }

    /// Add so many answers of a peer.
    pub(super) fn add(&mut self, peer: SocketAddr, answer: Nanos, network: Nanos, weight: u32) {
        if self.answers.len() == MOST_PEERS && !self.answers.contains_key(&peer) {
            return;
        }
        let of_peer = self.answers.entry(peer).or_default();
        of_peer.whole.add(answer, weight);
        of_peer.network.add(network, weight);
    }

    /// Return the peer that has at least three quarters of the time of all answers.
    pub(super) fn outstanding(&self, all: Sum) -> Option<(SocketAddr, Answers)> {
        let largest = self.answers.iter().max_by_key(|(_, answers)| answers.whole.ns)?;
        let (&peer, &answers) = largest;
        (answers.whole.ns * 4 >= all.ns * 3).then_some((peer, answers))
    }
}
