//! Parts break a stage down by cause.

use std::fmt;
use std::ops::{Index, IndexMut, Range};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::clock::Nanos;
use crate::stage::Stage;

macro_rules! parts {
    ($($variant:ident = $stage:ident, $name:literal, $description:literal;)*) => {
        /// A part of a stage. The parts of a stage add up to it.
        ///
        /// The parts of `tx.queue` are the **causes** of waiting in the TCP write queue.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Part {
            $(#[doc = $description] $variant,)*
        }

        impl Part {
            /// Every part, in the order of their stages.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant),*];

            /// The number of parts.
            pub const COUNT: usize = [$($name),*].len();

            /// The names of the variants, from which the kernel side has its constants.
            const VARIANTS: [&'static str; Self::COUNT] = [$(stringify!($variant)),*];

            /// The name used in options, metrics and JSON, such as `"cwnd"`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The stage that it is part of.
            #[must_use]
            pub const fn stage(self) -> Stage {
                match self {
                    $(Self::$variant => Stage::$stage,)*
                }
            }

            /// Describe the part in one sentence.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => $description,)*
                }
            }
        }
    };
}

parts! {
    Copy = TxCopy, "copy",
        "The send call copied the data, and did everything else until its last byte was queued.";
    Sndbuf = TxCopy, "sndbuf",
        "The send call waited for room in the send buffer.";
    Cwnd = TxQueue, "cwnd",
        "The congestion window was full.";
    Rwnd = TxQueue, "rwnd",
        "The peer's receive window was full.";
    Pacing = TxQueue, "pacing",
        "TCP paced the flow.";
    Tsq = TxQueue, "tsq",
        "Enough data of the flow was already in the packet scheduler and the driver (TCP small queues, autocorking).";
    Nagle = TxQueue, "nagle",
        "A small packet waited for the acknowledgement of an earlier one.";
    Cork = TxQueue, "cork",
        "The application held the data back with TCP_CORK or MSG_MORE.";
    Retransmit = TxQueue, "retransmit",
        "A window was full while the connection recovered from what TCP took for a loss.";
    Other = TxQueue, "other",
        "The rest: the work itself, and waits whose cause cannot be seen.";
    Path = TxNetwork, "path",
        "The smallest round-trip time of the connection.";
    DelayedAck = TxNetwork, "delayed-ack",
        "The peer may have delayed the acknowledgement, until its answer or by its timer.";
    Excess = TxNetwork, "excess",
        "The rest beyond the path and a delayed acknowledgement: queues in the network, loss, a slow peer.";
    Runqueue = RxWakeup, "runqueue",
        "The waiting task waited for a CPU while others ran on it.";
    WakeupThrottled = RxWakeup, "throttled",
        "The cgroup of the waiting task had used up its CPU quota.";
    WakeupUnknown = RxWakeup, "unknown",
        "The rest: either of the two, for instance because the task moved to another CPU.";
    Running = RxApp, "running",
        "The task that read was running, and had other work first.";
    Runnable = RxApp, "runnable",
        "The task that read waited for a CPU while others ran on it.";
    AppThrottled = RxApp, "throttled",
        "The cgroup of the task that read had used up its CPU quota.";
    Blocked = RxApp, "blocked",
        "The task that read slept: it waited for something else.";
    Unknown = RxApp, "unknown",
        "The rest, of unknown cause, for instance because another task had read before.";
    ServiceThrottled = AppService, "throttled",
        "The cgroup of the task that answers had used up its CPU quota.";
    ServiceOther = AppService, "other",
        "The rest: the application's own work, and its other waits.";
    Network = PeerAnswer, "network",
        "The smallest round-trip time of the connection.";
    Peer = PeerAnswer, "peer",
        "The rest: the peer's work, and queues and losses on the path there and back.";
    SynAgain = ConnHandshake, "syn-again",
        "Until the SYN was sent that the peer answered: earlier ones were lost, or the peer dropped them.";
    RoundTrip = ConnHandshake, "round-trip",
        "The rest: from that SYN to the connection being established.";
}

impl Part {
    /// Return true for a part that is the rest of its stage: it is not counted itself.
    #[must_use]
    pub const fn is_rest(self) -> bool {
        matches!(
            self,
            Self::Copy
                | Self::Other
                | Self::Path
                | Self::WakeupUnknown
                | Self::Unknown
                | Self::ServiceOther
                | Self::Peer
                | Self::RoundTrip
        )
    }

    /// The number of parts that are counted: each but the rests.
    pub const COUNTED: usize = {
        let mut count = 0;
        let mut at = 0;
        while at < Self::COUNT {
            count += !Self::ALL[at].is_rest() as usize;
            at += 1;
        }
        count
    };

    /// The place among the parts that are counted, in the order of [`Part::ALL`]; shared with the
    /// kernel side. `None` for the rest of a stage.
    #[must_use]
    pub const fn counted_index(self) -> Option<usize> {
        if self.is_rest() {
            return None;
        }
        let mut index = 0;
        let mut at = 0;
        while at < self as usize {
            index += !Self::ALL[at].is_rest() as usize;
            at += 1;
        }
        Some(index)
    }

    /// The names of the variants that are counted.
    pub(crate) fn counted_variants() -> impl Iterator<Item = &'static str> {
        Self::ALL
            .into_iter()
            .zip(Self::VARIANTS)
            .filter(|(part, _)| !part.is_rest())
            .map(|(_, variant)| variant)
    }

    /// The parts of a stage, in the order of [`Part::ALL`].
    pub fn of(stage: Stage) -> impl Iterator<Item = Self> {
        Self::ALL[OF_STAGE[stage as usize].clone()].iter().copied()
    }
}

/// The places of each stage's parts in [`Part::ALL`], where they stand together.
const OF_STAGE: [Range<usize>; Stage::COUNT] = {
    let mut places = [const { 0..0 }; Stage::COUNT];
    let mut place = 0;
    while place < Part::COUNT {
        let stage = Part::ALL[place].stage() as usize;
        if places[stage].end == 0 {
            places[stage].start = place;
        }
        places[stage].end = place + 1;
        place += 1;
    }
    places
};

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One `T` for every part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartMap<T>([T; Part::COUNT]);

impl<T> PartMap<T> {
    /// A map that holds `value(part)` for every part.
    pub fn from_fn(value: impl FnMut(Part) -> T) -> Self {
        Self(Part::ALL.map(value))
    }

    /// Every part with its value, in the order of [`Part::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Part, &T)> {
        Part::ALL.into_iter().zip(&self.0)
    }
}

impl<T> PartMap<Option<T>> {
    /// The parts of a stage that have a value.
    pub fn of(&self, stage: Stage) -> impl Iterator<Item = (Part, &T)> {
        Part::of(stage)
            .zip(&self.0[OF_STAGE[stage as usize].clone()])
            .filter_map(|(part, value)| Some((part, value.as_ref()?)))
    }
}

impl<T> Index<Part> for PartMap<T> {
    type Output = T;

    fn index(&self, part: Part) -> &T {
        &self.0[part as usize]
    }
}

impl<T> IndexMut<Part> for PartMap<T> {
    fn index_mut(&mut self, part: Part) -> &mut T {
        &mut self.0[part as usize]
    }
}

/// A JSON object of stages, each with an object of its parts that have a value; stages without any
/// are left out.
impl<T: Serialize> Serialize for PartMap<Option<T>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Of<'a, T>(&'a PartMap<Option<T>>, Stage);

        impl<T: Serialize> Serialize for Of<'_, T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.of(self.1))
            }
        }

        let mut map = serializer.serialize_map(None)?;
        for stage in Stage::ALL {
            if self.of(stage).next().is_some() {
                map.serialize_entry(&stage, &Of(self, stage))?;
            }
        }
        map.end()
    }
}

/// The figures of one part of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PartSummary {
    /// Messages that have some of it, by weight; for the rest of a stage, all messages of the
    /// stage.
    pub count: u64,
    /// Weighted sum in nanoseconds.
    pub sum_ns: u128,
    /// The largest; `None` (JSON `null`) for the rest of a stage, which is known in sum alone.
    pub max_ns: Option<Nanos>,
}

impl PartSummary {
    /// Add everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_the_order_of_stages_and_have_names_of_their_own_there() {
        assert!(Part::ALL.is_sorted_by_key(|part| part.stage()));
        for stage in Stage::ALL {
            let mut names: Vec<_> = Part::of(stage).map(Part::name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{stage}");
        }
    }

    #[test]
    fn every_stage_with_parts_has_one_rest() {
        for stage in Stage::ALL {
            let parts = Part::of(stage).count();
            let rests = Part::of(stage).filter(|part| part.is_rest()).count();
            assert_eq!(rests, usize::from(parts > 0), "{stage}");
        }
    }

    #[test]
    fn json_groups_parts_by_stage() {
        let mut map = PartMap::<Option<u64>>::default();
        map[Part::Cwnd] = Some(7);
        map[Part::Excess] = Some(8);
        assert_eq!(
            serde_json::to_string(&map).unwrap(),
            r#"{"tx.queue":{"cwnd":7},"tx.network":{"excess":8}}"#
        );
    }
}
