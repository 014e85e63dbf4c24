//! Find the read of a datagram, by its number.
//!
//! Hosts that sample in step give each datagram a number, a hash of its bytes. Datagrams with the
//! same bytes have the same one, and which of them was lost cannot be told: they are refused. A
//! socket that is not bound to an address has none in its messages, so only ports are compared
//! where one end lacks it.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::half::{Extent, Stamped};
use crate::life::{Read, Sent};
use crate::pairs::Pair;
use crate::sides::{Host, Key};
use crate::unmatched::Reason;

/// The sender, both ports, the number and the length.
type Name = (Host, u16, u16, u32, u64);

/// Datagrams with both ends, and the numbers of the others by reason.
type Decided = (Vec<(Key, Pair)>, Vec<(Reason, u64)>);

/// The ends of a datagram, as the hosts recorded them.
#[derive(Debug, Default)]
struct Seen {
    sends: u64,
    reads: u64,
    /// One of each, unless it was refused when it was measured.
    sent: Option<Box<Sent>>,
    read: Option<Box<Read>>,
    /// The addresses that each end has: its own, then the other's.
    of_sender: Option<[SocketAddr; 2]>,
    of_reader: Option<[SocketAddr; 2]>,
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
    pub(crate) fn add(&mut self, (from, sender, reader): Key, extent: Extent, stamped: Stamped) {
        let name = (from, sender.port(), reader.port(), extent.seq_end, extent.bytes);
        let seen = self.seen.entry(name).or_default();
        seen.newest = seen.newest.max(extent.time);
        match stamped {
            Stamped::Sent(sent) => {
                seen.sends += 1;
                seen.sent = sent;
                seen.of_sender = Some([sender, reader]);
            }
            Stamped::Read(read) => {
                seen.reads += 1;
                seen.read = read;
                seen.of_reader = Some([reader, sender]);
            }
        }
    }

    /// Remove those of which nothing came since a moment: return those that have both ends, and the
    /// numbers of the others by reason.
    pub(crate) fn decide(&mut self, before: u64) -> Decided {
        let mut pairs = Vec::new();
        let mut unmatched = Vec::new();
        for (name, seen) in self.seen.extract_if(|_, seen| seen.newest < before) {
            match seen.decide(name.0) {
                Ok(pair) => pairs.push(pair),
                Err(reason) => unmatched.push(reason),
            }
        }
        pairs.sort_by_key(|(_, pair)| pair.sent.time.as_nanos());
        (pairs, unmatched)
    }
}

impl Seen {
    fn decide(self, from: Host) -> Result<(Key, Pair), (Reason, u64)> {
        let (sender, reader) = match (self.sends, self.reads, self.of_sender, self.of_reader) {
            (1, 1, Some(sender), Some(reader)) => (sender, reader),
            (1, 0, ..) => return Err((Reason::NotRead, 1)),
            (0, 1, ..) => return Err((Reason::NotSent, 1)),
            (sends, reads, ..) => return Err((Reason::Ambiguous, sends + reads)),
        };
        let [Some(sender), Some(reader)] = [common(sender[0], reader[1]), common(reader[0], sender[1])]
        else {
            return Err((Reason::Ambiguous, 2));
        };
        let (Some(sent), Some(read)) = (self.sent, self.read) else {
            return Err((Reason::Refused, 1));
        };
        Ok(((from, sender, reader), Pair { sent, read }))
    }
}

/// Return an address that both ends have, of which one may have the port alone.
fn common(own: SocketAddr, seen: SocketAddr) -> Option<SocketAddr> {
    match own.ip().is_unspecified() {
        true => Some(seen),
        false => (own == seen || seen.ip().is_unspecified()).then_some(own),
    }
}
