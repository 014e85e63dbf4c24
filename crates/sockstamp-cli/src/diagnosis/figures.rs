//! The figures that rules ask about.

use sockstamp_model::clock::Nanos;
use sockstamp_model::part::{Part, PartMap};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::summary::{Connections, Summary, Throttled};
use sockstamp_model::verdict::Verdict;

/// A number of messages and the sum of their times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) count: u64,
    pub(super) ns: u128,
}

impl Sum {
    pub(super) fn mean(self) -> Nanos {
        let mean = self.ns.checked_div(u128::from(self.count));
        Nanos(mean.map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX)))
    }
}

/// A measurement in sums.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) stages: StageMap<Sum>,
    pub(super) parts: PartMap<Sum>,
    /// Of sent messages until they left the host.
    pub(super) sent: Sum,
    /// Of received messages until they were read.
    pub(super) read: Sum,
    /// Refused messages by verdict.
    pub(super) refused: Vec<(Verdict, u64)>,
    pub(super) sent_bytes: u64,
    pub(super) sent_messages: u64,
    pub(super) retransmits: u64,
    pub(super) drops: u64,
    pub(super) connections: Connections,
    /// The CPU quota that was used up most often.
    pub(super) throttled: Option<Throttled>,
    /// The interface that most messages left by.
    pub(super) interface: Option<String>,
}

impl From<&Summary> for Figures {
    fn from(summary: &Summary) -> Self {
        let of = |stage: Stage| summary.direction(stage.direction());
        let stages = StageMap::from_fn(|stage| {
            let histogram = of(stage).stages[stage].as_ref();
            histogram.map_or(Sum::default(), |histogram| Sum {
                count: histogram.count(),
                ns: histogram.sum_ns(),
            })
        });
        let parts = PartMap::from_fn(|part: Part| {
            let sum = of(part.stage()).parts[part].as_ref();
            sum.map_or(Sum::default(), |sum| Sum {
                count: sum.count,
                ns: sum.sum_ns,
            })
        });
        let time = |direction| {
            let time = summary.direction(direction).time(direction);
            Sum {
                count: time.count(),
                ns: time.sum_ns(),
            }
        };
        let busiest = summary.interfaces.first();
        Self {
            stages,
            parts,
            sent: time(Direction::Tx),
            read: time(Direction::Rx),
            refused: summary.refusals().collect(),
            sent_bytes: summary.tx.bytes,
            sent_messages: summary.tx.messages,
            retransmits: summary.tx.retransmits,
            drops: summary.rx.drops,
            connections: summary.connections.clone(),
            throttled: summary.throttled.clone(),
            interface: busiest.and_then(|of| Some(of.interface.as_ref()?.name.to_string())),
        }
    }
}

impl Figures {
    /// The time of all messages of the direction that a stage is in.
    pub(super) fn whole(&self, stage: Stage) -> Sum {
        match stage.direction() {
            Direction::Tx => self.sent,
            Direction::Rx => self.read,
        }
    }

    /// Segments sent, at the least: each message has one, and none carries more than 1460 bytes
    /// (Ethernet's MTU without options).
    pub(super) fn least_segments(&self) -> u64 {
        self.sent_messages.max(self.sent_bytes.div_ceil(1460))
    }
}
