//! The figures that rules use.

use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::group::{GroupHistogram, GroupSummary};
use sockstamp_model::listener::ListenerSummary;
use sockstamp_model::part::{Part, PartMap, PartSummary};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::summary::{Connections, Resent, Summary, Throttled};
use sockstamp_model::verdict::Verdict;

/// A number of messages and the sum of their times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) count: u64,
    pub(super) ns: u128,
}

impl Sum {
    pub(super) fn add(&mut self, time: Nanos, weight: u32) {
        self.count += u64::from(weight);
        self.ns += u128::from(time.0) * u128::from(weight);
    }

    pub(super) fn mean(self) -> Nanos {
        let mean = self.ns.checked_div(u128::from(self.count));
        Nanos(mean.map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX)))
    }
}

/// The answers of a peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) whole: Sum,
    pub(super) network: Sum,
}

/// The peer that has most of the time of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slowest {
    pub(super) peer: SocketAddr,
    /// Its answers; `None` if only some of the slow ones are known.
    pub(super) answers: Option<Answers>,
}

/// A measurement in sums.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) stages: StageMap<Sum>,
    pub(super) parts: PartMap<Sum>,
    /// The time of sent messages until they left the host.
    pub(super) sent: Sum,
    /// The time of received messages until they were read.
    pub(super) read: Sum,
    /// Refused messages by verdict.
    pub(super) refused: Vec<(Verdict, u64)>,
    pub(super) sent_bytes: u64,
    pub(super) sent_messages: u64,
    pub(super) retransmits: u64,
    /// Those that were no loss of data; `None` if that is unknown.
    pub(super) lossless: Option<u64>,
    /// Segments sent, if they were counted.
    pub(super) segments: Option<u64>,
    pub(super) drops: u64,
    pub(super) connections: Connections,
    /// The listener that dropped most.
    pub(super) listener: Option<ListenerSummary>,
    /// The CPU quota that was used up most often.
    pub(super) throttled: Option<Throttled>,
    /// The interface that most messages left by.
    pub(super) interface: Option<String>,
    /// The peer that most of the time of answers is of, if it is known.
    pub(super) slowest_peer: Option<Slowest>,
}

impl From<&GroupSummary> for Figures {
    fn from(group: &GroupSummary) -> Self {
        let of = |stage: Stage| group.direction(stage.direction());
        let sum = |histogram: &GroupHistogram| Sum {
            count: histogram.count(),
            ns: histogram.sum_ns(),
        };
        Self {
            stages: StageMap::from_fn(|stage| {
                of(stage).stages[stage].as_ref().map_or(Sum::default(), sum)
            }),
            parts: PartMap::from_fn(|part: Part| {
                let part = of(part.stage()).parts[part].as_ref();
                part.map_or(Sum::default(), Sum::from)
            }),
            sent: sum(group.tx.time(Direction::Tx)),
            read: sum(group.rx.time(Direction::Rx)),
            sent_bytes: group.tx.bytes,
            sent_messages: group.tx.messages,
            retransmits: group.tx.retransmits,
            lossless: (group.tx.lossless > 0).then_some(group.tx.lossless),
            ..Self::default()
        }
    }
}

impl From<&PartSummary> for Sum {
    fn from(part: &PartSummary) -> Self {
        Self {
            count: part.count,
            ns: part.sum_ns,
        }
    }
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
            sum.map_or(Sum::default(), Sum::from)
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
            lossless: summary.tx.resent.as_ref().map(Resent::lossless),
            segments: summary.tx.segments,
            drops: summary.rx.drops,
            connections: summary.connections.clone(),
            throttled: summary.throttled.clone(),
            listener: summary.listeners.first().cloned(),
            slowest_peer: None,
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

    /// Segments sent, or a lower bound: each message has one, and none carries more than
    /// 1460 bytes (Ethernet's MTU without options).
    pub(super) fn least_segments(&self) -> u64 {
        let least = self.sent_messages.max(self.sent_bytes.div_ceil(1460));
        self.segments.unwrap_or(least)
    }
}
