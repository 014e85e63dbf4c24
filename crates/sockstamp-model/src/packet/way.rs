//! A packet with all its stages, and the message that it belongs to.

use super::{Packet, PacketStage};
use crate::clock::{Monotonic, Nanos, Realtime, Timestamp};
use crate::flow::SocketCookie;

/// The key by which a message is found in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageName {
    /// Its socket.
    pub cookie: SocketCookie,
    /// The time of its completion.
    pub time: Timestamp<Realtime>,
    /// TCP: the sequence number after its last byte.
    pub seq_end: Option<u32>,
}

/// A packet's path through the host, in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The same for a packet that is sent and received on this host.
    pub id: u64,
    /// The packet where it was seen first.
    pub packet: Packet<'static>,
    /// When it was at each stage: of its segments, and at further interfaces, the last.
    pub stamps: [Option<Timestamp<Monotonic>>; PacketStage::ALL.len()],
    /// The message whose bytes it carries, if known.
    pub message: Option<MessageName>,
}

impl Way {
    /// Begin a way.
    #[must_use]
    pub fn new(id: u64, packet: Packet<'static>) -> Self {
        let mut way = Self {
            id,
            packet,
            stamps: Default::default(),
            message: None,
        };
        way.stamps[way.packet.stage as usize] = Some(way.packet.stamp);
        way
    }

    /// Iterate over the stages where it was seen, each with the time since the first.
    pub fn seen(&self) -> impl Iterator<Item = (PacketStage, Nanos)> + '_ {
        let stamps = PacketStage::ALL.into_iter().zip(self.stamps);
        stamps.filter_map(|(stage, stamp)| Some((stage, stamp?.since(self.packet.stamp)?)))
    }

    /// Return the moment at which the packet was last seen.
    #[must_use]
    pub fn last(&self) -> Timestamp<Monotonic> {
        let stamps = self.stamps.into_iter().flatten();
        stamps.fold(self.packet.stamp, Ord::max)
    }
}
