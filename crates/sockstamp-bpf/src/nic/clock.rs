//! The clock of a NIC against CLOCK_MONOTONIC, by way of CLOCK_REALTIME. Pure.

use sockstamp::clock::RealtimeOffset;
use sockstamp::phc::{Converted, PhcReading, PhcTrack};
use sockstamp_model::clock::{Monotonic, Nanos, Phc, Realtime, Timestamp};

/// Readings over time.
#[derive(Debug, Default)]
pub(super) struct Track {
    phc: PhcTrack,
    /// Of the last reading: it is the same for all since a step.
    realtime: Option<RealtimeOffset>,
    /// The time of the last reading.
    read: Option<Timestamp<Realtime>>,
}

/// The time of a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    /// The true time, by either clock, is within plus or minus the bound.
    Known {
        at: Timestamp<Monotonic>,
        realtime: Timestamp<Realtime>,
        bound: Nanos,
    },
    /// The next reading shows it.
    NotYet,
    /// A clock was stepped since, or the stamp is too old.
    Unknown,
}

impl Track {
    /// Add a reading of the NIC's clock that was made between two of the others.
    pub(super) fn push(
        &mut self,
        before: RealtimeOffset,
        reading: PhcReading,
        after: RealtimeOffset,
    ) {
        let last = self.realtime.replace(after);
        if last.is_some_and(|last| was_stepped(&last, &before)) || was_stepped(&before, &after) {
            self.phc = PhcTrack::new();
        }
        // If CLOCK_REALTIME was stepped in between, it is unknown on which side of the reading.
        if !was_stepped(&before, &after) {
            self.read = Some(reading.offset.convert(reading.at));
            let _ = self.phc.push(reading);
        }
    }

    /// Return the time of a stamp of the NIC that is to be compared with another time: a step in
    /// between must be seen.
    pub(super) fn time_beside(&self, stamp: Timestamp<Phc>, other: Timestamp<Realtime>) -> Time {
        match self.time(stamp) {
            Time::Known { .. } if Some(other) > self.read => Time::NotYet,
            time => time,
        }
    }

    /// Return the time of a stamp of the NIC.
    pub(super) fn time(&self, stamp: Timestamp<Phc>) -> Time {
        match (self.phc.convert(stamp), &self.realtime) {
            (Converted::Known(known), Some(realtime)) => Time::Known {
                at: realtime.offset.inverse().convert(known.realtime),
                realtime: known.realtime,
                bound: known.bound + realtime.uncertainty,
            },
            (Converted::NotYet, _) | (_, None) => Time::NotYet,
            (Converted::Unknown, _) => Time::Unknown,
        }
    }
}

/// Return true if CLOCK_REALTIME was stepped: slewing leaves its distance from CLOCK_MONOTONIC as
/// it is.
fn was_stepped(earlier: &RealtimeOffset, later: &RealtimeOffset) -> bool {
    let moved = (later.offset.delta() - earlier.offset.delta()).abs();
    moved > earlier.uncertainty + later.uncertainty
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockstamp::phc::ReadBy;
    use sockstamp_model::clock::{ClockOffset, Delta};

    use super::*;

    const QUARTER: i64 = 250_000_000;

    /// Three clocks: each differs from CLOCK_MONOTONIC, in nanoseconds, and that of the NIC drifts.
    #[derive(Clone, Copy)]
    struct Clocks {
        realtime: i64,
        phc: i64,
        /// Parts per billion.
        drift: i64,
    }

    impl Clocks {
        /// Return the NIC's clock at a time of CLOCK_MONOTONIC.
        fn phc(&self, at: i64) -> Timestamp<Phc> {
            let drifted = i128::from(at) * i128::from(self.drift) / 1_000_000_000;
            let phc = at + self.phc + i64::try_from(drifted).unwrap();
            Timestamp::from_nanos(phc.unsigned_abs())
        }

        /// Read in a bracket of this width, of which so much was before the reading.
        fn reading(&self, at: i64, width: i64, before: i64) -> PhcReading {
            let middle = at + self.realtime + width / 2 - before;
            let middle = Timestamp::from_nanos(middle.unsigned_abs());
            PhcReading {
                at: self.phc(at),
                offset: ClockOffset::between(self.phc(at), middle),
                uncertainty: Nanos(width.unsigned_abs().div_ceil(2) + 1),
                by: ReadBy::Extended,
            }
        }

        fn realtime(&self) -> RealtimeOffset {
            RealtimeOffset {
                offset: ClockOffset::new(Delta(self.realtime)),
                uncertainty: Nanos(20),
                tai_offset_seconds: 37,
                at: Timestamp::from_nanos(0),
            }
        }

        fn read_into(&self, track: &mut Track, at: i64) {
            track.push(self.realtime(), self.reading(at, 400, 100), self.realtime());
        }
    }

    const CLOCKS: Clocks = Clocks {
        realtime: 1_790_000_000_000_000_000,
        phc: 1_790_000_037_000_025_000,
        drift: -40_000,
    };

    /// 10 µs in a quarter of a second are 40 parts per million.
    const STEPPED: Clocks = Clocks {
        realtime: CLOCKS.realtime + 10_000,
        ..CLOCKS
    };

    fn known(time: Time) -> (i64, u64) {
        match time {
            Time::Known { at, bound, .. } => (at.as_nanos().cast_signed(), bound.0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stamp_is_taken_to_the_monotonic_clock_within_its_bound() {
        let mut track = Track::default();
        let at = 3 * QUARTER + 7_000;
        assert_eq!(track.time(CLOCKS.phc(at)), Time::NotYet);
        for reading in 1..=3 {
            CLOCKS.read_into(&mut track, reading * QUARTER);
        }
        assert_eq!(track.time(CLOCKS.phc(at)), Time::NotYet, "none after it");
        CLOCKS.read_into(&mut track, 4 * QUARTER);
        let (time, bound) = known(track.time(CLOCKS.phc(at)));
        assert!((time - at).unsigned_abs() <= bound, "{time} ± {bound}");
        assert!(bound < 1_000, "{bound}");
    }

    #[test]
    fn a_step_of_the_realtime_clock_that_drift_could_be_is_seen() {
        let mut track = Track::default();
        CLOCKS.read_into(&mut track, QUARTER);
        CLOCKS.read_into(&mut track, 2 * QUARTER);
        let (before, after) = (2 * QUARTER + 9, 3 * QUARTER + 9);
        STEPPED.read_into(&mut track, 3 * QUARTER);
        assert_eq!(track.time(CLOCKS.phc(before)), Time::Unknown);
        STEPPED.read_into(&mut track, 4 * QUARTER);
        assert_eq!(track.time(CLOCKS.phc(before)), Time::Unknown);
        let (time, bound) = known(track.time(STEPPED.phc(after)));
        assert!((time - after).unsigned_abs() <= bound, "{time} ± {bound}");
    }

    #[test]
    fn a_stamp_beside_another_time_waits_for_a_reading_behind_both() {
        let mut track = Track::default();
        CLOCKS.read_into(&mut track, QUARTER);
        CLOCKS.read_into(&mut track, 2 * QUARTER);
        let (stamp, other) = (2 * QUARTER - 9_000, 2 * QUARTER + 9_000);
        let realtime = |at: i64| Timestamp::from_nanos((at + CLOCKS.realtime).unsigned_abs());
        let time = |track: &Track| track.time_beside(CLOCKS.phc(stamp), realtime(other));
        assert_eq!(time(&track), Time::NotYet);
        CLOCKS.read_into(&mut track, 3 * QUARTER);
        let Time::Known {
            realtime: at,
            bound,
            ..
        } = time(&track)
        else {
            panic!("{:?}", time(&track));
        };
        let error = (at - realtime(stamp)).abs();
        assert!(error <= bound, "{error} of {bound}");
    }

    #[test]
    fn a_reading_beside_a_step_counts_for_nothing() {
        let mut track = Track::default();
        CLOCKS.read_into(&mut track, QUARTER);
        let reading = CLOCKS.reading(2 * QUARTER, 400, 100);
        track.push(CLOCKS.realtime(), reading, STEPPED.realtime());
        assert_eq!(track.time(CLOCKS.phc(QUARTER + 9)), Time::NotYet);
        STEPPED.read_into(&mut track, 3 * QUARTER);
        assert_eq!(track.time(CLOCKS.phc(QUARTER + 9)), Time::Unknown);
    }

    #[test]
    fn a_step_of_the_nics_clock_is_seen() {
        let mut track = Track::default();
        CLOCKS.read_into(&mut track, QUARTER);
        let stepped = Clocks {
            phc: CLOCKS.phc + 37_000_000_000,
            ..CLOCKS
        };
        stepped.read_into(&mut track, 2 * QUARTER);
        assert_eq!(track.time(CLOCKS.phc(QUARTER + 9)), Time::Unknown);
    }

    proptest! {
        /// Whatever the clocks show, the drift, and the place of each reading in its bracket.
        #[test]
        fn the_truth_is_within_the_bound(
            phc in 0..1_i64 << 61,
            drift in -100_000..100_000_i64,
            readings in prop::collection::vec((20..5_000_i64, 0..=100_i64), 3..20),
            place in 0..1_000_i64,
        ) {
            let clocks = Clocks { phc, drift, ..CLOCKS };
            let mut track = Track::default();
            let count = i64::try_from(readings.len()).unwrap();
            for (index, (width, percent)) in (1..).zip(readings) {
                let reading = clocks.reading(index * QUARTER, width, width * percent / 100);
                track.push(clocks.realtime(), reading, clocks.realtime());
            }
            let at = count * QUARTER - 2 * QUARTER * place / 1_000;
            let (time, bound) = known(track.time(clocks.phc(at)));
            prop_assert!((time - at).unsigned_abs() <= bound, "{time} is {at} ± {bound}");
        }
    }
}
