//! A packet, and where it was seen.

use std::borrow::Cow;
use std::fmt;

use super::headers::Headers;
use crate::clock::{Monotonic, Realtime, Timestamp};
use crate::flow::{CgroupId, Flow};
use crate::interface::Interface;
use crate::name::Name;
use crate::stage::Direction;

/// Where a packet was seen, in the order of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketStage {
    /// Enters the packet scheduler of an interface.
    Sched,
    /// A driver takes it.
    Driver,
    /// The host has received it, and put it together with others (GRO).
    Softirq,
    /// The packet is about to be queued at its socket.
    Socket,
    /// TCP takes the packet, which has waited while a task had locked the socket. Packets that TCP
    /// puts together meanwhile are one from here on.
    Tcp,
}

impl PacketStage {
    /// Every stage.
    pub const ALL: [Self; 5] = [
        Self::Sched,
        Self::Driver,
        Self::Softirq,
        Self::Socket,
        Self::Tcp,
    ];

    /// Return the name, such as `"sched"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sched => "sched",
            Self::Driver => "driver",
            Self::Softirq => "softirq",
            Self::Socket => "socket",
            Self::Tcp => "tcp",
        }
    }
}

impl fmt::Display for PacketStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The segments that a packet will be cut into, or was put together from (GSO, GRO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// Bytes of payload in each but the last.
    pub size: u16,
    /// Their number; 0 where the kernel has not counted them.
    pub count: u16,
}

/// A packet at one stage. Most packets are written and forgotten, so it may borrow what it is read
/// from; see [`Packet::into_owned`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Where it was seen.
    pub stage: PacketStage,
    /// Sent or received by the flow.
    pub direction: Direction,
    /// When it was seen.
    pub time: Timestamp<Realtime>,
    /// The same moment by the clock of messages' stamps.
    pub stamp: Timestamp<Monotonic>,
    /// Its place in memory, which later packets reuse.
    pub address: u64,
    /// Its flow.
    pub flow: Flow,
    /// The cgroup of its socket; `None` where the socket is not known.
    pub cgroup: Option<CgroupId>,
    /// The path of that cgroup, if it could be looked up.
    pub cgroup_path: Option<Cow<'a, Name>>,
    /// The process; `None` if unknown.
    pub pid: Option<u32>,
    /// The name of the process.
    pub comm: Name,
    /// The interface.
    pub interface: Interface,
    /// Its length from the IP header on.
    pub length: u32,
    /// Its segments, if it has some.
    pub segments: Option<Segments>,
    /// Its bytes from the IP header on, as many as were requested.
    pub bytes: Cow<'a, [u8]>,
}

impl Packet<'_> {
    /// Return the fields of the headers; `None` if they are incomplete.
    #[must_use]
    #[inline]
    pub fn headers(&self) -> Option<Headers> {
        Headers::parse(&self.bytes, self.length)
    }

    /// Return a packet that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> Packet<'static> {
        Packet {
            cgroup_path: self.cgroup_path.map(|path| Cow::Owned(path.into_owned())),
            bytes: Cow::Owned(self.bytes.into_owned()),
            ..self
        }
    }
}
