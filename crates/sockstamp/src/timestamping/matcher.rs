use std::collections::VecDeque;

use super::stamp::{TxKind, TxStamp, TxTime};

/// The origin of the ids of a TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// At the next byte written when the option was set:
    /// [`Options::tcp_id`](super::Options::tcp_id).
    NextByte,
    /// At the oldest byte that was not acknowledged then: [`Options::id`](super::Options::id).
    /// `outstanding` is how many bytes were written and not acknowledged (SIOCOUTQ); 0 on a
    /// connection that has been quiet.
    Unacknowledged {
        /// Bytes between the origin and the next byte written.
        outstanding: u32,
    },
}

/// Joins stamps to the messages that they are of.
///
/// Report each send to it right after the call, before the error queue is drained, and give it each
/// stamp. It remembers the last messages, as many as its capacity, and allocates nothing after
/// [`datagrams`](Self::datagrams) or [`stream`](Self::stream).
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
///
/// ```
/// use sockstamp::timestamping::{Matcher, Origin, TxKind};
///
/// let mut sends = Matcher::stream(128, &[TxKind::Ack], Origin::NextByte);
/// sends.sent(5, "hello");
/// sends.sent(7, "goodbye");
/// assert_eq!(sends.counters().matched, 0);
/// ```
#[derive(Debug)]
pub struct Matcher<T> {
    sends: VecDeque<Send<T>>,
    capacity: usize,
    expected: Kinds,
    unit: Unit,
    /// The id of the next datagram or byte, counted on beyond 32 bits.
    next: u64,
    counters: MatcherCounters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Datagrams,
    Bytes,
}

#[derive(Debug)]
struct Send<T> {
    /// The id of its stamps.
    last: u64,
    exact: Slots,
    merged: Slots,
    message: T,
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
pub enum Outcome {
    /// It matches one message or more.
    Matched,
    /// Its messages had it already.
    Duplicate,
    /// The stamp is of a message that is no longer remembered.
    Past,
    /// The stamp is of no message that was reported as sent.
    Unknown,
}

/// Counters of a [`Matcher`]. They never decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
            capacity,
            expected: Kinds::of(expected),
            unit,
            next,
            counters: MatcherCounters::default(),
        }
    }

    /// Note a sent message that requested stamps. `bytes` is the result of the send call; 0 means
    /// that nothing was sent on a stream. Not for datagrams with an
    /// [id of their own](super::MessageOptions::id).
    ///
    /// Returns the message that had to be forgotten for it, if that lacked an expected stamp.
    pub fn sent(&mut self, bytes: usize, message: T) -> Option<T> {
        if self.unit == Unit::Bytes && bytes == 0 {
            return None;
        }
        self.next += match self.unit {
            Unit::Datagrams => 1,
            Unit::Bytes => bytes as u64,
        };
        let forgotten = self.make_room();
        self.sends.push_back(Send {
            last: self.next - 1,
            exact: Slots::default(),
            merged: Slots::default(),
            message,
        });
        forgotten
    }

    /// Bytes were sent on a stream without asking for stamps. Datagrams without stamps are not
    /// counted by the kernel, nor here.
    pub fn sent_unstamped(&mut self, bytes: usize) {
        if self.unit == Unit::Bytes {
            self.next += bytes as u64;
        }
    }

    fn make_room(&mut self) -> Option<T> {
        if self.sends.len() < self.capacity {
            return None;
        }
        let oldest = self.sends.pop_front()?;
        let unfinished = !oldest.exact.and(oldest.merged).has_all(self.expected);
        self.counters.unfinished += u64::from(unfinished);
        unfinished.then_some(oldest.message)
    }

    /// Give `stamp` to its message, and on a stream to all earlier ones that lack it, oldest
    /// first.
    pub fn stamp(&mut self, stamp: &TxStamp, matched: impl FnMut(Match<'_, T>)) -> Outcome {
        let outcome = match self.extended(stamp.id) {
            None => Outcome::Unknown,
            Some(id) => self.stamp_at(id, stamp, matched),
        };
        match outcome {
            Outcome::Matched => {}
            Outcome::Duplicate => self.counters.duplicate += 1,
            Outcome::Past => self.counters.past += 1,
            Outcome::Unknown => self.counters.unknown += 1,
        }
        outcome
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
        if !own && self.unit == Unit::Datagrams {
            return Outcome::Unknown;
        }
        let slot = Slots::of(stamp);
        let mut any = false;
        let mut give = |send: &mut Send<T>, coverage| {
            any = true;
            matched(Match {
                message: &mut send.message,
                kind: stamp.kind,
                time: stamp.time,
                coverage,
            });
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
        let [a, b, c, d, ..] = newest.to_le_bytes();
        let back = u32::from_le_bytes([a, b, c, d]).wrapping_sub(id);
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
        self.sends.iter().filter(lacks).map(|send| &send.message)
    }
}

/// Kinds of stamps, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Kinds(u8);

impl Kinds {
    fn of(kinds: &[TxKind]) -> Self {
        Self(kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u8))
    }
}

/// Kinds of stamps: the kernel's in the low four bits, the interface's in the high ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Slots(u8);

impl Slots {
    fn of(stamp: &TxStamp) -> Self {
        let first = match stamp.time {
            TxTime::Software(_) => 0,
            TxTime::Hardware(_) => 4,
        };
        Self(1 << (stamp.kind as u8 + first))
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, slot: Self) -> bool {
        self.0 & slot.0 == slot.0
    }

    /// Return true if it has all kinds, from either source.
    fn has_all(self, kinds: Kinds) -> bool {
        (self.0 | self.0 >> 4) & kinds.0 == kinds.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockstamp_clock::Timestamp;

    use super::*;

    fn stamp(id: u32, kind: TxKind) -> TxStamp {
        TxStamp {
            id,
            kind,
            time: TxTime::Software(Timestamp::from_nanos(1)),
        }
    }

    /// Return the messages that get the stamp.
    fn given(matcher: &mut Matcher<u32>, id: u32, kind: TxKind) -> (Outcome, Vec<(u32, Coverage)>) {
        let mut seen = Vec::new();
        let outcome = matcher.stamp(&stamp(id, kind), |matched| {
            seen.push((*matched.message, matched.coverage));
        });
        (outcome, seen)
    }

    #[test]
    fn a_stamp_of_tcp_covers_earlier_sends() {
        let mut matcher = Matcher::stream(8, &[TxKind::Ack], Origin::NextByte);
        for (message, bytes) in [(0, 10), (1, 20), (2, 5)] {
            assert_eq!(matcher.sent(bytes, message), None);
        }
        let merged = |message| (message, Coverage::Merged);
        let exact = |message| (message, Coverage::Exact);
        assert_eq!(
            given(&mut matcher, 29, TxKind::Ack),
            (Outcome::Matched, vec![merged(0), exact(1)])
        );
        assert_eq!(
            given(&mut matcher, 9, TxKind::Ack),
            (Outcome::Matched, vec![exact(0)])
        );
        assert_eq!(
            given(&mut matcher, 29, TxKind::Ack),
            (Outcome::Duplicate, vec![])
        );
        assert_eq!(
            given(&mut matcher, 35, TxKind::Ack),
            (Outcome::Unknown, vec![])
        );
        assert_eq!(matcher.unfinished().collect::<Vec<_>>(), [&2]);
        let expected = MatcherCounters {
            matched: 2,
            merged: 1,
            duplicate: 1,
            unknown: 1,
            ..MatcherCounters::default()
        };
        assert_eq!(matcher.counters(), expected);
    }

    #[test]
    fn bytes_without_stamps_and_before_the_origin_count() {
        let mut matcher = Matcher::stream(8, &[], Origin::Unacknowledged { outstanding: 100 });
        matcher.sent_unstamped(50);
        matcher.sent(0, 6);
        matcher.sent(10, 7);
        assert_eq!(
            given(&mut matcher, 99, TxKind::Snd),
            (Outcome::Past, vec![])
        );
        assert_eq!(
            given(&mut matcher, 159, TxKind::Snd),
            (Outcome::Matched, vec![(7, Coverage::Exact)])
        );
    }

    #[test]
    fn a_lost_stamp_is_reported_when_its_slot_is_needed() {
        let mut matcher = Matcher::datagrams(2, &[TxKind::Sched, TxKind::Snd]);
        assert_eq!((matcher.sent(1, 0), matcher.sent(1, 1)), (None, None));
        for kind in [TxKind::Sched, TxKind::Snd] {
            assert_eq!(
                given(&mut matcher, 0, kind),
                (Outcome::Matched, vec![(0, Coverage::Exact)])
            );
        }
        assert_eq!(given(&mut matcher, 1, TxKind::Snd).0, Outcome::Matched);
        assert_eq!(matcher.sent(1, 2), None);
        assert_eq!(matcher.sent(1, 3), Some(1));
        assert_eq!(matcher.counters().unfinished, 1);
        assert_eq!(
            given(&mut matcher, 1, TxKind::Sched),
            (Outcome::Past, vec![])
        );
    }

    #[test]
    fn the_kernels_and_the_interfaces_stamp_are_two() {
        let mut matcher = Matcher::datagrams(2, &[TxKind::Snd]);
        matcher.sent(1, 0);
        let hardware = TxStamp {
            time: TxTime::Hardware(Timestamp::from_nanos(1)),
            ..stamp(0, TxKind::Snd)
        };
        assert_eq!(matcher.stamp(&hardware, |_| {}), Outcome::Matched);
        assert_eq!(given(&mut matcher, 0, TxKind::Snd).0, Outcome::Matched);
        assert_eq!(matcher.stamp(&hardware, |_| {}), Outcome::Duplicate);
        assert_eq!(matcher.unfinished().count(), 0);
    }

    /// The fate of a send's stamp.
    #[derive(Debug, Clone, Copy)]
    enum Fate {
        Once,
        Twice,
        Lost,
    }

    fn fates() -> impl Strategy<Value = Vec<(usize, Fate, u8)>> {
        let fate = prop_oneof![Just(Fate::Once), Just(Fate::Twice), Just(Fate::Lost)];
        prop::collection::vec((1_usize..100_000, fate, any::<u8>()), 1..60)
    }

    /// The stamps in the order of `places`, those that come twice both times.
    fn arrivals(sends: &[(u32, Fate, u8)]) -> Vec<u32> {
        let mut stamps: Vec<_> = sends
            .iter()
            .flat_map(|(id, fate, place)| match fate {
                Fate::Once => vec![(*place, *id)],
                Fate::Twice => vec![(*place, *id), (place.wrapping_mul(31), *id)],
                Fate::Lost => vec![],
            })
            .collect();
        stamps.sort_by_key(|(place, _)| *place);
        stamps.into_iter().map(|(_, id)| id).collect()
    }

    proptest! {
        /// Out of order, twice, lost, and across the wrap of ids: each datagram gets its own stamps
        /// and no other.
        #[test]
        fn datagrams_get_their_own_stamps(fates in fates(), before_wrap in 0_u64..80) {
            let mut matcher = Matcher::datagrams(64, &[TxKind::Snd]);
            matcher.next = (1 << 32) - before_wrap;
            let mut sends = Vec::new();
            for (bytes, fate, place) in &fates {
                let id = u32::try_from(matcher.next % (1 << 32)).unwrap();
                prop_assert_eq!(matcher.sent(*bytes, id), None);
                sends.push((id, *fate, *place));
            }
            let mut got = Vec::new();
            for id in arrivals(&sends) {
                match given(&mut matcher, id, TxKind::Snd) {
                    (Outcome::Matched, seen) => {
                        prop_assert_eq!(&seen, &[(id, Coverage::Exact)]);
                        got.push(id);
                    }
                    (outcome, _) => {
                        prop_assert_eq!(outcome, Outcome::Duplicate);
                        prop_assert!(got.contains(&id));
                    }
                }
            }
            let lost: Vec<_> = sends
                .iter()
                .filter(|(_, fate, _)| matches!(fate, Fate::Lost))
                .map(|send| &send.0)
                .collect();
            prop_assert_eq!(matcher.unfinished().collect::<Vec<_>>(), lost);
        }

        /// Check the same for a stream: a message is covered at most once, has its own stamp once
        /// if that came, and lacks any only if neither its own nor a later one came.
        #[test]
        fn messages_of_a_stream_are_covered(fates in fates(), before_wrap in 0_u64..2_000_000) {
            let mut matcher = Matcher::stream(64, &[TxKind::Ack], Origin::NextByte);
            matcher.next = (1 << 32) - before_wrap;
            let mut sends = Vec::new();
            for (message, (bytes, fate, place)) in fates.iter().enumerate() {
                prop_assert_eq!(matcher.sent(*bytes, u32::try_from(message).unwrap()), None);
                let id = u32::try_from((matcher.next - 1) % (1 << 32)).unwrap();
                sends.push((id, *fate, *place));
            }
            let (mut exact, mut merged) = (vec![0; sends.len()], vec![0; sends.len()]);
            for id in arrivals(&sends) {
                for (message, coverage) in given(&mut matcher, id, TxKind::Ack).1 {
                    match coverage {
                        Coverage::Exact => exact[message as usize] += 1,
                        Coverage::Merged => merged[message as usize] += 1,
                    }
                }
            }
            let came = |fate: &Fate| !matches!(fate, Fate::Lost);
            let last = sends.iter().rposition(|(_, fate, _)| came(fate));
            for (message, (_, fate, _)) in sends.iter().enumerate() {
                prop_assert_eq!(exact[message], i32::from(came(fate)));
                prop_assert!(merged[message] <= 1);
                let covered = last.is_some_and(|last| message <= last);
                prop_assert_eq!(exact[message] + merged[message] > 0, covered);
            }
            prop_assert_eq!(
                matcher.unfinished().count(),
                sends.len() - last.map_or(0, |last| last + 1),
            );
        }

        /// With any stamps, of reported sends or not, memory stays bounded, and each stamp is
        /// counted by its outcome.
        #[test]
        fn each_stamp_has_one_outcome(
            ids in prop::collection::vec(0_u32..300, 0..100),
            sends in 0_usize..50,
        ) {
            let mut matcher = Matcher::stream(8, &[TxKind::Ack], Origin::NextByte);
            for message in 0..sends {
                matcher.sent(5, message);
            }
            let mut outcomes = [0; 4];
            for id in &ids {
                outcomes[matcher.stamp(&stamp(*id, TxKind::Ack), |_| {}) as usize] += 1;
                prop_assert!(matcher.sends.len() <= 8);
            }
            let counters = matcher.counters();
            prop_assert_eq!(
                &[counters.duplicate, counters.past, counters.unknown][..],
                &outcomes[1..],
            );
            prop_assert_eq!(outcomes.iter().sum::<u64>(), ids.len() as u64);
        }
    }
}
