//! Sum messages into a summary.

use std::collections::BTreeMap;

use crate::clock::Nanos;
use crate::flow::Protocol;
use crate::interface::{Interface, InterfaceSummary};
use crate::message::Message;
use crate::stage::{Direction, Stage};
use crate::summary::{Reads, Summary};

/// Sum messages as the programs in the kernel do: refused ones by their verdict, valid ones in the
/// distributions, each by its weight.
///
/// Messages cannot show losses, messages in flight, or segments of unmeasured messages that were
/// retransmitted or out of order: these are zero. Messages and bytes are counted by the weights of
/// the measured ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aggregate {
    summary: Summary,
    /// Valid messages by the last interface that they left by.
    interfaces: BTreeMap<Option<Interface>, u64>,
}

impl Aggregate {
    /// Form one of no messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a message.
    pub fn record(&mut self, message: &Message) {
        let weight = u64::from(message.weight);
        if message.is_connection() {
            self.summary.connections.record(message);
            self.summary
                .direction_mut(message.direction)
                .record(message);
            return;
        }
        let verdicts = self.summary.verdicts.entry(message.verdict).or_default();
        *verdicts = verdicts.saturating_add(weight);
        self.summary
            .direction_mut(message.direction)
            .record(message);
        if !message.verdict.is_valid() {
            return;
        }
        match message.direction {
            Direction::Tx => {
                let last = &message.interfaces.last;
                // There are few, and many messages by each: do not copy its name.
                let count = match self.interfaces.get_mut(last) {
                    Some(count) => count,
                    None => self.interfaces.entry(last.clone()).or_default(),
                };
                *count = count.saturating_add(weight);
            }
            Direction::Rx => self.record_read(message, weight),
        }
    }

    fn record_read(&mut self, message: &Message, weight: u64) {
        let cumulative = &mut self.summary.rx.cumulative;
        let of_protocol: &mut Option<Reads> = match message.flow.protocol {
            Protocol::Tcp => &mut cumulative.tcp,
            Protocol::Udp => &mut cumulative.udp,
        };
        let reads = of_protocol.get_or_insert_default();
        if let Some(enqueued) = message.stages[Stage::RxStack] {
            reads.enqueued.record(enqueued, weight);
        }
        reads.read.record(message.total(), weight);
    }

    /// Return the summary of the messages up to now, which came within this time.
    #[must_use]
    pub fn summary(&self, duration: Nanos) -> Summary {
        let mut summary = self.summary.clone();
        summary.duration = duration;
        summary.tx.complete_parts();
        summary.rx.complete_parts();
        let interfaces = self.interfaces.iter();
        summary.interfaces = interfaces
            .map(|(interface, &messages)| InterfaceSummary {
                interface: interface.clone(),
                medium: None,
                leads_on: false,
                messages,
            })
            .collect();
        summary
            .interfaces
            .sort_by_key(|summary| std::cmp::Reverse(summary.messages));
        summary
    }
}

#[cfg(test)]
mod tests;
