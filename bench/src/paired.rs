//! Compute all statistics. Both sides of a comparison run in turn, in many short rounds, and each
//! round gives a ratio; the figure is their median. A disturbance of the machine then affects one
//! ratio, and its drift none.

use anyhow::Result;
use serde::Serialize;

use crate::interrupt;

/// The result of many rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) rounds: usize,
}

impl Spread {
    /// The slice must not be empty.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Self {
            median,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
            rounds: sorted.len(),
        }
    }

    /// Compute the ratios of values of the same round.
    pub(crate) fn of_ratios(values: &[f64], bases: &[f64]) -> Self {
        let ratios: Vec<_> = values
            .iter()
            .zip(bases)
            .map(|(value, base)| value / base)
            .collect();
        Self::of(&ratios)
    }
}

/// Run each side once per round: A B, B A, A B, …, so that no side always comes first. Return each
/// side's results, one per round.
pub(crate) fn in_turn<const N: usize, S: Copy, T>(
    rounds: usize,
    sides: [S; N],
    mut run: impl FnMut(S) -> Result<T>,
) -> Result<[Vec<T>; N]> {
    let mut results = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for round in 0..rounds {
        for step in 0..N {
            let side = if round % 2 == 0 { step } else { N - 1 - step };
            interrupt::check()?;
            results[side].push(run(sides[side])?);
        }
    }
    Ok(results)
}

/// Return one value of each of a side's results.
pub(crate) fn values<T>(results: &[T], value: impl Fn(&T) -> f64) -> Vec<f64> {
    results.iter().map(value).collect()
}

/// A count as a number to divide.
#[expect(
    clippy::cast_precision_loss,
    reason = "no run of minutes counts to 2^52"
)]
pub(crate) fn to_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        let odd = Spread::of(&[3.0, 1.0, 2.0]);
        assert_eq!(
            (odd.median, odd.min, odd.max, odd.rounds),
            (2.0, 1.0, 3.0, 3)
        );
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn ratios_are_formed_within_a_round() {
        // The machine was twice as slow in the second round: the ratio does not see it.
        let spread = Spread::of_ratios(&[12.0, 24.0], &[10.0, 20.0]);
        assert_eq!((spread.min, spread.max), (1.2, 1.2));
    }

    #[test]
    fn sides_take_turns_at_being_first() {
        let mut order = String::new();
        let results = in_turn(3, ['a', 'b'], |side| {
            order.push(side);
            Ok(order.len())
        });
        assert_eq!(order, "abbaab");
        assert_eq!(results.unwrap(), [[1, 4, 5], [2, 3, 6]]);
    }
}
