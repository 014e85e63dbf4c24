//! The probes of one destination that are remembered: a ring, found again by the low bits of their
//! number.

use std::net::IpAddr;
use std::time::Duration;

use socket2::Socket;

use crate::times::{Arrival, Departure};
use crate::{AnswerKind, MAX_IN_FLIGHT, TargetId};

/// A probe.
#[derive(Debug)]
pub(crate) struct Flight {
    /// The probe's number for its destination, from 1 as ping(8)'s. The packet carries its low 16
    /// bits.
    pub(crate) number: u64,
    pub(crate) target: TargetId,
    /// The probe's number for its target, from 1.
    pub(crate) seq: u64,
    /// Bytes of payload that it carried.
    pub(crate) payload: usize,
    pub(crate) departure: Departure,
    pub(crate) state: State,
    /// The socket, for a SYN sent by connect(2).
    pub(crate) connection: Option<Socket>,
}

#[derive(Debug)]
pub(crate) enum State {
    /// Waiting for an answer.
    Waiting,
    /// The answer is here, and stamps of the probe may still come.
    Held(Reply, Arrival),
    Answered,
    /// The timeout has passed, and this was reported.
    Lost,
    /// Refused, not sent, or of a target that has ended.
    Over,
}

impl State {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Waiting | Self::Held(..))
    }
}

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) kind: AnswerKind,
    pub(crate) from: IpAddr,
    pub(crate) hop_limit: Option<u8>,
    pub(crate) bytes: usize,
    pub(crate) missing: usize,
    pub(crate) reordered: bool,
}

#[derive(Debug)]
pub(crate) struct Flights {
    /// A power of two, so that numbers keep their slots when they wrap.
    ring: Vec<Option<Flight>>,
    next: u64,
    /// The highest number that was answered.
    answered: Option<u64>,
}

/// Never fewer: with an interval above the timeout late answers and duplicates are still
/// recognised.
const FEWEST: usize = 16;

impl Flights {
    /// Return the number of slots for twice the timeout, so that late answers are recognised for as
    /// long again.
    pub(crate) fn slots(timeout: Duration, interval: Duration) -> usize {
        let probes = 2 * timeout.as_nanos() / interval.as_nanos().max(1) + 2;
        usize::try_from(probes)
            .unwrap_or(MAX_IN_FLIGHT)
            .clamp(FEWEST, MAX_IN_FLIGHT)
            .next_power_of_two()
    }

    pub(crate) fn new(slots: usize) -> Self {
        let mut ring = Vec::new();
        ring.resize_with(slots, || None);
        Self {
            ring,
            next: 1,
            answered: None,
        }
    }

    /// Grow for another target with the same destination.
    pub(crate) fn grow(&mut self, slots: usize) {
        if slots <= self.ring.len() {
            return;
        }
        let old = std::mem::replace(self, Self::new(slots));
        (self.next, self.answered) = (old.next, old.answered);
        for flight in old.ring.into_iter().flatten() {
            let slot = self.slot(flight.number);
            self.ring[slot] = Some(flight);
        }
    }

    /// The number of the next probe.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The probe whose slot the next one takes.
    pub(crate) fn oldest(&self) -> Option<&Flight> {
        self.ring[self.slot(self.next)].as_ref()
    }

    /// Remembers the next probe, in the slot of the oldest, which it returns.
    pub(crate) fn push(
        &mut self,
        target: TargetId,
        seq: u64,
        payload: usize,
        departure: Departure,
        connection: Option<Socket>,
    ) -> Option<Flight> {
        let number = self.next;
        self.next += 1;
        let slot = self.slot(number);
        self.ring[slot].replace(Flight {
            number,
            target,
            seq,
            payload,
            departure,
            state: State::Waiting,
            connection,
        })
    }

    pub(crate) fn get(&mut self, number: u64) -> Option<&mut Flight> {
        let slot = self.slot(number);
        self.ring[slot]
            .as_mut()
            .filter(|flight| flight.number == number)
    }

    /// The latest probe whose number has these low bits, of those that were sent.
    pub(crate) fn latest(&self, low: u64, bits: u32) -> Option<u64> {
        let newest = self.next.checked_sub(1)?;
        let back = newest.wrapping_sub(low) & ((1 << bits) - 1);
        newest.checked_sub(back).filter(|number| *number > 0)
    }

    /// Note that this one was answered, and return whether a later one was answered before.
    pub(crate) fn answered(&mut self, number: u64) -> bool {
        let overtaken = self.answered.is_some_and(|highest| number < highest);
        self.answered = self.answered.max(Some(number));
        overtaken
    }

    /// Return the probes without a result, in the order of their numbers.
    pub(crate) fn open(&self) -> Vec<u64> {
        let mut open: Vec<_> = self
            .ring
            .iter()
            .flatten()
            .filter(|flight| flight.state.is_open())
            .map(|flight| flight.number)
            .collect();
        open.sort_unstable();
        open
    }

    fn slot(&self, number: u64) -> usize {
        let mask = self.ring.len() - 1;
        usize::try_from(number & mask as u64).expect("the ring has fewer slots")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use sockstamp_model::clock::Timestamp;

    use crate::clocks::Reading;

    fn push(flights: &mut Flights, seq: u64) -> Option<Flight> {
        flights.push(
            TargetId(0),
            seq,
            56,
            Departure::new(Reading::take(), Timestamp::from_nanos(0), None),
            None,
        )
    }

    fn filled(slots: usize, probes: u64) -> Flights {
        let mut flights = Flights::new(slots);
        for seq in 0..probes {
            push(&mut flights, seq + 1);
        }
        flights
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut flights = filled(16, 15);
        assert!(flights.oldest().is_none());
        push(&mut flights, 16);
        assert_eq!(flights.oldest().map(|flight| flight.number), Some(1));
        let gone = push(&mut flights, 17).unwrap();
        assert_eq!((gone.number, gone.seq), (1, 1));
        assert!(flights.get(1).is_none());
        assert_eq!(flights.get(17).unwrap().seq, 17);
    }

    #[test]
    fn a_larger_ring_keeps_the_probes_of_the_smaller() {
        let mut flights = filled(16, 40);
        flights.grow(64);
        assert_eq!(flights.open(), (25..=40).collect::<Vec<_>>());
        assert_eq!(flights.next(), 41);
    }

    #[test]
    fn an_overtaken_probe_is_reordered_and_an_answered_one_not_open() {
        let mut flights = filled(16, 3);
        assert!(!flights.answered(1));
        assert!(!flights.answered(3));
        assert!(flights.answered(2));
        flights.get(2).unwrap().state = State::Answered;
        assert_eq!(flights.open(), [1, 3]);
    }

    #[test]
    fn places_follow_the_timeout() {
        let slots = |timeout, interval| {
            Flights::slots(
                Duration::from_millis(timeout),
                Duration::from_millis(interval),
            )
        };
        assert_eq!(slots(1_000, 1_000), 16);
        assert_eq!(slots(1_000, 10), 256);
        assert_eq!(slots(100_000, 1), MAX_IN_FLIGHT);
    }

    proptest! {
        #[test]
        fn low_bits_name_the_latest_probe_that_has_them(sent in 1_u64..200_000, low: u16) {
            let flights = Flights { ring: Vec::new(), next: sent, answered: None };
            let expected = (1..sent)
                .rev()
                .take(1 << 16)
                .find(|number| number & 0xffff == u64::from(low));
            prop_assert_eq!(flights.latest(low.into(), 16), expected);
        }

        #[test]
        fn each_of_the_last_probes_is_found(probes in 0_u64..200) {
            let mut flights = filled(32, probes);
            for number in 0..probes + 5 {
                let remembered = (1..=probes).contains(&number) && number + 32 > probes;
                prop_assert_eq!(flights.get(number).is_some(), remembered);
            }
        }
    }
}
