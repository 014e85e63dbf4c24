//! Which message a stamp is of.

mod send;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::stamp::{TxKind, TxStamp, TxTime};

use send::{Kinds, Send, Slots};

/// The origin of the ids of a TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// At the next byte written when the option was set:
    /// [`Flag::OptIdTcp`](crate::Flag::OptIdTcp).
    NextByte,
    /// At the oldest byte that was not acknowledged then: [`Flag::OptId`](crate::Flag::OptId).
    /// `outstanding` is how many bytes were written and not acknowledged (SIOCOUTQ); 0 on a
    /// connection that has been quiet.
    Unacknowledged {
        /// Bytes between the origin and the next byte written.
        outstanding: u32,
    },
}

/// Joins stamps to the messages that they are of.
///
/// Give it each send and each stamp. It remembers the last messages, as many as its capacity, and
/// allocates nothing after it was made.
///
/// | made by | ids | a send is reported |
/// |---|---|---|
/// | [`chosen_ids`](Self::chosen_ids) | [the sender's own](crate::MessageOptions::id) | [before](Self::sending) the call, by any thread |
/// | [`datagrams`](Self::datagrams) | the kernel's count of stamped sends | [after](Self::sent) the call, before another send of the socket |
/// | [`stream`](Self::stream) | bytes of TCP | [after](Self::sent) the call, before another send of the socket |
///
/// A count has two weak points, which own ids have not. Sends of several threads must be reported
/// in the order in which the kernel counts them: hold one lock over the send *and* its report. And
/// a datagram that fails may have been counted or not: see [`restarted`](Self::restarted). To miss
/// either gives stamps to wrong messages. Own ids are of datagrams, since v6.13.
/// `StampedSocket` of the crate `sockstamp` takes care of both.
///
/// | what happens | result |
/// |---|---|
/// | stamps come out of order | each is matched to its own message |
/// | TCP gives one stamp for several messages | the last one's is [`Coverage::Exact`], earlier ones are [`Coverage::Merged`] |
/// | the stamp of a message comes after a later one's | `Merged` first, with the later time, then `Exact` |
/// | a stamp comes again (sent again, or a second device) | [`Outcome::Duplicate`] |
/// | a stamp is lost | the message is handed out by [`sent`](Self::sent) when its place is needed, and counted |
/// | ids wrap at 2^32 | nothing: they are joined to the nearest message, up to 2^31 back |
/// | a stamp of a forgotten message, or of one that was never told | [`Outcome::Past`], [`Outcome::Unknown`] |
/// | a count began anew, and the id is of a message before and of one after | [`Outcome::Doubtful`] |
///
/// ```
/// use sockstamp_clock::TxKind;
/// use sockstamp_clock::matcher::{Matcher, Origin};
///
/// let mut sends = Matcher::stream(128, &[TxKind::Ack], Origin::NextByte);
/// sends.sent(5, "hello");
/// sends.sent(7, "goodbye");
/// assert_eq!(sends.counters().matched, 0);
/// ```
#[derive(Debug)]
pub struct Matcher<T> {
    sends: VecDeque<Send<T>>,
    /// Sends of counts that have ended, oldest first: [`restarted`](Self::restarted).
    former: VecDeque<Send<T>>,
    capacity: usize,
    expected: Kinds,
    unit: Unit,
    /// The id of the next datagram or byte, counted on beyond 32 bits.
    next: u64,
    counters: MatcherCounters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Chosen,
    Datagrams,
    Bytes,
}

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
    /// Matches one message or more.
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

impl<T> Matcher<T> {
    /// Create one for datagram sockets, whose ids count sends. It remembers `capacity` messages;
    /// each is expected to get stamps of all kinds `expected`.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    #[must_use]
    pub fn datagrams(capacity: usize, expected: &[TxKind]) -> Self {
        Self::new(capacity, expected, Unit::Datagrams, 0)
    }

    /// Create one for datagrams with [ids of the sender's choice](crate::MessageOptions::id), which
    /// rise by whatever steps and wrap. It is otherwise like [`datagrams`](Self::datagrams).
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    #[must_use]
    pub fn chosen_ids(capacity: usize, expected: &[TxKind]) -> Self {
        Self::new(capacity, expected, Unit::Chosen, 0)
    }

    /// Create one for TCP, whose ids count bytes from `origin`. It is otherwise like
    /// [`datagrams`](Self::datagrams).
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    #[must_use]
    pub fn stream(capacity: usize, expected: &[TxKind], origin: Origin) -> Self {
        let next = match origin {
            Origin::NextByte => 0,
            Origin::Unacknowledged { outstanding } => outstanding.into(),
        };
        Self::new(capacity, expected, Unit::Bytes, next)
    }

    fn new(capacity: usize, expected: &[TxKind], unit: Unit, next: u64) -> Self {
        assert!(capacity > 0, "a matcher without memory matches nothing");
        Self {
            sends: VecDeque::with_capacity(capacity),
            former: VecDeque::with_capacity(match unit {
                Unit::Datagrams => capacity,
                Unit::Chosen | Unit::Bytes => 0,
            }),
            capacity,
            expected: Kinds::of(expected),
            unit,
            next,
            counters: MatcherCounters::default(),
        }
    }

    /// Note a sent message that requested stamps. `bytes` is the result of the send call; 0 means
    /// that nothing was sent on a stream.
    ///
    /// Returns the message that had to be forgotten for it, if that lacked an expected stamp.
    ///
    /// # Panics
    ///
    /// If the matcher is for [`chosen_ids`](Self::chosen_ids).
    pub fn sent(&mut self, bytes: usize, message: T) -> Option<T> {
        assert_ne!(self.unit, Unit::Chosen, "these ids are chosen, not counted");
        if self.unit == Unit::Bytes && bytes == 0 {
            return None;
        }
        self.next += match self.unit {
            Unit::Bytes => bytes as u64,
            Unit::Datagrams | Unit::Chosen => 1,
        };
        let forgotten = self.make_room();
        self.sends.push_back(Send::new(self.next - 1, message));
        forgotten
    }

    /// Note a datagram that will be sent with this `id`. Ids of several threads may come in any
    /// order, as long as they are near each other. If the send fails, [`unsent`](Self::unsent)
    /// takes the message back.
    ///
    /// Returns the message that had to be forgotten for it, if that lacked an expected stamp.
    ///
    /// # Panics
    ///
    /// If the matcher is not for [`chosen_ids`](Self::chosen_ids).
    pub fn sending(&mut self, id: u32, message: T) -> Option<T> {
        assert_eq!(self.unit, Unit::Chosen, "these ids are counted, not chosen");
        let last = self.nearest(id);
        let forgotten = self.make_room();
        let later = self.sends.iter().rev().take_while(|send| send.last > last);
        let place = self.sends.len() - later.count();
        self.sends.insert(place, Send::new(last, message));
        self.next = self.next.max(last + 1);
        forgotten
    }

    /// Forget the datagram of this `id`, whose send failed. `None` if it is not remembered.
    pub fn unsent(&mut self, id: u32) -> Option<T> {
        let last = self.extended(id)??;
        let index = self.sends.binary_search_by_key(&last, |send| send.last);
        self.sends.remove(index.ok()?).map(|send| send.message)
    }

    /// Note that a send of a datagram failed, then the error queue was read to its end, and then
    /// the ids of the socket were begun anew: by SO_TIMESTAMPING without
    /// [`OptId`](crate::Flag::OptId) and with it again, as `restart_ids` of the crate `sockstamp`
    /// does.
    ///
    /// Nobody knows whether the kernel has counted the datagram: a firewall, a full queue and a
    /// wrong size of segments refuse it after that, other errors come before (`__ip_append_data()`
    /// in net/ipv4/ip_output.c, v6.18). So the count begins anew. Stamps of earlier messages still
    /// find them, unless a later message has the same id: [`Outcome::Doubtful`]. A stamp that comes
    /// again (a second device) is of the later message then, if it comes as late.
    ///
    /// # Panics
    ///
    /// If the matcher is not for [`datagrams`](Self::datagrams).
    pub fn restarted(&mut self) {
        let counts = self.unit == Unit::Datagrams;
        assert!(counts, "only datagrams lose their count");
        self.former.append(&mut self.sends);
        self.next = 0;
    }

    /// Return true if no message that was counted has this id.
    #[must_use]
    pub fn is_ahead(&self, id: u32) -> bool {
        self.unit != Unit::Chosen && self.extended(id).is_none()
    }

    /// The extension of a chosen id beyond 32 bits that is nearest to the newest id, with room for
    /// earlier ones below the first.
    fn nearest(&self, id: u32) -> u64 {
        const FIRST: u64 = 1 << 32;
        match self.next.checked_sub(1) {
            None => FIRST + u64::from(id),
            Some(newest) => {
                let ahead = id.wrapping_sub(low(newest)).cast_signed();
                newest.saturating_add_signed(ahead.into())
            }
        }
    }

    /// Bytes were sent on a stream without asking for stamps. Datagrams without stamps are not
    /// counted by the kernel, nor here.
    pub fn sent_unstamped(&mut self, bytes: usize) {
        if self.unit == Unit::Bytes {
            self.next += bytes as u64;
        }
    }

    fn make_room(&mut self) -> Option<T> {
        if self.former.len() + self.sends.len() < self.capacity {
            return None;
        }
        let oldest = self.former.pop_front().or_else(|| self.sends.pop_front())?;
        let unfinished = !oldest.exact.and(oldest.merged).has_all(self.expected);
        self.counters.unfinished += u64::from(unfinished);
        unfinished.then_some(oldest.message)
    }

    /// Give `stamp` to its message, and on a stream to all earlier ones that lack it, oldest
    /// first.
    pub fn stamp(&mut self, stamp: &TxStamp, matched: impl FnMut(Match<'_, T>)) -> Outcome {
        let current = self.extended(stamp.id);
        let outcome = match (self.former_of(stamp), current) {
            (Former::None, None) => Outcome::Unknown,
            (Former::None, Some(id)) => self.stamp_at(id, stamp, matched),
            (Former::Complete, None | Some(None)) => Outcome::Duplicate,
            (Former::Complete, Some(id)) => self.stamp_at(id, stamp, matched),
            (Former::One(index), None | Some(None)) => self.stamp_former(index, stamp, matched),
            (Former::One(_), Some(Some(_))) | (Former::Several, _) => Outcome::Doubtful,
        };
        match outcome {
            Outcome::Matched => {}
            Outcome::Duplicate => self.counters.duplicate += 1,
            Outcome::Past => self.counters.past += 1,
            Outcome::Unknown => self.counters.unknown += 1,
            Outcome::Doubtful => self.counters.doubtful += 1,
        }
        outcome
    }

    /// The messages of ended counts that may have the stamp.
    fn former_of(&self, stamp: &TxStamp) -> Former {
        let slot = Slots::of(stamp);
        let with_id = |(_, send): &(usize, &Send<T>)| low(send.last) == stamp.id;
        let mut found = Former::None;
        for (index, send) in (0..).zip(&self.former).filter(with_id) {
            found = match found {
                _ if send.exact.has(slot) => found.or_complete(),
                Former::None | Former::Complete => Former::One(index),
                Former::One(_) | Former::Several => Former::Several,
            };
        }
        found
    }

    fn stamp_former(
        &mut self,
        index: usize,
        stamp: &TxStamp,
        mut matched: impl FnMut(Match<'_, T>),
    ) -> Outcome {
        let send = &mut self.former[index];
        send.exact = send.exact.and(Slots::of(stamp));
        self.counters.matched += 1;
        matched(send.matching(stamp, Coverage::Exact));
        Outcome::Matched
    }

    fn stamp_at(
        &mut self,
        id: Option<u64>,
        stamp: &TxStamp,
        mut matched: impl FnMut(Match<'_, T>),
    ) -> Outcome {
        let (Some(id), Some(oldest)) = (id, self.sends.front()) else {
            return Outcome::Past;
        };
        if id < oldest.last {
            return Outcome::Past;
        }
        let index = self.sends.partition_point(|send| send.last < id);
        let own = self.sends.get(index).is_some_and(|send| send.last == id);
        if !own && self.unit != Unit::Bytes {
            return Outcome::Unknown;
        }
        let slot = Slots::of(stamp);
        let mut any = false;
        let mut give = |send: &mut Send<T>, coverage| {
            any = true;
            matched(send.matching(stamp, coverage));
        };
        if self.unit == Unit::Bytes {
            // A stamp was given to all before it, so those without it are together, right before
            // this one.
            let has = |send: &Send<T>| send.exact.and(send.merged).has(slot);
            let first = self
                .sends
                .range(..index)
                .rposition(has)
                .map_or(0, |last| last + 1);
            for send in self.sends.range_mut(first..index) {
                send.merged = send.merged.and(slot);
                self.counters.merged += 1;
                give(send, Coverage::Merged);
            }
        }
        if let Some(send) = self
            .sends
            .get_mut(index)
            .filter(|send| own && !send.exact.has(slot))
        {
            send.exact = send.exact.and(slot);
            self.counters.matched += 1;
            give(send, Coverage::Exact);
        }
        if any {
            Outcome::Matched
        } else {
            Outcome::Duplicate
        }
    }

    /// Extend the id beyond 32 bits: return the newest value that is not later than the last send.
    /// `None` means a later one, which an id more than 2^31 old looks like too; `Some(None)` means
    /// one before the origin.
    fn extended(&self, id: u32) -> Option<Option<u64>> {
        let newest = self.next.checked_sub(1)?;
        let back = low(newest).wrapping_sub(id);
        (back <= u32::MAX / 2).then(|| newest.checked_sub(back.into()))
    }

    /// Return the counters so far.
    #[must_use]
    pub fn counters(&self) -> MatcherCounters {
        self.counters
    }

    /// The messages remembered that lack an expected stamp, oldest first.
    pub fn unfinished(&self) -> impl Iterator<Item = &T> {
        let lacks = |send: &&Send<T>| !send.exact.and(send.merged).has_all(self.expected);
        let all = self.former.iter().chain(&self.sends);
        all.filter(lacks).map(|send| &send.message)
    }
}

/// The messages of ended counts with the id of a stamp.
enum Former {
    None,
    /// All of them have the stamp.
    Complete,
    /// One of them lacks it.
    One(usize),
    Several,
}

impl Former {
    fn or_complete(self) -> Self {
        match self {
            Self::None => Self::Complete,
            found => found,
        }
    }
}

impl<T> Send<T> {
    fn matching(&mut self, stamp: &TxStamp, coverage: Coverage) -> Match<'_, T> {
        Match {
            message: &mut self.message,
            kind: stamp.kind,
            time: stamp.time,
            coverage,
        }
    }
}

/// The 32 bits that the kernel has.
fn low(id: u64) -> u32 {
    let [a, b, c, d, ..] = id.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
