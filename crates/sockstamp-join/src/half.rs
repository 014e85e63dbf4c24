//! A message as one host recorded it: as much of it as joining needs.

use std::net::SocketAddr;

use sockstamp_model::flow::{Protocol, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;

use crate::life::{Read, Sent};

/// One end of a message, for [`Join::add`](crate::Join::add). It is smaller than the message, and
/// whoever reads recordings can make it in a thread of its own.
#[derive(Debug)]
pub struct Half {
    pub(crate) protocol: Protocol,
    /// Without IPv4 in IPv6, so that both hosts have the same.
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
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
    Sent(Option<Box<Sent>>),
    Read(Option<Box<Read>>),
}

impl From<&Message> for Half {
    fn from(message: &Message) -> Self {
        let stamped = || match message.direction {
            Direction::Tx => Stamped::Sent(Sent::of(message).map(Box::new)),
            Direction::Rx => Stamped::Read(Read::of(message).map(Box::new)),
        };
        Self {
            protocol: message.flow.protocol,
            local: canonical(message.flow.local),
            remote: canonical(message.flow.remote),
            extent: Extent {
                seq_end: message.seq_end,
                bytes: message.bytes,
                time: message.time.as_nanos(),
            },
            stamped: (!message.is_connection()).then(stamped),
        }
    }
}
