//! A message as one host recorded it: as much of it as joining needs.

use std::net::SocketAddr;
use std::sync::Arc;

use sockstamp_model::flow::{CgroupId, NetnsInode, Protocol, SocketCookie, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::stage::Direction;

use crate::life::{Read, Sent};

/// The socket and the process of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) protocol: Protocol,
    /// Without IPv4 in IPv6, so that both hosts have the same.
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) netns: NetnsInode,
    pub(crate) cookie: SocketCookie,
    pub(crate) cgroup: CgroupId,
    pub(crate) pid: u32,
    pub(crate) comm: Name,
}

impl Owner {
    fn of(message: &Message) -> Self {
        Self {
            protocol: message.flow.protocol,
            local: canonical(message.flow.local),
            remote: canonical(message.flow.remote),
            netns: message.flow.netns,
            cookie: message.flow.cookie,
            cgroup: message.cgroup,
            pid: message.pid,
            comm: message.comm.clone(),
        }
    }

    fn is_of(&self, message: &Message) -> bool {
        self.cookie == message.flow.cookie
            && self.pid == message.pid
            && self.local == canonical(message.flow.local)
            && self.remote == canonical(message.flow.remote)
            && self.protocol == message.flow.protocol
            && self.netns == message.flow.netns
            && self.cgroup == message.cgroup
            && self.comm == message.comm
    }
}

/// One end of a message, for [`Join::add`](crate::Join::add). It is smaller than the message, and
/// can be made in another thread.
#[derive(Debug)]
pub struct Half {
    pub(crate) owner: Arc<Owner>,
    pub(crate) extent: Extent,
    /// `None` for the events of connections, which have no other end.
    pub(crate) stamped: Option<Stamped>,
}

/// A message's place in its stream, and its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) seq_end: u32,
    pub(crate) bytes: u64,
    /// By CLOCK_REALTIME of its host, in nanoseconds.
    pub(crate) time: u64,
}

/// An end, without its stamps where the message was refused when it was measured.
#[derive(Debug)]
pub(crate) enum Stamped {
    Sent(Option<Sent>),
    Read(Option<Read>),
}

impl Half {
    /// The time of the message, in nanoseconds of its host's CLOCK_REALTIME.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.extent.time
    }
}

impl From<&Message> for Half {
    fn from(message: &Message) -> Self {
        Maker::default().half(message)
    }
}

/// Make halves of the messages of a host. Rows of a recording are ordered by their flow: most have
/// the owner of the row before, and share it.
#[derive(Debug, Default)]
pub struct Maker {
    owner: Option<Arc<Owner>>,
}

impl Maker {
    /// Return the half of a message.
    pub fn half(&mut self, message: &Message) -> Half {
        let known = self.owner.take().filter(|owner| owner.is_of(message));
        let owner = known.unwrap_or_else(|| Arc::new(Owner::of(message)));
        self.owner = Some(Arc::clone(&owner));
        let stamped = || match message.direction {
            Direction::Tx => Stamped::Sent(Sent::of(message)),
            Direction::Rx => Stamped::Read(Read::of(message)),
        };
        Half {
            owner,
            extent: Extent {
                seq_end: message.seq_end,
                bytes: message.bytes,
                time: message.time.as_nanos(),
            },
            stamped: (!message.is_connection()).then(stamped),
        }
    }
}
