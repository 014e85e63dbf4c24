//! Find the read that took the last byte of a send, by sequence numbers.

use std::collections::BTreeMap;

use sockstamp_model::message::Message;

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

impl<T> Waiting<T> {
    fn of(message: Option<T>) -> Self {
        message.map_or(Self::Refused, |message| Self::Yes(Box::new(message)))
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
    pub(crate) fn sent(&mut self, message: &Message) -> Found {
        let end = self.sender.of(&self.reader, message.seq_end);
        let range = Range {
            begin: end.saturating_sub(message.bytes),
            time: message.time.as_nanos(),
            waiting: Waiting::of(Sent::of(message)),
        };
        self.sends.insert(end, range);
        self.pair(end)
    }

    /// Take a message that was read.
    pub(crate) fn read(&mut self, message: &Message) -> Found {
        let end = self.reader.of(&self.sender, message.seq_end);
        let range = Range {
            begin: end.saturating_sub(message.bytes),
            time: message.time.as_nanos(),
            waiting: Waiting::of(Read::of(message)),
        };
        self.reads.insert(end, range);
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
        for (&end, range) in self.sends.iter().filter(|(_, range)| range.time < before) {
            if !matches!(range.waiting, Waiting::No) {
                tell(self.why_unread(end));
            }
        }
        for (&end, range) in self.reads.iter().filter(|(_, range)| range.time < before) {
            if !matches!(range.waiting, Waiting::No) {
                tell(self.why_unsent(end));
            }
        }
        self.sends.retain(|_, range| range.time >= before);
        self.reads.retain(|_, range| range.time >= before);
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
