use std::fmt;

use crate::error_queue;
use crate::timestamping::{Coverage, MatcherCounters, TxStamp};

/// The name of one send of a [`StampedSocket`](super::StampedSocket). Later sends have greater
/// ones; none comes twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub(super) u64);

impl Token {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Sent {
    /// The name that its stamps will have.
    pub token: Token,
    /// How many bytes were taken: of a stream, maybe not all.
    pub bytes: usize,
}

/// A stamp and the send that it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stamped {
    /// The send.
    pub token: Token,
    /// Point and time.
    pub stamp: TxStamp,
    /// Whether it is the send's own, or of a later one of the same stream.
    pub coverage: Coverage,
}

/// Counters of a [`StampedSocket`](super::StampedSocket). They never decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Sends, failed ones among them.
    pub tried: u64,
    /// Sends that failed, those that had no room (EAGAIN) among them.
    pub failed: u64,
    /// Stamps and errors that were dropped because nobody took them for too long.
    pub dropped: u64,
    /// Entries of the error queue that are neither stamps nor errors.
    pub others: u64,
    /// What became of the stamps.
    pub stamps: MatcherCounters,
    /// What came out of the error queue.
    pub queue: error_queue::Counters,
}
