//! The messages of one direction of a group.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::coarse::GroupHistogram;
use crate::part::{Part, PartMap, PartSummary};
use crate::stage::{Direction, Stage, StageMap};

/// The messages of one direction of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupDirection {
    /// Messages, whatever became of them.
    pub messages: u64,
    /// Measured messages.
    pub measured: u64,
    /// Refused messages, by weight.
    pub refused: u64,
    /// Bytes of the messages.
    pub bytes: u64,
    /// Segments that were sent again; always 0 for RX.
    pub retransmits: u64,
    /// Of these, those that were sent again for no loss ([`Resent::lossless`]); 0 of recordings,
    /// where it is unknown.
    ///
    /// [`Resent::lossless`]: crate::summary::Resent::lossless
    pub lossless: u64,
    /// The distribution of every stage; `None` where the stage is absent.
    pub stages: StageMap<Option<GroupHistogram>>,
    /// The parts of the stages; `None` where the stage is absent.
    pub parts: PartMap<Option<PartSummary>>,
    /// TX: the distribution of the time until a message left the host; empty for RX.
    pub sent: GroupHistogram,
    /// The distribution of the sum of a message's stages.
    pub total: GroupHistogram,
}

impl GroupDirection {
    /// Return the distribution that messages of this direction are judged by: of the time until
    /// they left the host, or until they were read.
    #[must_use]
    pub fn time(&self, direction: Direction) -> &GroupHistogram {
        match direction {
            Direction::Tx => &self.sent,
            Direction::Rx => &self.total,
        }
    }

    /// Add everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.messages, other.messages),
            (&mut self.measured, other.measured),
            (&mut self.refused, other.refused),
            (&mut self.bytes, other.bytes),
            (&mut self.retransmits, other.retransmits),
            (&mut self.lossless, other.lossless),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (stage, histogram) in other.stages.present() {
            self.stages[stage].get_or_insert_default().merge(histogram);
        }
        for (part, sum) in other.parts.iter() {
            if let Some(sum) = sum {
                self.parts[part].get_or_insert_default().merge(sum);
            }
        }
        // Rests that were computed, which have no maximum: a message's stage may have been counted
        // for one group, and its parts for the next one in the same place.
        self.complete(|rest| rest.is_some_and(|rest| rest.max_ns.is_none()));
        self.sent.merge(&other.sent);
        self.total.merge(&other.total);
    }

    /// Return the counts since an earlier snapshot of the same group. The maximum of a part is that
    /// of all time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(earlier.messages),
            measured: self.measured.saturating_sub(earlier.measured),
            refused: self.refused.saturating_sub(earlier.refused),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
            lossless: self.lossless.saturating_sub(earlier.lossless),
            stages: StageMap::from_fn(|stage| {
                let now = self.stages[stage].as_ref()?;
                Some(match &earlier.stages[stage] {
                    Some(then) => now.since(then),
                    None => now.clone(),
                })
            }),
            parts: PartMap::from_fn(|part| {
                let now = self.parts[part]?;
                let then = earlier.parts[part].unwrap_or_default();
                Some(PartSummary {
                    count: now.count.saturating_sub(then.count),
                    sum_ns: now.sum_ns.saturating_sub(then.sum_ns),
                    max_ns: now.max_ns,
                })
            }),
            sent: self.sent.since(&earlier.sent),
            total: self.total.since(&earlier.total),
        }
    }

    /// Compute the parts that are the rest of their stage, for every stage with parts.
    pub fn complete_parts(&mut self) {
        self.complete(|_| true);
    }

    fn complete(&mut self, is_wanted: impl Fn(Option<&PartSummary>) -> bool) {
        for rest in Part::ALL.into_iter().filter(|part| part.is_rest()) {
            let stage = self.stages[rest.stage()].as_ref();
            let Some(stage) = stage.filter(|_| is_wanted(self.parts[rest].as_ref())) else {
                continue;
            };
            let counted = self
                .parts
                .of(rest.stage())
                .filter(|(part, _)| !part.is_rest());
            let others: u128 = counted.map(|(_, sum)| sum.sum_ns).sum();
            self.parts[rest] = Some(PartSummary {
                count: stage.count(),
                sum_ns: stage.sum_ns().saturating_sub(others),
                max_ns: None,
            });
        }
    }

    /// Return the stage with the most time and its share of the time of all stages, from 0 to 1;
    /// `None` if no time was measured.
    #[must_use]
    pub fn largest_stage(&self) -> Option<(Stage, f64)> {
        let stages = self.stages.present().filter(|(stage, _)| stage.has_share());
        let sums = stages.map(|(stage, histogram)| (stage, histogram.sum_ns()));
        let (stage, sum) = sums.max_by_key(|&(_, sum)| sum)?;
        let whole = self.time(stage.direction()).sum_ns();
        (whole > 0).then(|| (stage, sum as f64 / whole as f64))
    }
}

impl Serialize for GroupDirection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("GroupDirection", 9)?;
        object.serialize_field("messages", &self.messages)?;
        object.serialize_field("measured", &self.measured)?;
        object.serialize_field("refused", &self.refused)?;
        object.serialize_field("bytes", &self.bytes)?;
        object.serialize_field("retransmits", &self.retransmits)?;
        object.serialize_field("stages", &self.stages)?;
        object.serialize_field("parts", &self.parts)?;
        object.serialize_field("sent", &self.sent)?;
        object.serialize_field("total", &self.total)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Nanos;

    #[test]
    fn the_largest_stage_is_that_with_the_most_time() {
        let mut tx = GroupDirection::default();
        assert_eq!(tx.largest_stage(), None);
        for (stage, nanos) in [
            (Stage::TxCopy, 1_000),
            (Stage::TxQdisc, 3_000),
            (Stage::TxNetwork, 80_000),
            (Stage::AppService, 9_000),
        ] {
            tx.stages[stage]
                .get_or_insert_default()
                .record(Nanos(nanos), 1);
        }
        tx.sent.record(Nanos(4_000), 1);
        tx.total.record(Nanos(84_000), 1);
        assert_eq!(tx.largest_stage(), Some((Stage::TxQdisc, 0.75)));
    }

    /// A place may change its group between the stage of a message and its parts.
    #[test]
    fn the_rest_of_merged_groups_is_that_of_their_sums() {
        let of = |stage: u64, part: u64| {
            let mut tx = GroupDirection::default();
            let queue = tx.stages[Stage::TxQueue].get_or_insert_default();
            (stage > 0).then(|| queue.record(Nanos(stage), 1));
            tx.parts[Part::Cwnd] = Some(PartSummary {
                count: 1,
                sum_ns: part.into(),
                max_ns: Some(Nanos(part)),
            });
            tx.complete_parts();
            tx
        };
        let mut whole = of(500, 0);
        whole.merge(&of(0, 300));
        whole.merge(&of(100, 40));
        assert_eq!(whole.parts[Part::Other].map(|rest| rest.sum_ns), Some(260));
    }
}
