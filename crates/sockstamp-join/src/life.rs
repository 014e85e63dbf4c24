//! A message from the send call on one host to the read call on the other.

use std::fmt;
use std::net::SocketAddr;

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use sockstamp_model::clock::{Monotonic, Nanos, Realtime, Timestamp};
use sockstamp_model::flow::canonical;
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::stage::Stage;

use crate::clocks::Estimate;

/// The host that a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// The one whose recordings are given first.
    First,
    /// The other one.
    Second,
}

impl Host {
    /// Both hosts.
    pub const ALL: [Self; 2] = [Self::First, Self::Second];

    /// The host at the other end.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// A stage of a whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LifeStage {
    /// A stage of one of the hosts.
    Of(Stage),
    /// The last stamp of the sender → the first of the receiver.
    Forward,
}

impl LifeStage {
    /// The number of stages.
    pub const COUNT: usize = 10;

    /// Every stage, in the order of a message's way.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Of(Stage::TxCopy),
        Self::Of(Stage::TxQueue),
        Self::Of(Stage::TxQdisc),
        Self::Of(Stage::TxNic),
        Self::Forward,
        Self::Of(Stage::RxNic),
        Self::Of(Stage::RxHol),
        Self::Of(Stage::RxStack),
        Self::Of(Stage::RxWakeup),
        Self::Of(Stage::RxApp),
    ];

    /// The stages before the network.
    pub(crate) const SENDING: [Stage; 4] = [Stage::TxCopy, Stage::TxQueue, Stage::TxQdisc, Stage::TxNic];

    /// The stages behind the network.
    pub(crate) const RECEIVING: [Stage; 5] = [
        Stage::RxNic,
        Stage::RxHol,
        Stage::RxStack,
        Stage::RxWakeup,
        Stage::RxApp,
    ];

    /// The name in text and JSON, such as `"net.forward"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Of(stage) => stage.name(),
            Self::Forward => "net.forward",
        }
    }
}

impl fmt::Display for LifeStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The part of a sent message that a life needs.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) time: Timestamp<Realtime>,
    pub(crate) bytes: u64,
    pub(crate) weight: u32,
    pub(crate) pid: u32,
    pub(crate) comm: Name,
    pub(crate) retransmits: u32,
    pub(crate) coalesced: bool,
    pub(crate) stages: [Option<Nanos>; 4],
    /// The last stamp before the network.
    pub(crate) left: Timestamp<Monotonic>,
    pub(crate) acknowledged: Timestamp<Monotonic>,
}

impl Sent {
    /// `None` if the message is not valid, or lacks a stamp.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let acknowledged = message.stamps.ack.filter(|_| message.verdict.is_valid())?;
        let network = message.stages[Stage::TxNetwork]?;
        Some(Self {
            time: message.time,
            bytes: message.bytes,
            weight: message.weight,
            pid: message.pid,
            comm: message.comm.clone(),
            retransmits: message.retransmits,
            coalesced: message.coalesced,
            stages: LifeStage::SENDING.map(|stage| message.stages[stage]),
            left: earlier(acknowledged, network)?,
            acknowledged,
        })
    }
}

/// The part of a read message that a life needs.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) time: Timestamp<Realtime>,
    pub(crate) weight: u32,
    pub(crate) pid: u32,
    pub(crate) comm: Name,
    pub(crate) stages: [Option<Nanos>; 5],
    /// The first stamp behind the network.
    pub(crate) arrived: Timestamp<Monotonic>,
    /// The time when the socket could be read.
    pub(crate) ready: Timestamp<Monotonic>,
    pub(crate) read: Timestamp<Monotonic>,
}

impl Read {
    /// `None` if the message is not valid, or lacks a stamp.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let read = message.stamps.read.filter(|_| message.verdict.is_valid())?;
        let stages = LifeStage::RECEIVING.map(|stage| message.stages[stage]);
        let whole: Nanos = stages.iter().flatten().copied().sum();
        let behind: Nanos = stages[3..].iter().flatten().copied().sum();
        stages[2]?;
        Some(Self {
            time: message.time,
            weight: message.weight,
            pid: message.pid,
            comm: message.comm.clone(),
            stages,
            arrived: earlier(read, whole)?,
            ready: earlier(read, behind)?,
            read,
        })
    }
}

fn earlier(stamp: Timestamp<Monotonic>, by: Nanos) -> Option<Timestamp<Monotonic>> {
    stamp.as_nanos().checked_sub(by.0).map(Timestamp::from_nanos)
}

/// One end of a life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The address of its socket.
    pub address: SocketAddr,
    /// The process.
    pub pid: u32,
    /// The name of its thread.
    pub comm: Name,
}

impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("End", 3)?;
        object.serialize_field("address", &canonical(self.address))?;
        object.serialize_field("pid", &self.pid)?;
        object.serialize_field("comm", &self.comm)?;
        object.end()
    }
}

/// A message as both hosts saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// The host that sent it.
    pub from: Host,
    /// The sending process.
    pub sender: End,
    /// The reading process.
    pub reader: End,
    /// Its bytes.
    pub bytes: u64,
    /// The number of messages that it stands for.
    pub weight: u64,
    /// Retransmissions of its last byte.
    pub retransmits: u32,
    /// When it was read, by the reader's clock.
    pub time: Timestamp<Realtime>,
    /// Each stage, in the order of [`LifeStage::ALL`]; `None` where it is absent.
    pub stages: [Option<Nanos>; LifeStage::COUNT],
    /// From the socket being readable to the arrival of the acknowledgement, which may have been
    /// delayed. Not a part of the total.
    pub back: Nanos,
    /// The offset of the clocks that `net.forward` and `net.back` were taken with: both are as
    /// uncertain as that is.
    pub clocks: Estimate,
}

impl Life {
    /// The time from the send call to the read call.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.stages.iter().flatten().copied().sum()
    }

    /// Iterate over the stages that are there.
    pub fn present(&self) -> impl Iterator<Item = (LifeStage, Nanos)> {
        LifeStage::ALL
            .into_iter()
            .zip(self.stages)
            .filter_map(|(stage, duration)| Some((stage, duration?)))
    }
}

/// The stages of a life by their names.
struct Stages<'a>(&'a Life);

impl Serialize for Stages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (stage, duration) in self.0.present() {
            map.serialize_entry(stage.name(), &duration)?;
        }
        map.end()
    }
}

impl Serialize for Life {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Life", 12)?;
        object.serialize_field("version", &1)?;
        object.serialize_field("time_ns", &self.time)?;
        let from = match self.from {
            Host::First => "first",
            Host::Second => "second",
        };
        object.serialize_field("from", from)?;
        object.serialize_field("sender", &self.sender)?;
        object.serialize_field("reader", &self.reader)?;
        object.serialize_field("bytes", &self.bytes)?;
        object.serialize_field("weight", &self.weight)?;
        object.serialize_field("retransmits", &self.retransmits)?;
        object.serialize_field("stages", &Stages(self))?;
        object.serialize_field("total_ns", &self.total())?;
        object.serialize_field("net_back_ns", &self.back)?;
        object.serialize_field("clock_error_ns", &self.clocks.error)?;
        object.end()
    }
}
