//! The course of windows, as their part of the time changes. Pure; times are of CLOCK_MONOTONIC.
//!
//! The part changes only at ends of epochs, which are scheduled in advance, and depends only on
//! earlier samples: so any moment is in a window with the probability of its epoch.

use std::num::NonZeroU32;

use super::schedule::Schedule;
use crate::abi::raw::WINDOW_NS;

/// The length of a window.
pub(super) const LENGTH: u64 = WINDOW_NS as u64;

/// A window that only a change of the part of the time ends.
pub(super) const NO_END: u64 = u64::MAX / 4;

/// The mean number of windows in an epoch.
const WINDOWS: u64 = 4;

/// Draws windows, one after the other.
pub(super) struct Course {
    schedule: Schedule,
    /// The part of the time, as its inverse, and that after the end of the epoch.
    one_of: NonZeroU32,
    wanted: NonZeroU32,
    epoch_ends: u64,
    /// The next window, or the present one before its end.
    pub(super) opens: u64,
    pub(super) closes: u64,
}

impl Course {
    /// Windows for one in `one_of` of the time from `begins` on; 1: one without an end.
    pub(super) fn new(one_of: NonZeroU32, begins: u64) -> Self {
        let mut course = Self {
            schedule: Schedule::new(LENGTH, one_of),
            one_of,
            wanted: one_of,
            epoch_ends: begins,
            opens: begins,
            closes: begins,
        };
        course.draw(begins);
        course
    }

    pub(super) fn one_of(&self) -> NonZeroU32 {
        self.one_of
    }

    pub(super) fn is_whole(&self) -> bool {
        self.one_of == NonZeroU32::MIN
    }

    /// Go to another part of the time as soon as the epoch ends.
    pub(super) fn want(&mut self, one_of: NonZeroU32, now: u64) {
        self.wanted = one_of;
        if self.is_whole() {
            // Draw nothing on which the end could depend.
            self.epoch_ends = now;
        } else if now >= self.epoch_ends {
            let epoch = WINDOWS * LENGTH * u64::from(self.one_of.get());
            self.epoch_ends += ((now - self.epoch_ends) / epoch + 1) * epoch;
        }
    }

    /// Return when the part of the time changes, if a change is due.
    pub(super) fn turns(&self) -> Option<u64> {
        (self.wanted != self.one_of).then_some(self.epoch_ends)
    }

    /// Change the part of the time. No window opens before `begins`.
    pub(super) fn turn(&mut self, begins: u64) {
        self.one_of = self.wanted;
        self.schedule = Schedule::new(LENGTH, self.one_of);
        self.epoch_ends = begins;
        self.draw(begins);
    }

    /// Draw the first window that is open at `begins` or later.
    fn draw(&mut self, begins: u64) {
        if self.is_whole() {
            (self.opens, self.closes) = (begins, begins + NO_END);
            return;
        }
        let opens = self.schedule.first(begins);
        (self.opens, self.closes) = (opens.max(begins), opens + LENGTH);
    }

    /// Draw the window after the present one, or another without an end.
    pub(super) fn draw_next(&mut self, now: u64) {
        if self.is_whole() {
            self.draw(now + LENGTH);
            return;
        }
        self.opens = self.schedule.next(self.closes - LENGTH);
        self.closes = self.opens + LENGTH;
    }

    /// Shift the window that comes too late to open as it was drawn.
    pub(super) fn shift(&mut self, late: u64) {
        self.opens += late;
        self.closes += late;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::simulated;

    const SECOND: u64 = 1_000_000_000;
    /// A message per millisecond, in bursts ten times as many: the cost of those changes the part.
    const BURST: u64 = 7 * SECOND;

    fn messages_at(time: u64) -> u64 {
        if time / BURST % 2 == 1 { 10 } else { 1 }
    }

    #[derive(Default)]
    struct Estimate {
        truth: f64,
        found: f64,
        turns: u32,
    }

    /// One run of 100 s, in steps of 10 ms. The governor reads the costs of each window.
    fn run() -> Estimate {
        let step = SECOND / 100;
        let begin = 100 * SECOND;
        let mut course = Course::new(NonZeroU32::MIN, begin);
        let mut governor = simulated::governor();
        let mut estimate = Estimate::default();
        let mut blind_until = begin;
        for now in (begin..begin + 100 * SECOND).step_by(usize::try_from(step).unwrap()) {
            if course.turns().is_some_and(|turns| now >= turns) {
                blind_until = now + SECOND / 3;
                course.turn(blind_until);
                estimate.turns += 1;
            }
            if now < blind_until {
                continue;
            }
            let messages = messages_at(now - begin) as f64;
            estimate.truth += messages;
            if now >= course.closes {
                course.draw_next(now);
            }
            if now >= course.opens {
                estimate.found += messages * f64::from(course.one_of().get());
                // A sample in each window, or each quarter of a second.
                if now % LENGTH < step {
                    let wanted = simulated::look(&mut governor, messages);
                    course.want(wanted, now);
                }
            }
        }
        estimate
    }

    #[test]
    fn totals_are_right_although_what_is_seen_changes_the_part_of_the_time() {
        let runs: Vec<_> = (0..400).map(|_| run()).collect();
        let count = runs.len() as f64;
        let turns: u32 = runs.iter().map(|run| run.turns).sum();
        assert!(f64::from(turns) > 4.0 * count, "{turns} turns");
        let ratios = runs.iter().map(|run| run.found - run.truth);
        let mean = ratios.clone().sum::<f64>() / count;
        let variance = ratios.map(|off| (off - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let truth = runs.iter().map(|run| run.truth).sum::<f64>() / count;
        // Five standard errors: less than one miss in a million.
        let allowed = 5.0 * (variance / count).sqrt();
        assert!(
            mean.abs() <= allowed,
            "{mean} off {truth}, {allowed} allowed"
        );
        assert!(
            allowed < truth / 10.0,
            "the test is weak: {allowed} of {truth}"
        );
    }
}
