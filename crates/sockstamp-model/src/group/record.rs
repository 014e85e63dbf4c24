//! Add messages to groups one by one, as the programs in the kernel add them.

use super::GroupDirection;
use crate::message::Message;
use crate::stage::Direction;

impl GroupDirection {
    /// Add a message by its weight: to the counters, and to the distributions if it is valid. Its
    /// direction is ignored.
    pub fn record(&mut self, message: &Message) {
        let weight = u64::from(message.weight);
        if message.is_connection() {
            if message.verdict.is_valid() {
                self.record_stages(message, weight);
                message.record_parts(&mut self.parts, weight);
            }
            return;
        }
        self.messages = self.messages.saturating_add(weight);
        self.measured = self.measured.saturating_add(1);
        self.bytes = self
            .bytes
            .saturating_add(message.bytes.saturating_mul(weight));
        let retransmits = u64::from(message.retransmits) * weight;
        self.retransmits = self.retransmits.saturating_add(retransmits);
        if !message.verdict.is_valid() {
            self.refused = self.refused.saturating_add(weight);
            return;
        }
        self.record_stages(message, weight);
        message.record_parts(&mut self.parts, weight);
        if message.direction == Direction::Tx {
            self.sent.record(message.time(), weight);
        }
        self.total.record(message.total(), weight);
    }

    fn record_stages(&mut self, message: &Message, weight: u64) {
        for (stage, &duration) in message.stages.present() {
            self.stages[stage]
                .get_or_insert_default()
                .record(duration, weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::GroupHistogram;
    use crate::clock::Nanos;

    proptest! {
        #[test]
        fn a_latency_is_recorded_as_if_it_were_merged(
            latencies in prop::collection::vec((0_u64..1 << 40, 0_u64..9), 0..50),
        ) {
            let mut recorded = GroupHistogram::default();
            let mut merged = GroupHistogram::default();
            for (latency, weight) in latencies {
                recorded.record(Nanos(latency), weight);
                let mut counts = [0; super::super::SLOTS];
                counts[super::super::slot(latency)] = weight;
                let sum_ns = u128::from(latency) * u128::from(weight);
                merged.merge(&GroupHistogram::from_counts(&counts, sum_ns, latency));
            }
            prop_assert_eq!(recorded, merged);
        }
    }
}
