//! The reasons why a message has no whole life.

use std::ops::{Index, IndexMut};

/// A reason for which a message of one host was not joined with one of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The other recording has no message of this direction of the connection.
    OneSided,
    /// Sent: no read that was measured holds its last byte.
    NotRead,
    /// Sent: the read that took its last byte took later ones as well, whose arrival it shows.
    ReadWithLater,
    /// Read: no send that was measured holds its last byte.
    NotSent,
    /// Read: it ends within a send, whose other bytes another read took.
    ReadInParts,
    /// One of its ends was refused when it was measured.
    Refused,
    /// The offset of the clocks is unknown at its time.
    NoClock,
    /// Arrived before it was sent, by clocks that are known better than that.
    Contradiction,
    /// Several datagrams have the same bytes, ports and addresses, and one may have been lost; or a
    /// connection behind NAT may be one of several.
    Ambiguous,
    /// UDP, recorded without `--sample 2^K`, or with a payload that was not seen: it has no number.
    Udp,
}

impl Reason {
    /// The number of reasons.
    pub const COUNT: usize = 10;

    /// Every reason.
    pub const ALL: [Self; Self::COUNT] = [
        Self::OneSided,
        Self::NotRead,
        Self::ReadWithLater,
        Self::NotSent,
        Self::ReadInParts,
        Self::Refused,
        Self::NoClock,
        Self::Contradiction,
        Self::Ambiguous,
        Self::Udp,
    ];

    /// The name in text and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneSided => "one-sided",
            Self::NotRead => "not-read",
            Self::ReadWithLater => "read-with-later",
            Self::NotSent => "not-sent",
            Self::ReadInParts => "read-in-parts",
            Self::Refused => "refused",
            Self::NoClock => "no-clock",
            Self::Contradiction => "contradiction",
            Self::Ambiguous => "ambiguous",
            Self::Udp => "udp",
        }
    }
}

/// Messages by the reason why they were not joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unmatched {
    counts: [u64; Reason::COUNT],
}

impl Index<Reason> for Unmatched {
    type Output = u64;

    fn index(&self, reason: Reason) -> &u64 {
        &self.counts[reason as usize]
    }
}

impl IndexMut<Reason> for Unmatched {
    fn index_mut(&mut self, reason: Reason) -> &mut u64 {
        &mut self.counts[reason as usize]
    }
}
