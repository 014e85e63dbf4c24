//! The result of a stamp, and its counters.

use crate::stamp::{TxKind, TxTime};

/// The relation of a stamp to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coverage {
    /// The stamp is the message's own.
    Exact,
    /// The stamp is of a later byte of the same connection: the message was there by this time.
    Merged,
}

/// A stamp and its message.
#[derive(Debug, PartialEq, Eq)]
pub struct Match<'a, T> {
    /// The value given to [`Matcher::sent`].
    pub message: &'a mut T,
    /// The point of the stamp.
    pub kind: TxKind,
    /// Its time.
    pub time: TxTime,
    /// Its relation to the message.
    pub coverage: Coverage,
}

/// The result for a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It matches one message or more.
    Matched,
    /// Its messages had it already.
    Duplicate,
    /// The stamp is of a message that is no longer remembered.
    Past,
    /// The stamp is of no message that was reported as sent.
    Unknown,
    /// Messages of two counts have this id: after [`Matcher::restarted`].
    Doubtful,
}

/// Counters of a [`Matcher`]. They never decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MatcherCounters {
    /// Stamps matched to their own message.
    pub matched: u64,
    /// Messages that got the stamp of a later one.
    pub merged: u64,
    /// [`Outcome::Duplicate`].
    pub duplicate: u64,
    /// [`Outcome::Past`].
    pub past: u64,
    /// [`Outcome::Unknown`].
    pub unknown: u64,
    /// [`Outcome::Doubtful`].
    pub doubtful: u64,
    /// Messages that were forgotten without all the stamps expected.
    pub unfinished: u64,
}
