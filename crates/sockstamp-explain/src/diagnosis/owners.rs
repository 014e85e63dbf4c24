//! The owners of slow messages, where messages are known: peers whose answers are waited for, and
//! programs with the port of their service.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::canonical;
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::part::{Part, PartMap};
use sockstamp_model::stage::{Stage, StageMap};

use super::figures::{Answers, Slowest, Sum};
use super::finding::Cause;

/// Most peers that are kept: half a megabyte.
const MOST_PEERS: usize = 4096;
/// Most programs that are kept: as much.
const MOST_PROGRAMS: usize = 1024;

/// A program, and the port of the service that it offers or uses.
pub(super) type Program = (Name, u16);

/// Time by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Times {
    stages: StageMap<u128>,
    parts: PartMap<u128>,
}

impl Times {
    fn of(&self, cause: Cause) -> u128 {
        match cause {
            Cause::Stage(stage) => self.stages[stage],
            Cause::Part(part) => self.parts[part],
            Cause::Other => 0,
        }
    }
}

/// The time of messages, by owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    answers: BTreeMap<SocketAddr, Answers>,
    programs: BTreeMap<Program, Times>,
}

impl Owners {
    /// Add a message.
    pub fn record(&mut self, message: &Message) {
        self.record_answer(message);
        self.record_program(message);
    }

    /// Add the answer that a message is, if it is one.
    pub fn record_answer(&mut self, message: &Message) {
        let Some(answer) = message.stages[Stage::PeerAnswer].filter(|_| message.verdict.is_valid())
        else {
            return;
        };
        let network = message.parts[Part::Network].unwrap_or(Nanos::ZERO);
        self.add(
            canonical(message.flow.remote),
            answer,
            network,
            message.weight,
        );
    }

    fn record_program(&mut self, message: &Message) {
        if message.comm.is_empty() || !message.verdict.is_valid() {
            return;
        }
        let port = message.service_port();
        let program = (message.comm.clone(), port);
        self.add_times(program, &message.stages, &message.parts, message.weight);
    }

    /// Add the times of this many messages of a program.
    pub(super) fn add_times(
        &mut self,
        program: Program,
        stages: &StageMap<Option<Nanos>>,
        parts: &PartMap<Option<Nanos>>,
        weight: u32,
    ) {
        if self.programs.len() == MOST_PROGRAMS && !self.programs.contains_key(&program) {
            return;
        }
        let times = self.programs.entry(program).or_default();
        let weight = u128::from(weight);
        for (stage, duration) in stages.present() {
            times.stages[stage] += u128::from(duration.0) * weight;
        }
        for (part, duration) in parts.iter() {
            times.parts[part] += u128::from(duration.map_or(0, |duration| duration.0)) * weight;
        }
    }

    /// Add this many answers of a peer.
    pub(super) fn add(&mut self, peer: SocketAddr, answer: Nanos, network: Nanos, weight: u32) {
        if self.answers.len() == MOST_PEERS && !self.answers.contains_key(&peer) {
            return;
        }
        let of_peer = self.answers.entry(peer).or_default();
        of_peer.whole.add(answer, weight);
        of_peer.network.add(network, weight);
    }

    /// Return the peer that has at least three quarters of the time of all answers, or of the known
    /// ones where fewer than nine tenths are known.
    pub(super) fn slowest_peer(&self, all: Sum) -> Option<Slowest> {
        let largest = self
            .answers
            .iter()
            .max_by_key(|(_, answers)| answers.whole.ns)?;
        let (&peer, &answers) = largest;
        let known = |of: fn(&Sum) -> u128| -> u128 {
            let known = self.answers.values();
            known.map(|answers| of(&answers.whole)).sum()
        };
        let is_whole = known(|sum| sum.count.into()) * 10 >= u128::from(all.count) * 9;
        let of = if is_whole {
            all.ns
        } else {
            known(|sum| sum.ns)
        };
        (answers.whole.ns * 4 >= of * 3).then_some(Slowest {
            peer,
            answers: is_whole.then_some(answers),
        })
    }

    /// Return the program that has at least three quarters of the known time of a cause.
    pub(super) fn program(&self, cause: Cause) -> Option<String> {
        let all: u128 = self.programs.values().map(|times| times.of(cause)).sum();
        let largest = self
            .programs
            .iter()
            .max_by_key(|(_, times)| times.of(cause))?;
        let ((comm, port), times) = largest;
        let ns = times.of(cause);
        (ns > 0 && ns * 4 >= all * 3).then(|| format!("{comm} {port}"))
    }
}
