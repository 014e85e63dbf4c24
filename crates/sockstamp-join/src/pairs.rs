//! Find the read that took the last byte of a send, by sequence numbers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use sockstamp_model::clock::Timestamp;

use crate::half::{Extent, Owner};
use crate::life::{Read, Sent};
use crate::sides::{self, First, Host, Reader, Sender, Stamp, Wall};
use crate::unmatched::Reason;

/// Nanoseconds in which ranges that were matched are kept as one.
const TOGETHER: u64 = 1_000_000_000;

/// A message that waits for its other end.
#[derive(Debug)]
struct Waiting<T> {
    begin: u64,
    /// By CLOCK_REALTIME of its host, in nanoseconds.
    time: u64,
    owner: Arc<Owner>,
    /// `None` if it was refused when it was measured.
    stamps: Option<T>,
}

/// Bytes of matched messages. They show whether bytes of other messages were also read or sent.
#[derive(Debug)]
struct Matched {
    begin: u64,
    /// None of them has a later one.
    time: u64,
}

/// The messages of one end of a direction, by the positions after their last bytes.
#[derive(Debug)]
struct Ranges<T> {
    waiting: BTreeMap<u64, Waiting<T>>,
    matched: BTreeMap<u64, Matched>,
    position: Position,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            matched: BTreeMap::new(),
            position: Position::default(),
        }
    }
}

impl<T> Ranges<T> {
    /// Keep a message until its other end comes.
    fn wait(&mut self, end: u64, extent: Extent, owner: Arc<Owner>, stamps: Option<T>) {
        let waiting = Waiting {
            begin: end.saturating_sub(extent.bytes),
            time: extent.time,
            owner,
            stamps,
        };
        self.waiting.insert(end, waiting);
    }

    /// Note that bytes were matched.
    fn matched(&mut self, begin: u64, end: u64, time: u64) {
        if let Some(next) = self.matched.range_mut(end..).next().map(|(_, next)| next)
            && next.begin == end
            && time <= next.time
        {
            next.begin = begin;
            return;
        }
        let mut range = Matched {
            begin,
            time: time.saturating_add(TOGETHER),
        };
        if let Some(before) = self.matched.get(&begin)
            && time <= before.time
        {
            (range.begin, range.time) = (before.begin, before.time);
            self.matched.remove(&begin);
        }
        self.matched.insert(end, range);
    }

    /// Return true if a message has the byte in front of a position, and later ones.
    fn goes_beyond(&self, end: u64) -> bool {
        let waiting = self.waiting.range(end..).next();
        let matched = self.matched.range(end..).next();
        waiting.is_some_and(|(_, message)| message.begin < end)
            || matched.is_some_and(|(_, range)| range.begin < end)
    }

    /// Iterate over the ends that have waited since before a moment, from the first byte on. An end
    /// stops at an earlier byte with a later time, so a sweep examines only what it removes.
    fn old(&self, before: u64) -> impl Iterator<Item = u64> {
        let waiting = self.waiting.iter();
        waiting
            .take_while(move |(_, waiting)| waiting.time < before)
            .map(|(&end, _)| end)
    }

    fn remove_old(&mut self, before: u64) {
        while let Some(first) = self
            .waiting
            .first_entry()
            .filter(|first| first.get().time < before)
        {
            first.remove();
        }
        while let Some(first) = self
            .matched
            .first_entry()
            .filter(|first| first.get().time < before)
        {
            first.remove();
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.matched.is_empty()
    }
}

/// The position of the newest message of each end, whose low half is its sequence number. Numbers
/// wrap after 4 GB; that both ends count the same wraps is known from their being read together.
#[derive(Debug, Default)]
struct Position {
    last: Option<u64>,
}

impl Position {
    /// Return the position nearest to the last one, of either end, that has this sequence number.
    fn of(&mut self, other: &Self, sequence: u32) -> u64 {
        // Far from zero, so a message may begin before it.
        let last = self.last.or(other.last).unwrap_or(1 << 40);
        #[expect(clippy::cast_possible_truncation, reason = "the low half")]
        let ahead = sequence.wrapping_sub(last as u32).cast_signed();
        let position = last.saturating_add_signed(i64::from(ahead));
        self.last = Some(position);
        position
    }
}

/// Both ends of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) from: Host,
    pub(crate) sender: Arc<Owner>,
    pub(crate) reader: Arc<Owner>,
    /// When its last stamp was taken.
    pub(crate) sent_at: Wall<Sender>,
    pub(crate) read_at: Wall<Reader>,
    pub(crate) sent: Sent,
    pub(crate) read: Read,
}

impl Pair {
    /// Return how far the times of both ends are apart, in nanoseconds.
    pub(crate) fn apart(&self) -> u64 {
        self.sent_at.as_nanos().abs_diff(self.read_at.as_nanos())
    }

    /// Its time by the first host's monotonic clock.
    pub(crate) fn moment(&self) -> Stamp<First> {
        sides::of_first(self.from, self.sent.left, self.read.arrived)
    }

    /// Its time by the first host's CLOCK_REALTIME, in nanoseconds.
    pub(crate) fn time(&self) -> u64 {
        match self.from {
            Host::First => self.sent_at.as_nanos(),
            Host::Second => self.read_at.as_nanos(),
        }
    }

    /// Return the addresses of the sender and the reader as the sender sees them. A datagram's
    /// socket may have none: the other end knows it.
    pub(crate) fn addresses(&self) -> [SocketAddr; 2] {
        let known = |own: SocketAddr, seen| if own.ip().is_unspecified() { seen } else { own };
        [
            known(self.sender.local, self.reader.remote),
            known(self.sender.remote, self.reader.local),
        ]
    }
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    from: Host,
    sends: Ranges<Sent>,
    reads: Ranges<Read>,
}

/// The other end of a message, if found: both ends, or the note that one of them was refused.
#[expect(
    clippy::large_enum_variant,
    reason = "half of all messages find one: a box would be an allocation for each"
)]
pub(crate) enum Found {
    Pair(Pair),
    Refused,
    Nothing,
}

impl Stream {
    pub(crate) fn new(from: Host) -> Self {
        Self {
            from,
            sends: Ranges::default(),
            reads: Ranges::default(),
        }
    }

    /// Take a message that was sent.
    pub(crate) fn sent(&mut self, extent: Extent, owner: Arc<Owner>, sent: Option<Sent>) -> Found {
        let end = self.sends.position.of(&self.reads.position, extent.seq_end);
        let Some(read) = self.reads.waiting.remove(&end) else {
            self.sends.wait(end, extent, owner, sent);
            return Found::Nothing;
        };
        self.sends
            .matched(end.saturating_sub(extent.bytes), end, extent.time);
        self.reads.matched(read.begin, end, read.time);
        let (Some(sent), Some(stamps)) = (sent, read.stamps) else {
            return Found::Refused;
        };
        Found::Pair(Pair {
            from: self.from,
            sender: owner,
            reader: read.owner,
            sent_at: Timestamp::from_nanos(extent.time),
            read_at: Timestamp::from_nanos(read.time),
            sent,
            read: stamps,
        })
    }

    /// Take a message that was read.
    pub(crate) fn read(&mut self, extent: Extent, owner: Arc<Owner>, read: Option<Read>) -> Found {
        let end = self.reads.position.of(&self.sends.position, extent.seq_end);
        let Some(sent) = self.sends.waiting.remove(&end) else {
            self.reads.wait(end, extent, owner, read);
            return Found::Nothing;
        };
        self.reads
            .matched(end.saturating_sub(extent.bytes), end, extent.time);
        self.sends.matched(sent.begin, end, sent.time);
        let (Some(stamps), Some(read)) = (sent.stamps, read) else {
            return Found::Refused;
        };
        Found::Pair(Pair {
            from: self.from,
            sender: sent.owner,
            reader: owner,
            sent_at: Timestamp::from_nanos(sent.time),
            read_at: Timestamp::from_nanos(extent.time),
            sent: stamps,
            read,
        })
    }

    /// Forget messages that ended before a moment, and report why each was not matched. The reasons
    /// distinguish the reader's messages from the sender's.
    pub(crate) fn forget(&mut self, before: u64, mut tell: impl FnMut(Reason)) {
        self.sends
            .old(before)
            .for_each(|end| tell(self.why_unread(end)));
        self.reads
            .old(before)
            .for_each(|end| tell(self.why_unsent(end)));
        self.sends.remove_old(before);
        self.reads.remove_old(before);
    }

    fn why_unread(&self, end: u64) -> Reason {
        match self.reads.goes_beyond(end) {
            _ if self.reads.position.last.is_none() => Reason::OneSided,
            true => Reason::ReadWithLater,
            false => Reason::NotRead,
        }
    }

    fn why_unsent(&self, end: u64) -> Reason {
        match self.sends.goes_beyond(end) {
            _ if self.sends.position.last.is_none() => Reason::OneSided,
            true => Reason::ReadInParts,
            false => Reason::NotSent,
        }
    }

    /// Return true if nothing of it is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.reads.is_empty()
    }
}
