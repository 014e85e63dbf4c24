//! When windows open: at times that follow no pattern, so that no traffic is in step with them.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::random::Random;

/// Gaps differ from their mean by up to this part of it.
const SPREAD: f64 = 0.75;

/// A renewal process: windows of one length, with random gaps between them. It begins in its
/// equilibrium, so any moment is in a window with the same probability.
pub(super) struct Schedule {
    length: f64,
    /// Mean of a gap.
    gap: f64,
    random: Random,
}

impl Schedule {
    /// Windows of `length`, for one in `one_of` of the time.
    pub(super) fn new(length: u64, one_of: NonZeroU32) -> Self {
        Self {
            length: length as f64,
            gap: length as f64 * f64::from(one_of.get() - 1),
            random: Random::default(),
        }
    }

    /// Return the opening time of the window that is open at `now`, or of the first one after it.
    pub(super) fn first(&mut self, now: u64) -> u64 {
        let cycle = self.length + self.gap;
        let place = self.random.draw() * cycle;
        if place < self.length {
            return now.saturating_sub(whole(place));
        }
        // A moment is in a gap with a probability that is proportional to the gap's length.
        let (least, most) = (self.gap * (1.0 - SPREAD), self.gap * (1.0 + SPREAD));
        let gap = (least * least + self.random.draw() * (most * most - least * least)).sqrt();
        now + whole(self.random.draw() * gap)
    }

    /// Return when the window opens after the one that opened at `opened`.
    pub(super) fn next(&mut self, opened: u64) -> u64 {
        let gap = self.gap * (1.0 + SPREAD * (2.0 * self.random.draw() - 1.0));
        opened + whole(self.length + gap)
    }
}

/// Return a time in whole nanoseconds.
fn whole(nanoseconds: f64) -> u64 {
    let time = Duration::from_secs_f64(nanoseconds / 1e9);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: u64 = 250;

    /// Messages at times with a period, whose values follow it.
    #[derive(Debug, Clone, Copy)]
    struct Population {
        interval: u64,
        period: u64,
        end: u64,
    }

    impl Population {
        fn messages(self) -> impl Iterator<Item = (u64, u64)> {
            let times = (0..self.end).step_by(usize::try_from(self.interval).unwrap());
            times.map(move |time| (time, time % self.period))
        }
    }

    #[derive(Debug, Clone, Copy, Default)]
    struct Estimate {
        messages: f64,
        values: f64,
        low: f64,
    }

    fn add(estimate: &mut Estimate, value: u64, weight: u32, population: Population) {
        estimate.messages += f64::from(weight);
        estimate.values += f64::from(weight) * value as f64;
        if value < population.period / 2 {
            estimate.low += f64::from(weight);
        }
    }

    fn estimate(one_of: u32, population: Population) -> Estimate {
        let mut schedule = Schedule::new(LENGTH, NonZeroU32::new(one_of).unwrap());
        // Later than a window's length, so that the first may have opened before.
        let begin = 10 * LENGTH;
        let mut opens = schedule.first(begin);
        let mut found = Estimate::default();
        for (time, value) in population.messages() {
            while begin + time >= opens + LENGTH {
                opens = schedule.next(opens);
            }
            if begin + time >= opens {
                add(&mut found, value, one_of, population);
            }
        }
        found
    }

    fn assert_unbiased(truth: f64, runs: &[f64], what: &str) -> Result<(), TestCaseError> {
        let count = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / count;
        let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Five standard errors: one case of two million misses by chance.
        let allowed = 5.0 * (variance / count).sqrt() + truth / 1e6;
        prop_assert!(
            (mean - truth).abs() <= allowed,
            "{what}: {mean} for {truth}, {allowed} allowed"
        );
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        #[test]
        fn any_moment_is_in_a_window_with_the_same_probability(
            one_of in 2..60_u32,
            interval in 1..40_u64,
            // The mean of a cycle among them: traffic that could fall in step with the windows.
            percent in prop_oneof![Just(50), Just(100), Just(200), 1..300_u64],
        ) {
            let cycle = LENGTH * u64::from(one_of);
            let population = Population {
                interval,
                period: (cycle * percent / 100).max(2),
                end: 30 * cycle,
            };
            let mut truth = Estimate::default();
            population.messages().for_each(|(_, value)| add(&mut truth, value, 1, population));
            let runs: Vec<_> = (0..400).map(|_| estimate(one_of, population)).collect();
            let of = |field: fn(&Estimate) -> f64| runs.iter().map(field).collect::<Vec<_>>();
            assert_unbiased(truth.messages, &of(|run| run.messages), "messages")?;
            assert_unbiased(truth.values, &of(|run| run.values), "values")?;
            assert_unbiased(truth.low, &of(|run| run.low), "messages below the median")?;
        }
    }

    #[test]
    fn a_window_for_all_of_the_time_has_no_gap() {
        let mut schedule = Schedule::new(LENGTH, NonZeroU32::MIN);
        let first = schedule.first(1_000);
        assert!((750..=1_000).contains(&first), "{first}");
        assert_eq!(schedule.next(first), first + LENGTH);
    }
}
