//! Parts break a stage down by cause.

use std::ops::{Index, IndexMut, Range};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::clock::Nanos;
use crate::named::named;
use crate::stage::Stage;

macro_rules! parts {
    ($($(#[doc = $line:literal])+ $variant:ident = $stage:ident, $name:literal;)*) => {
        named! {
            /// A part of a stage. The parts of a stage add up to it.
            ///
            /// The parts of `tx.queue` are the **causes** of waiting in the TCP write queue.
            enum Part {
                $($(#[doc = $line])+ $variant = $name;)*
            }
        }

        impl Part {
            /// The stage that it is part of.
            #[must_use]
            pub const fn stage(self) -> Stage {
                match self {
                    $(Self::$variant => Stage::$stage,)*
                }
            }
        }
    };
}

parts! {
    /// The send call copied the data, and did everything else until its last byte was queued.
    Copy = TxCopy, "copy";
    /// The send call waited for room in the send buffer.
    Sndbuf = TxCopy, "sndbuf";
    /// The congestion window was full.
    Cwnd = TxQueue, "cwnd";
    /// The peer's receive window was full.
    Rwnd = TxQueue, "rwnd";
    /// TCP paced the flow.
    Pacing = TxQueue, "pacing";
    /// Enough data of the flow was already in the packet scheduler and the driver (TCP small
    /// queues, autocorking).
    Tsq = TxQueue, "tsq";
    /// A small packet waited for the acknowledgement of an earlier one.
    Nagle = TxQueue, "nagle";
    /// The application held the data back with TCP_CORK or MSG_MORE.
    Cork = TxQueue, "cork";
    /// A window was full while the connection recovered from what TCP took for a loss.
    Retransmit = TxQueue, "retransmit";
    /// The packet had left TCP, and waited for the link address of its next hop (ARP, neighbour
    /// discovery).
    Neighbour = TxQueue, "neighbour";
    /// The rest: the work itself, and waits whose cause cannot be seen.
    Other = TxQueue, "other";
    /// The smallest round-trip time of the connection.
    Path = TxNetwork, "path";
    /// The peer may have delayed the acknowledgement, until its answer or by its timer.
    DelayedAck = TxNetwork, "delayed-ack";
    /// The rest beyond the path and a delayed acknowledgement: queues in the network, loss, a slow
    /// peer.
    Excess = TxNetwork, "excess";
    /// The waiting task waited for a CPU while others ran on it.
    Runqueue = RxWakeup, "runqueue";
    /// The cgroup of the waiting task had used up its CPU quota.
    WakeupThrottled = RxWakeup, "throttled";
    /// The rest: either of the two, for instance because the task moved to another CPU.
    WakeupUnknown = RxWakeup, "unknown";
    /// The task that read was running, and had other work first.
    Running = RxApp, "running";
    /// The task that read waited for a CPU while others ran on it.
    Runnable = RxApp, "runnable";
    /// The cgroup of the task that read had used up its CPU quota.
    AppThrottled = RxApp, "throttled";
    /// The task that read slept: it waited for something else.
    Blocked = RxApp, "blocked";
    /// The rest, of unknown cause, for instance because another task had read before.
    Unknown = RxApp, "unknown";
    /// The task that answers was running.
    ServiceRunning = AppService, "running";
    /// The task that answers waited for a CPU while others ran on it.
    ServiceRunnable = AppService, "runnable";
    /// The cgroup of the task that answers had used up its CPU quota.
    ServiceThrottled = AppService, "throttled";
    /// The task that answers slept: it waited for something else.
    ServiceBlocked = AppService, "blocked";
    /// The rest, of unknown cause, for instance because another task answers than had read.
    ServiceOther = AppService, "other";
    /// The smallest round-trip time of the connection.
    Network = PeerAnswer, "network";
    /// The rest: the peer's work, and queues and losses on the path there and back.
    Peer = PeerAnswer, "peer";
    /// Until the SYN was sent that the peer answered: earlier ones were lost, or the peer dropped
    /// them.
    SynAgain = ConnHandshake, "syn-again";
    /// That SYN waited for the link address of its next hop (ARP, neighbour discovery).
    HandshakeNeighbour = ConnHandshake, "neighbour";
    /// The rest: from that SYN to the connection being established.
    RoundTrip = ConnHandshake, "round-trip";
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

/// One `T` for every part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartMap<T>([T; Part::COUNT]);

/// Arrays have a default up to 32 elements, and there are as many parts.
impl<T: Default> Default for PartMap<T> {
    fn default() -> Self {
        Self::from_fn(|_| T::default())
    }
}

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
