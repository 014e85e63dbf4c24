//! A PHC over time: its drift, steps of either clock, and the time of a stamp within a bound. Pure.

use std::collections::VecDeque;

use sockstamp_clock::{ClockOffset, Delta, Nanos, Phc, Realtime, Timestamp};

use super::reading::PhcReading;

/// Readings that are kept: a line goes through them.
const READINGS: usize = 16;

/// The fastest change of the offset that is none of a step, in parts per billion. Clocks of
/// Ethernet keep within ±100 ppm (IEEE 802.3), and the kernel slews its own by at most 500 ppm
/// (`MAXFREQ`, include/linux/timex.h, v6.18).
const FASTEST: u64 = 600_000;

/// Takes stamps of a NIC to CLOCK_REALTIME.
///
/// A line through the last readings follows the drift. The bound at a stamp is what the readings
/// around it leave open: their own uncertainty, their distance from the line, and half of the
/// largest change of that distance from one reading to the next. A stamp has a time only once there
/// is a reading after it: what a clock will do is not known. Across a step there is none.
#[derive(Debug, Clone, Default)]
pub struct PhcTrack {
    /// Since the last step; by time.
    readings: VecDeque<PhcReading>,
}

/// The result of [`PhcTrack::push`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Pushed {
    /// The first one.
    First,
    /// Continues those before.
    Continues,
    /// A clock was stepped since the last reading; those before are forgotten.
    Stepped,
}

/// The result of [`PhcTrack::convert`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Converted {
    /// Its time.
    Known(Known),
    /// The stamp is later than the last reading: push another one first.
    NotYet,
    /// The stamp is before the readings that are kept, or a clock was stepped since.
    Unknown,
}

/// The time of a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The time by CLOCK_REALTIME.
    pub realtime: Timestamp<Realtime>,
    /// The true time is within plus or minus this.
    pub bound: Nanos,
}

/// A line through readings: the offset at a time, both since the last reading.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// Nanoseconds per nanosecond.
    slope: f64,
    /// Nanoseconds at the last reading.
    end: f64,
}

impl PhcTrack {
    /// Begin without a reading.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a reading that is later than those before.
    pub fn push(&mut self, reading: PhcReading) -> Pushed {
        let pushed = match self.readings.back() {
            None => Pushed::First,
            Some(last) if continues(last, &reading) => Pushed::Continues,
            Some(_) => Pushed::Stepped,
        };
        if pushed == Pushed::Stepped {
            self.readings.clear();
        }
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
        pushed
    }

    /// Return the drift: how fast CLOCK_REALTIME gains on the NIC's clock, in parts per billion;
    /// `None` before the second reading.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        self.line().map(|line| line.slope * 1e9)
    }

    /// Return the time of a stamp.
    #[must_use]
    pub fn convert(&self, stamp: Timestamp<Phc>) -> Converted {
        let (Some(first), Some(last)) = (self.readings.front(), self.readings.back()) else {
            return Converted::NotYet;
        };
        if stamp > last.at {
            return Converted::NotYet;
        }
        if stamp < first.at {
            return Converted::Unknown;
        }
        let Some(line) = self.line() else {
            return Converted::Known(known(stamp, last.offset, last.uncertainty));
        };
        let offset = last.offset.delta() + nanos(line.at(stamp - last.at));
        let bound = self.bound(&line, stamp);
        Converted::Known(known(stamp, ClockOffset::new(offset), bound))
    }

    /// Fit by least squares; `None` with one reading.
    fn line(&self) -> Option<Line> {
        let last = self.readings.back().filter(|_| self.readings.len() > 1)?;
        let points = || {
            self.readings.iter().map(|reading| {
                let time = reading.at - last.at;
                let offset = reading.offset.delta() - last.offset.delta();
                (time.0 as f64, offset.0 as f64)
            })
        };
        let count = self.readings.len() as f64;
        let mean = |values: f64| values / count;
        let middle = mean(points().map(|(time, _)| time).sum());
        let height = mean(points().map(|(_, offset)| offset).sum());
        let (mut product, mut square) = (0.0, 0.0);
        for (time, offset) in points() {
            product += (time - middle) * (offset - height);
            square += (time - middle) * (time - middle);
        }
        let slope = product / square;
        Some(Line {
            slope,
            end: height - slope * middle,
        })
    }

    /// Bound the error at a stamp between two readings. The offset cannot leave the line there
    /// by more than at these readings, and as far as it moves from it in half of the time between
    /// them.
    fn bound(&self, line: &Line, stamp: Timestamp<Phc>) -> Nanos {
        let Some(last) = self.readings.back() else {
            return Nanos::MAX;
        };
        let distance = |reading: &PhcReading| {
            let offset = reading.offset.delta() - last.offset.delta();
            offset.0 as f64 - line.at(reading.at - last.at)
        };
        let (mut around, mut wander) = (0.0_f64, 0.0_f64);
        for (before, after) in self.readings.iter().zip(self.readings.iter().skip(1)) {
            let gap = (after.at - before.at).0 as f64;
            let both = (before.uncertainty + after.uncertainty).0 as f64;
            let moved = (distance(after) - distance(before)).abs().max(both);
            wander = wander.max(moved / gap);
        }
        for (before, after) in self.readings.iter().zip(self.readings.iter().skip(1)) {
            if before.at <= stamp && stamp <= after.at {
                let gap = (after.at - before.at).0 as f64;
                let open =
                    |reading: &PhcReading| distance(reading).abs() + reading.uncertainty.0 as f64;
                around = around.max(open(before).max(open(after)) + wander * gap / 2.0);
            }
        }
        // The stamp itself, and the offset, are rounded.
        nanos(around.ceil()).abs() + Nanos(2)
    }
}

impl Line {
    fn at(&self, since_last: Delta) -> f64 {
        self.end + self.slope * since_last.0 as f64
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "what does not fit saturates, as all differences do"
)]
fn nanos(nanos: f64) -> Delta {
    Delta(nanos.round() as i64)
}

fn known(stamp: Timestamp<Phc>, offset: ClockOffset<Phc, Realtime>, bound: Nanos) -> Known {
    Known {
        realtime: offset.convert(stamp),
        bound,
    }
}

/// Return true if the offset moved no faster than clocks drift.
fn continues(last: &PhcReading, next: &PhcReading) -> bool {
    let Some(gap) = next.at.since(last.at).filter(|gap| gap.0 > 0) else {
        return false;
    };
    let moved = (next.offset.delta() - last.offset.delta()).abs();
    let drifted = Nanos(gap.0.saturating_mul(FASTEST) / 1_000_000_000);
    moved <= drifted + last.uncertainty + next.uncertainty
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::phc::reading::ReadBy;

    const SECOND: i64 = 1_000_000_000;
    const QUARTER: i64 = SECOND / 4;

    /// A NIC's clock whose distance from CLOCK_REALTIME is known.
    struct Simulated {
        /// CLOCK_REALTIME minus the NIC's clock at the NIC's time 0.
        offset: i64,
        /// Parts per billion, from the NIC's time on.
        rates: Vec<(i64, i64)>,
    }

    impl Simulated {
        fn new(offset: i64, rate: i64) -> Self {
            Self {
                offset,
                rates: vec![(0, rate)],
            }
        }

        fn true_offset(&self, at: i64) -> i64 {
            let mut offset = i128::from(self.offset);
            for (index, &(from, rate)) in self.rates.iter().enumerate() {
                let until = self.rates.get(index + 1).map_or(at, |&(until, _)| until);
                let lasted = i128::from(until.min(at) - from).max(0);
                offset += lasted * i128::from(rate) / i128::from(SECOND);
            }
            i64::try_from(offset).unwrap()
        }

        /// Read it in a bracket of this width, of which so much was before the reading.
        fn read(&self, at: i64, width: i64, before: i64) -> PhcReading {
            let middle = self.true_offset(at) + width / 2 - before;
            PhcReading {
                at: Timestamp::from_nanos(at.unsigned_abs()),
                offset: ClockOffset::new(Delta(middle)),
                uncertainty: Nanos(width.unsigned_abs().div_ceil(2) + 1),
                by: ReadBy::Extended,
            }
        }

        fn error(&self, at: i64, known: Known) -> u64 {
            let truth = at + self.true_offset(at);
            known.realtime.as_nanos().abs_diff(truth.unsigned_abs())
        }
    }

    fn known(track: &PhcTrack, at: i64) -> Known {
        match track.convert(Timestamp::from_nanos(at.unsigned_abs())) {
            Converted::Known(known) => known,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn drift_is_followed_between_readings() {
        let clock = Simulated::new(37 * SECOND, 50_000);
        let mut track = PhcTrack::new();
        for index in 0..8 {
            let pushed = track.push(clock.read(index * QUARTER, 1_000, 400));
            assert_ne!(pushed, Pushed::Stepped);
        }
        assert!((track.drift().unwrap() - 50_000.0).abs() < 1.0);
        let at = 5 * QUARTER + QUARTER / 3;
        let known = known(&track, at);
        // 50 ppm are 12 µs from one reading to the next.
        assert!(clock.error(at, known) <= 102, "{known:?}");
        assert!(known.bound <= Nanos(1_500), "{known:?}");
    }

    #[test]
    fn a_stamp_waits_for_a_reading_after_it() {
        let clock = Simulated::new(5, 0);
        let mut track = PhcTrack::new();
        let convert = |track: &PhcTrack, at| track.convert(Timestamp::from_nanos(at));
        assert_eq!(convert(&track, 7), Converted::NotYet);
        assert_eq!(track.push(clock.read(100, 10, 5)), Pushed::First);
        assert_eq!(track.drift(), None);
        assert_eq!(convert(&track, 101), Converted::NotYet);
        assert_eq!(convert(&track, 99), Converted::Unknown);
        assert_eq!(known(&track, 100).realtime, Timestamp::from_nanos(105));
        assert_eq!(track.push(clock.read(200, 10, 5)), Pushed::Continues);
        assert_eq!(known(&track, 101).realtime, Timestamp::from_nanos(106));
    }

    #[test]
    fn steps_of_either_clock_are_seen_and_nothing_is_taken_across() {
        for step in [SECOND, -SECOND, 400_000, -400_000] {
            let mut clock = Simulated::new(40 * SECOND, 0);
            let mut track = PhcTrack::new();
            let _ = track.push(clock.read(QUARTER, 100, 50));
            let _ = track.push(clock.read(2 * QUARTER, 100, 50));
            clock.offset += step;
            assert_eq!(
                track.push(clock.read(3 * QUARTER, 100, 50)),
                Pushed::Stepped
            );
            let between = Timestamp::from_nanos((2 * QUARTER + 7).unsigned_abs());
            assert_eq!(track.convert(between), Converted::Unknown, "{step}");
        }
        let clock = Simulated::new(0, 0);
        let mut track = PhcTrack::new();
        let _ = track.push(clock.read(SECOND, 100, 50));
        assert_eq!(track.push(clock.read(QUARTER, 100, 50)), Pushed::Stepped);
    }

    #[test]
    fn a_step_that_drift_could_be_widens_the_bound() {
        let mut clock = Simulated::new(SECOND, 0);
        let mut track = PhcTrack::new();
        for index in 0..6 {
            let _ = track.push(clock.read(index * QUARTER, 100, 50));
        }
        let before = known(&track, 5 * QUARTER - 9);
        clock.offset += 100_000;
        assert_eq!(
            track.push(clock.read(6 * QUARTER, 100, 50)),
            Pushed::Continues
        );
        // The clock was stepped after this moment, or before: the bound has both.
        let after = known(&track, 5 * QUARTER + 9);
        assert!(
            clock.error(5 * QUARTER + 9, after) <= after.bound.0,
            "{after:?}"
        );
        clock.offset -= 100_000;
        assert!(
            clock.error(5 * QUARTER + 9, after) <= after.bound.0,
            "{after:?}"
        );
        assert!(before.bound < Nanos(200) && after.bound > Nanos(50_000));
    }

    proptest! {
        /// Whatever the offset, the drift, the steering once a second, and the place of each
        /// reading in its bracket: the truth is within the bound.
        #[test]
        fn the_truth_is_within_the_bound(
            offset in SECOND..60 * SECOND,
            rate in -100_000..100_000_i64,
            steering in prop::collection::vec(-2_000..2_000_i64, 6),
            readings in prop::collection::vec(
                (20..5_000_i64, 0..=100_i64, 0..50_000_000_i64), 3..24,
            ),
            place in 0..1_000_i64,
        ) {
            let mut clock = Simulated::new(offset, rate);
            for (second, change) in (1..).zip(steering) {
                clock.rates.push((second * SECOND, rate + change));
            }
            let mut track = PhcTrack::new();
            let mut times = Vec::new();
            for (index, (width, percent, late)) in (1..).zip(readings) {
                let at = index * QUARTER + late;
                times.push(at);
                prop_assert_ne!(
                    track.push(clock.read(at, width, width * percent / 100)),
                    Pushed::Stepped
                );
            }
            let kept = &times[times.len().saturating_sub(READINGS)..];
            let at = kept[0] + (kept[kept.len() - 1] - kept[0]) * place / 1_000;
            let known = known(&track, at);
            prop_assert!(clock.error(at, known) <= known.bound.0, "{:?}", known);
        }
    }
}
