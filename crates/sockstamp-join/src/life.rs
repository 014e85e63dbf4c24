//! A message from the send call on one host to the read call on the other.

use std::net::SocketAddr;

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use sockstamp_model::clock::{Nanos, Realtime, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie, canonical};
use sockstamp_model::message::{Interfaces, Message, Stamps};
use sockstamp_model::name::Name;
use sockstamp_model::part::{Part, PartMap};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::verdict::Verdict;

use crate::clocks::Estimate;
use crate::sides::{Host, Reader, Sender, Stamp};

/// The stages before the network.
pub(crate) const SENDING: [Stage; 4] =
    [Stage::TxCopy, Stage::TxQueue, Stage::TxQdisc, Stage::TxNic];

/// The stages after the network.
pub(crate) const RECEIVING: [Stage; 5] = [
    Stage::RxNic,
    Stage::RxHol,
    Stage::RxStack,
    Stage::RxWakeup,
    Stage::RxApp,
];

/// The numbers of a sent message that a life needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    pub(crate) weight: u32,
    pub(crate) retransmits: u32,
    pub(crate) coalesced: bool,
    pub(crate) seq_end: u32,
    pub(crate) stages: [Option<Nanos>; 4],
    /// Parts that took time, except remainders of stages.
    pub(crate) parts: Box<[(Part, Nanos)]>,
    /// The last stamp before the network.
    pub(crate) left: Stamp<Sender>,
    /// For TCP.
    pub(crate) acknowledged: Option<Stamp<Sender>>,
}

impl Sent {
    /// `None` if the message is not valid, or lacks a stamp.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let (left, acknowledged) = match message.flow.protocol {
            Protocol::Tcp => {
                let acknowledged: Stamp<Sender> = message.stamps.ack?.of();
                let left = acknowledged.before(behind_driver(message)?)?;
                (left, Some(acknowledged))
            }
            Protocol::Udp => (message.stamps.snd_last?.of(), None),
        };
        message.verdict.is_valid().then_some(())?;
        Some(Self {
            bytes: message.bytes,
            weight: message.weight,
            retransmits: message.retransmits,
            coalesced: message.coalesced,
            seq_end: message.seq_end,
            stages: SENDING.map(|stage| message.stages[stage].filter(|_| is_exact(message, stage))),
            parts: parts(message, &SENDING),
            left,
            acknowledged,
        })
    }
}

/// Return false for a stage that ends or begins by a NIC's clock, whose error is none of the hosts'
/// clocks: the time counts as the way to the other host.
fn is_exact(message: &Message, stage: Stage) -> bool {
    !matches!(stage, Stage::TxNic | Stage::RxNic) || message.nic_bound.is_none()
}

/// Return the time from the last exact stamp before the network to the acknowledgement.
fn behind_driver(message: &Message) -> Option<Nanos> {
    let network = message.stages[Stage::TxNetwork]?;
    let nic = message.stages[Stage::TxNic].filter(|_| !is_exact(message, Stage::TxNic));
    Some(network + nic.unwrap_or_default())
}

fn parts(message: &Message, stages: &[Stage]) -> Box<[(Part, Nanos)]> {
    let there = stages
        .iter()
        .filter(|stage| message.stages[**stage].is_some());
    let parts = there.flat_map(|stage| message.parts.of(*stage));
    parts
        .map(|(part, duration)| (part, *duration))
        .filter(|(part, duration)| !part.is_rest() && *duration > Nanos::ZERO)
        .collect()
}

impl Sent {
    /// Return its last stamp, of the same moment as its time.
    pub(crate) fn last(&self) -> Stamp<Sender> {
        self.acknowledged.unwrap_or(self.left)
    }
}

/// The numbers of a read message that a life needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) weight: u32,
    pub(crate) stages: [Option<Nanos>; 5],
    /// As in [`Sent`].
    pub(crate) parts: Box<[(Part, Nanos)]>,
    /// The first stamp after the network.
    pub(crate) arrived: Stamp<Reader>,
    /// The time when the socket could be read.
    pub(crate) ready: Stamp<Reader>,
    pub(crate) read: Stamp<Reader>,
}

impl Read {
    /// `None` if the message is not valid, or lacks a stamp.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let read = message
            .stamps
            .read
            .filter(|_| message.verdict.is_valid())?
            .of();
        let exact = |stage| message.stages[stage].filter(|_| is_exact(message, stage));
        let stages = RECEIVING.map(exact);
        Self::new(message.weight, stages, parts(message, &RECEIVING), read)
    }

    /// Compute from its stages when it arrived; `None` if one is missing, or leads to a time before
    /// the clock's zero.
    pub(crate) fn new(
        weight: u32,
        stages: [Option<Nanos>; 5],
        parts: Box<[(Part, Nanos)]>,
        read: Stamp<Reader>,
    ) -> Option<Self> {
        let whole: Nanos = stages.iter().flatten().copied().sum();
        let behind: Nanos = stages[3..].iter().flatten().copied().sum();
        stages[2]?;
        Some(Self {
            weight,
            stages,
            parts,
            arrived: read.before(whole)?,
            ready: read.before(behind)?,
            read,
        })
    }
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
    /// The network namespace of the sender's socket.
    pub netns: NetnsInode,
    /// The sender's socket.
    pub cookie: SocketCookie,
    /// The sender's cgroup.
    pub cgroup: CgroupId,
    /// TCP, or UDP, which has no `net.back`.
    pub protocol: Protocol,
    /// The sequence number after its last byte; for UDP, the number of the datagram.
    pub seq_end: u32,
    /// The stages of its way, and `net.back`, which is no part of the total: the acknowledgement
    /// may have been delayed.
    pub stages: StageMap<Option<Nanos>>,
    /// The parts of both hosts' stages that took time, except the remainder of each.
    pub parts: Box<[(Part, Nanos)]>,
    /// The offset of the clocks that `net.forward` and `net.back` were taken with: both are as
    /// uncertain as that is.
    pub clocks: Estimate,
}

impl Life {
    /// Return the time from the send call to the read call.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.present().map(|(_, duration)| duration).sum()
    }

    /// Return the time from the socket being readable to the acknowledgement; `None` of UDP.
    #[must_use]
    pub fn back(&self) -> Option<Nanos> {
        self.stages[Stage::NetBack]
    }

    /// Iterate over the present stages of its path.
    pub fn present(&self) -> impl Iterator<Item = (Stage, Nanos)> {
        let stages = Stage::WAY.into_iter();
        stages.filter_map(|stage| Some((stage, self.stages[stage]?)))
    }

    /// Return it as a sent message with the stages of both hosts; `None` if its weight is too large
    /// for a message.
    #[must_use]
    pub fn to_message(&self) -> Option<Message> {
        let mut message = Message {
            direction: Direction::Tx,
            flow: Flow {
                netns: self.netns,
                protocol: self.protocol,
                local: self.sender.address,
                remote: self.reader.address,
                cookie: self.cookie,
            },
            cgroup: self.cgroup,
            container: None,
            opened: None,
            group: None,
            pid: self.sender.pid,
            comm: self.sender.comm.clone(),
            cpu: None,
            bytes: self.bytes,
            weight: u32::try_from(self.weight).ok()?,
            retransmits: self.retransmits,
            repeats: 0,
            coalesced: false,
            ack_with_data: false,
            unpaired: None,
            min_rtt: None,
            clock_error: Some(self.clocks.error),
            nic_bound: None,
            seq_end: self.seq_end,
            stages: self.stages,
            parts: PartMap::default(),
            stamps: Stamps::default(),
            oldest_age: None,
            time: self.time,
            interfaces: Interfaces::default(),
            verdict: Verdict::Valid,
        };
        for &(part, duration) in &self.parts {
            message.parts[part] = Some(duration);
        }
        Some(message)
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
        let mut object = serializer.serialize_struct("Life", 13)?;
        object.serialize_field("version", &1)?;
        object.serialize_field("time_ns", &self.time)?;
        let from = match self.from {
            Host::First => "first",
            Host::Second => "second",
        };
        object.serialize_field("from", from)?;
        object.serialize_field("protocol", &self.protocol)?;
        object.serialize_field("sender", &self.sender)?;
        object.serialize_field("reader", &self.reader)?;
        object.serialize_field("bytes", &self.bytes)?;
        object.serialize_field("weight", &self.weight)?;
        object.serialize_field("retransmits", &self.retransmits)?;
        object.serialize_field("stages", &Stages(self))?;
        object.serialize_field("total_ns", &self.total())?;
        object.serialize_field("net_back_ns", &self.back())?;
        object.serialize_field("clock_error_ns", &self.clocks.error)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;

    use super::*;

    #[test]
    fn no_error_of_a_nics_clock_comes_into_a_life() {
        let mut whole = fixture::message(Direction::Tx);
        whole.stamps.ack = Some(Timestamp::from_nanos(1_500_000));
        whole.stages[Stage::TxQdisc] = Some(Nanos(3_000));
        whole.stages[Stage::TxNetwork] = Some(Nanos(500_000));
        let mut divided = whole.clone();
        divided.stages[Stage::TxNic] = Some(Nanos(20_000));
        divided.stages[Stage::TxNetwork] = Some(Nanos(480_000));
        divided.nic_bound = Some(Nanos(700));
        assert_eq!(Sent::of(&divided), Sent::of(&whole));
        assert!(Sent::of(&whole).is_some());
        let mut read = fixture::message(Direction::Rx);
        read.stamps.read = Some(Timestamp::from_nanos(1_500_000));
        read.stages[Stage::RxStack] = Some(Nanos(3_000));
        let mut preceded = read.clone();
        preceded.stages[Stage::RxNic] = Some(Nanos(20_000));
        preceded.nic_bound = Some(Nanos(700));
        assert_eq!(Read::of(&preceded), Read::of(&read));
        assert!(Read::of(&read).is_some());
    }
}
