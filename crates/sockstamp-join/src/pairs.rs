//! Find the read that took the last byte of a send, by sequence numbers.

use std::collections::BTreeMap;

use crate::half::Extent;
use crate::life::{Read, Sent};
use crate::unmatched::Reason;

/// Bytes of a stream that a message has, and the message until it is matched.
#[derive(Debug)]
struct Range<T> {
    begin: u64,
    /// By CLOCK_REALTIME of its host, in nanoseconds.
    time: u64,
    waiting: Waiting<T>,
}

#[derive(Debug)]
enum Waiting<T> {
    /// For its other end. Most ranges wait no longer.
    Yes(Box<T>),
    /// For its other end, but it was refused when it was measured.
    Refused,
    /// Matched.
    No,
}

impl<T> Range<T> {
    fn of(end: u64, extent: Extent, message: Option<Box<T>>) -> Self {
        Self {
            begin: end.saturating_sub(extent.bytes),
            time: extent.time,
            waiting: message.map_or(Waiting::Refused, Waiting::Yes),
        }
    }
}

/// Ranges by the position behind their last byte.
type Ranges<T> = BTreeMap<u64, Range<T>>;

/// The position of the newest message of each end, whose low half is its sequence number. Numbers
/// wrap after 4 GB; that both ends count the same wraps is known from their being read together.
#[derive(Debug, Default)]
struct Position {
    last: Option<u64>,
}

impl Position {
    /// Return the position nearest to the last one, of either end, that has this sequence number.
    fn of(&mut self, other: &Self, sequence: u32) -> u64 {
        // Far from zero, so that a begin may lie before it.
        let last = self.last.or(other.last).unwrap_or(1 << 40);
        #[expect(clippy::cast_possible_truncation, reason = "the low half")]
        let ahead = sequence.wrapping_sub(last as u32).cast_signed();
        let position = last.saturating_add_signed(i64::from(ahead));
        self.last = Some(position);
        position
    }
}

/// Both ends of a message.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) sent: Box<Sent>,
    pub(crate) read: Box<Read>,
}

impl Pair {
    /// Return how far the times of both ends are apart, in nanoseconds.
    pub(crate) fn apart(&self) -> u64 {
        self.sent.time.as_nanos().abs_diff(self.read.time.as_nanos())
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    sends: Ranges<Sent>,
    reads: Ranges<Read>,
    sender: Position,
    reader: Position,
}

/// The other end of a message, if it is there: both, or that one of them was refused.
pub(crate) enum Found {
    Pair(Pair),
    Refused,
    Nothing,
}

impl Stream {
    /// Take a message that was sent.
    pub(crate) fn sent(&mut self, extent: Extent, sent: Option<Box<Sent>>) -> Found {
        let end = self.sender.of(&self.reader, extent.seq_end);
        self.sends.insert(end, Range::of(end, extent, sent));
        self.pair(end)
    }

    /// Take a message that was read.
    pub(crate) fn read(&mut self, extent: Extent, read: Option<Box<Read>>) -> Found {
        let end = self.reader.of(&self.sender, extent.seq_end);
        self.reads.insert(end, Range::of(end, extent, read));
        self.pair(end)
    }

    fn pair(&mut self, end: u64) -> Found {
        let (Some(sent), Some(read)) = (self.sends.get_mut(&end), self.reads.get_mut(&end)) else {
            return Found::Nothing;
        };
        let sent = std::mem::replace(&mut sent.waiting, Waiting::No);
        let read = std::mem::replace(&mut read.waiting, Waiting::No);
        match (sent, read) {
            (Waiting::Yes(sent), Waiting::Yes(read)) => Found::Pair(Pair { sent, read }),
            (Waiting::No, _) | (_, Waiting::No) => Found::Nothing,
            _ => Found::Refused,
        }
    }

    /// Forget what ended before a moment, and tell of each that was not matched why. The reader's
    /// messages are told apart from the sender's by the reasons.
    pub(crate) fn forget(&mut self, before: u64, mut tell: impl FnMut(Reason)) {
        for end in old_and_alone(&self.sends, before) {
            tell(self.why_unread(end));
        }
        for end in old_and_alone(&self.reads, before) {
            tell(self.why_unsent(end));
        }
        remove_old(&mut self.sends, before);
        remove_old(&mut self.reads, before);
    }

    fn why_unread(&self, end: u64) -> Reason {
        if self.reader.last.is_none() {
            return Reason::OneSided;
        }
        match self.reads.range(end..).next() {
            Some((_, read)) if read.begin < end => Reason::ReadWithLater,
            _ => Reason::NotRead,
        }
    }

    fn why_unsent(&self, end: u64) -> Reason {
        if self.sender.last.is_none() {
            return Reason::OneSided;
        }
        match self.sends.range(end..).next() {
            Some((_, send)) if send.begin < end => Reason::ReadInParts,
            _ => Reason::NotSent,
        }
    }

    /// Return true if nothing of it is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.reads.is_empty()
    }
}

/// The ranges before a moment, from the first byte on: where an earlier byte has a later time, what
/// is behind it stays as long as it does. So a sweep looks at no more than what it removes.
fn old<T>(ranges: &Ranges<T>, before: u64) -> impl Iterator<Item = (u64, &Range<T>)> {
    let pairs = ranges.iter().map(|(&end, range)| (end, range));
    pairs.take_while(move |(_, range)| range.time < before)
}

/// The ends of those that were not matched.
fn old_and_alone<T>(ranges: &Ranges<T>, before: u64) -> impl Iterator<Item = u64> {
    let alone = old(ranges, before).filter(|(_, range)| !matches!(range.waiting, Waiting::No));
    alone.map(|(end, _)| end)
}

fn remove_old<T>(ranges: &mut Ranges<T>, before: u64) {
    while let Some(first) = ranges.first_entry().filter(|first| first.get().time < before) {
        first.remove();
    }
}
