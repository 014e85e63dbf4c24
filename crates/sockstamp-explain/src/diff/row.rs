//! A quantile of one stage on both sides, and what chance makes of it.

use sockstamp_model::student::{below, critical};

use crate::chance::Spread;

use super::figure::Figure;
use super::measure::Measure;

/// Recordings tell by themselves how far they lie apart from so many degrees of freedom on: three
/// on either side, or five on one.
const ENOUGH: f64 = 4.0;

#[derive(Debug)]
pub(super) struct Row {
    pub(super) measure: Measure,
    pub(super) quantile: usize,
    /// The logarithms of the times on both sides.
    logs: [f64; 2],
    /// That of their difference; `None` if the recordings do not tell.
    spread: Option<Spread>,
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// Return the spread of the difference between the means of both sides' recordings; `None` if there
/// are too few. The systems may differ, but recordings of either differ alike: both are pooled.
fn of_runs(before: &[f64], after: &[f64]) -> Option<Spread> {
    let squares = |runs: &[f64]| {
        let mean = mean(runs);
        runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>()
    };
    let counts = [before, after].map(|runs| runs.len() as f64);
    let freedom = counts[0] + counts[1] - 2.0;
    let variance = (squares(before) + squares(after)) / freedom;
    (freedom >= ENOUGH).then(|| Spread {
        variance: variance * (1.0 / counts[0] + 1.0 / counts[1]),
        freedom,
    })
}

impl Row {
    pub(super) fn new(measure: Measure, quantile: usize, [before, after]: [Figure; 2]) -> Self {
        let runs = before.runs.as_deref().zip(after.runs.as_deref());
        let of_runs = runs.and_then(|(before, after)| {
            Some(([mean(before), mean(after)], of_runs(before, after)?))
        });
        let (logs, spread) = match of_runs {
            Some((logs, spread)) => (logs, Some(spread)),
            None => {
                let spread = before
                    .spread
                    .map(|spread| Some(spread.and(Some(after.spread?))));
                ([before.log, after.log], spread.flatten())
            }
        };
        Self {
            measure,
            quantile,
            logs,
            spread,
        }
    }

    /// Return the times on both sides, in nanoseconds.
    pub(super) fn times(&self) -> [f64; 2] {
        self.logs.map(f64::exp)
    }

    /// Return the longer time of both sides.
    pub(super) fn longer(&self) -> f64 {
        let [before, after] = self.times();
        before.max(after)
    }

    fn change(&self) -> f64 {
        self.logs[1] - self.logs[0]
    }

    /// Return the interval of the logarithm of the change, which misses it with this chance.
    pub(super) fn interval(&self, chance: f64) -> Option<(f64, f64)> {
        let margin = self.spread?.margin(chance);
        Some((self.change() - margin, self.change() + margin))
    }

    /// Return how many deviations the change is.
    fn deviations(&self) -> Option<(f64, f64)> {
        let spread = self.spread?;
        // Recordings that are all alike to the nanosecond have no spread.
        let deviation = spread.deviation().max(f64::MIN_POSITIVE);
        Some((self.change().abs() / deviation, spread.freedom))
    }

    /// Return how often chance makes a change of this row as clear as this.
    pub(super) fn chance(&self) -> f64 {
        let deviations = self.deviations();
        deviations.map_or(1.0, |(deviations, freedom)| {
            2.0 * below(-deviations, freedom)
        })
    }

    /// Return how many times as many measurements would leave so little chance of what is seen:
    /// deviations shrink with the root of their number. Infinite if none would.
    pub(super) fn needed(&self, chance: f64) -> f64 {
        let deviations = self.deviations();
        deviations.map_or(f64::INFINITY, |(deviations, freedom)| {
            (critical(chance, freedom) / deviations).powi(2)
        })
    }
}
