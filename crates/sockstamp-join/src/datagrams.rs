//! Find the read of a datagram, by its number.
//!
//! Hosts that sample in step give each datagram a number, a hash of its bytes. Datagrams with the
//! same bytes have the same number, and it is unknown which of them was lost, so they are refused.
//! A socket that is not bound to an address has none in its messages, so only ports are compared if
//! one end lacks it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use sockstamp_model::clock::Timestamp;

use crate::half::{Extent, Owner, Stamped};
use crate::life::{Read, Sent};
use crate::pairs::Pair;
use crate::sides::{Host, Key};
use crate::unmatched::Reason;

/// The sender, both ports, the number and the length.
type Name = (Host, u16, u16, u32, u64);

/// Datagrams with both ends, and the numbers of the others by reason.
type Decided = (Vec<Pair>, Vec<(Reason, u64)>);

/// One end of a datagram, as its host recorded it.
#[derive(Debug)]
struct End<T> {
    owner: Arc<Owner>,
    /// By CLOCK_REALTIME of its host, in nanoseconds.
    time: u64,
    /// `None` if it was refused when it was measured.
    stamps: Option<T>,
}

/// The ends of a datagram.
#[derive(Debug, Default)]
struct Seen {
    sends: u64,
    reads: u64,
    /// The last of each.
    sent: Option<End<Sent>>,
    read: Option<End<Read>>,
    /// The newest time of either, by its own clock.
    newest: u64,
}

/// Datagrams that wait for their other end.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    seen: HashMap<Name, Seen>,
}

impl Datagrams {
    pub(crate) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Take a datagram that has a number.
    pub(crate) fn add(
        &mut self,
        (from, sender, reader): Key,
        extent: Extent,
        owner: Arc<Owner>,
        stamped: Stamped,
    ) {
        let name = (
            from,
            sender.port(),
            reader.port(),
            extent.seq_end,
            extent.bytes,
        );
        let seen = self.seen.entry(name).or_default();
        let time = extent.time;
        seen.newest = seen.newest.max(time);
        match stamped {
            Stamped::Sent(stamps) => {
                seen.sends += 1;
                seen.sent = Some(End {
                    owner,
                    time,
                    stamps,
                });
            }
            Stamped::Read(stamps) => {
                seen.reads += 1;
                seen.read = Some(End {
                    owner,
                    time,
                    stamps,
                });
            }
        }
    }

    /// Remove datagrams without news since a moment: return those that have both ends, each with
    /// the host that sent it, and the numbers of the others by reason.
    pub(crate) fn decide(&mut self, before: u64) -> Decided {
        let mut pairs = Vec::new();
        let mut unmatched = Vec::new();
        for (name, seen) in self.seen.extract_if(|_, seen| seen.newest < before) {
            match seen.decide(name.0) {
                Ok(pair) => pairs.push(pair),
                Err(reason) => unmatched.push(reason),
            }
        }
        pairs.sort_by_key(|pair| pair.sent_at.as_nanos());
        (pairs, unmatched)
    }
}

impl Seen {
    fn decide(self, from: Host) -> Result<Pair, (Reason, u64)> {
        let (sent, read) = match (self.sends, self.reads, self.sent, self.read) {
            (1, 1, Some(sent), Some(read)) => (sent, read),
            (1, 0, ..) => return Err((Reason::NotRead, 1)),
            (0, 1, ..) => return Err((Reason::NotSent, 1)),
            (sends, reads, ..) => return Err((Reason::Ambiguous, sends + reads)),
        };
        let (sender, reader) = (&sent.owner, &read.owner);
        if !are_one(sender.local, reader.remote) || !are_one(reader.local, sender.remote) {
            return Err((Reason::Ambiguous, 2));
        }
        let (Some(stamps), Some(read_stamps)) = (sent.stamps, read.stamps) else {
            return Err((Reason::Refused, 1));
        };
        Ok(Pair {
            from,
            sender: sent.owner,
            reader: read.owner,
            sent_at: Timestamp::from_nanos(sent.time),
            read_at: Timestamp::from_nanos(read.time),
            sent: stamps,
            read: read_stamps,
        })
    }
}

/// Return true if the addresses that both ends have of a socket are one, of which an end may have
/// the port alone.
fn are_one(own: SocketAddr, seen: SocketAddr) -> bool {
    own == seen || own.ip().is_unspecified() || seen.ip().is_unspecified()
}
