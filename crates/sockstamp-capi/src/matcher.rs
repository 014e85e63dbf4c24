//! Match stamps to messages.

use std::mem::MaybeUninit;

use sockstamp::clock::Timestamp;
use sockstamp::timestamping::{
    Coverage, Matcher as Joiner, Origin, Outcome, TxKind, TxStamp, TxTime,
};

use crate::boundary::{Errno, Result};
use crate::header::{
    SOCKSTAMP_CLOCK_PHC, SOCKSTAMP_CLOCK_REALTIME, SOCKSTAMP_DATAGRAMS, SOCKSTAMP_EXACT,
    SOCKSTAMP_MERGED, SOCKSTAMP_STREAM, sockstamp_match, sockstamp_matcher_counters,
    sockstamp_stamp, sockstamp_transport,
};
use crate::report;

/// `struct sockstamp_matcher`.
pub struct Matcher {
    joiner: Joiner<u64>,
    /// The matches of the last stamp.
    matches: Vec<sockstamp_match>,
}

impl Matcher {
    pub(crate) fn new(
        transport: sockstamp_transport,
        outstanding: u32,
        capacity: usize,
        expected: u32,
    ) -> Result<Self> {
        let fits = isize::try_from(capacity.saturating_mul(size_of::<[u64; 8]>())).is_ok();
        if capacity == 0 || !fits {
            return Err(Errno::INVALID);
        }
        let kinds = kinds(expected)?;
        let joiner = match transport {
            SOCKSTAMP_DATAGRAMS if outstanding == 0 => Joiner::datagrams(capacity, &kinds),
            SOCKSTAMP_STREAM => {
                Joiner::stream(capacity, &kinds, Origin::Unacknowledged { outstanding })
            }
            _ => return Err(Errno::INVALID),
        };
        Ok(Self {
            joiner,
            matches: Vec::with_capacity(capacity),
        })
    }

    /// Note a send; return the message forgotten for it.
    pub(crate) fn sent(&mut self, bytes: usize, message: u64) -> Option<u64> {
        self.joiner.sent(bytes, message)
    }

    pub(crate) fn sent_unstamped(&mut self, bytes: usize) {
        self.joiner.sent_unstamped(bytes);
    }

    pub(crate) fn stamp(&mut self, stamp: &sockstamp_stamp) -> Result<&[sockstamp_match]> {
        let stamp = tx_stamp(stamp)?;
        self.matches.clear();
        let outcome = self.joiner.stamp(&stamp, |matched| {
            self.matches.push(sockstamp_match {
                message: *matched.message,
                coverage: match matched.coverage {
                    Coverage::Exact => SOCKSTAMP_EXACT,
                    Coverage::Merged => SOCKSTAMP_MERGED,
                },
                reserved: 0,
            });
        });
        match outcome {
            Outcome::Matched | Outcome::Duplicate => Ok(&self.matches),
            Outcome::Past => Err(Errno(libc::ESTALE)),
            // No count begins anew here, so none is doubtful.
            _ => Err(Errno(libc::ENOENT)),
        }
    }

    /// Write as many as there is room for, and return how many there are.
    pub(crate) fn unfinished(&self, messages: &mut [MaybeUninit<u64>]) -> usize {
        for (place, message) in messages.iter_mut().zip(self.joiner.unfinished()) {
            place.write(*message);
        }
        self.joiner.unfinished().count()
    }

    pub(crate) fn counters(&self) -> sockstamp_matcher_counters {
        let counters = self.joiner.counters();
        sockstamp_matcher_counters {
            matched: counters.matched,
            merged: counters.merged,
            duplicate: counters.duplicate,
            past: counters.past,
            unknown: counters.unknown,
            unfinished: counters.unfinished,
        }
    }
}

fn kinds(mut bits: u32) -> Result<Vec<TxKind>> {
    let mut kinds = Vec::new();
    for kind in TxKind::ALL {
        let bit = 1 << report::kind(kind);
        if bits & bit != 0 {
            kinds.push(kind);
            bits &= !bit;
        }
    }
    if bits == 0 {
        Ok(kinds)
    } else {
        Err(Errno::INVALID)
    }
}

fn tx_stamp(stamp: &sockstamp_stamp) -> Result<TxStamp> {
    let mut kinds = TxKind::ALL.into_iter();
    let kind = kinds.find(|kind| report::kind(*kind) == stamp.kind);
    Ok(TxStamp {
        id: stamp.id,
        kind: kind.ok_or(Errno::INVALID)?,
        time: match stamp.time.clock {
            SOCKSTAMP_CLOCK_REALTIME => TxTime::Software(Timestamp::from_nanos(stamp.time.ns)),
            SOCKSTAMP_CLOCK_PHC => TxTime::Hardware(Timestamp::from_nanos(stamp.time.ns)),
            _ => return Err(Errno::INVALID),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn stamp(id: u32) -> sockstamp_stamp {
        sockstamp_stamp {
            time: clock::realtime(Timestamp::from_nanos(1)),
            id,
            kind: report::kind(TxKind::Ack),
            interface: 0,
            reserved: 0,
        }
    }

    fn of(matcher: &mut Matcher, id: u32) -> Result<Vec<(u64, u32)>> {
        let matches = matcher.stamp(&stamp(id))?;
        Ok(matches
            .iter()
            .map(|found| (found.message, found.coverage))
            .collect())
    }

    #[test]
    fn each_outcome_has_its_number() {
        let mut matcher =
            Matcher::new(SOCKSTAMP_STREAM, 100, 2, 1 << report::kind(TxKind::Ack)).unwrap();
        assert_eq!((matcher.sent(10, 7), matcher.sent(10, 8)), (None, None));
        let both = vec![(7, SOCKSTAMP_MERGED), (8, SOCKSTAMP_EXACT)];
        assert_eq!(of(&mut matcher, 119), Ok(both));
        assert_eq!(of(&mut matcher, 119), Ok(vec![]));
        assert_eq!(of(&mut matcher, 5), Err(Errno(libc::ESTALE)));
        assert_eq!(of(&mut matcher, 500), Err(Errno(libc::ENOENT)));
        assert_eq!((matcher.sent(1, 9), matcher.sent(1, 10)), (None, None));
        assert_eq!(matcher.sent(1, 11), Some(9));
        let mut place = [MaybeUninit::new(0)];
        assert_eq!(matcher.unfinished(&mut place), 2);
        assert_eq!(matcher.counters().unfinished, 1);
    }

    #[test]
    fn meaningless_arguments_are_refused() {
        for (transport, outstanding, capacity, expected) in [
            (0, 0, 1, 0),
            (SOCKSTAMP_DATAGRAMS, 1, 1, 0),
            (SOCKSTAMP_DATAGRAMS, 0, 0, 0),
            (SOCKSTAMP_DATAGRAMS, 0, usize::MAX / 8, 0),
            (SOCKSTAMP_STREAM, 0, 1, 1 << 4),
        ] {
            let refused = Matcher::new(transport, outstanding, capacity, expected);
            assert_eq!(refused.err(), Some(Errno::INVALID));
        }
    }
}
