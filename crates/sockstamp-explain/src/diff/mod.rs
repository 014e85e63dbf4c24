//! Find what changed from one population of messages to another.
//!
//! Two things are kept apart. What is **seen** in these recordings is a fact: quantiles of each
//! stage on both sides, and the mean times with the stages that carry their difference. What
//! **another** pair of recordings of the same two systems would show is an interval, and a change
//! is claimed only if the whole interval is beyond zero, and if the change matters to anybody.
//!
//! Few recordings tell how far another one would lie by the times and flows within them
//! (`figure`). From six on, they tell it themselves: each is a cluster of its own.

mod buckets;
mod figure;
mod measure;
mod population;
mod row;
mod seen;
mod side;

pub use figure::QUANTILES;
pub use figure::enough;
pub use measure::Measure;
pub use population::Population;
pub use seen::{Seen, seen};

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::chance::{Least, WRONG};
use figure::Figure;
use row::Row;
use side::Side;

/// A quantile of one stage on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The stage, or the whole time.
    pub measure: Measure,
    /// The place in [`QUANTILES`].
    pub quantile: usize,
    /// Before, in nanoseconds.
    pub before: f64,
    /// After, in nanoseconds.
    pub after: f64,
    /// The logarithms of the least and the largest ratio that the interval of 95 % has, which holds
    /// for all changes together; `None` if messages came in too few moments to tell.
    pub interval: Option<(f64, f64)>,
    /// How often chance alone makes a change as clear as this in any of the rows: at most 1.
    pub chance: f64,
    /// How many times as many measurements would tell such a change from chance.
    pub needed: f64,
    /// The change is not too small to matter to anybody.
    pub matters: bool,
}

impl Change {
    /// Return the relative change: 0.2 if it takes 20 % longer.
    #[must_use]
    pub fn relative(&self) -> f64 {
        self.after.max(1.0) / self.before.max(1.0) - 1.0
    }

    /// Return the bounds of the relative change.
    #[must_use]
    pub fn bounds(&self) -> Option<(f64, f64)> {
        self.interval
            .map(|(least, most)| (least.exp_m1(), most.exp_m1()))
    }

    /// Return true if chance alone makes no such change, in 95 % of comparisons.
    #[must_use]
    pub fn is_beyond_chance(&self) -> bool {
        self.interval
            .is_some_and(|(least, most)| least > 0.0 || most < 0.0)
    }

    /// Return true for a change that matters and is beyond chance.
    #[must_use]
    pub fn is_found(&self) -> bool {
        self.matters && self.is_beyond_chance()
    }

    /// The name of the quantile.
    #[must_use]
    pub const fn figure(&self) -> &'static str {
        QUANTILES[self.quantile].0
    }

    /// Order the change first that adds most to the time of an average message. Nobody needs to
    /// wait for an acknowledgement: it comes last.
    #[must_use]
    pub fn by_weight(&self, other: &Self) -> Ordering {
        let weight = |change: &Self| {
            let beyond = 1.0 - QUANTILES[change.quantile].1;
            (change.after - change.before).abs() * beyond
        };
        (other.is_waited_for().cmp(&self.is_waited_for()))
            .then_with(|| weight(other).total_cmp(&weight(self)))
    }

    /// Return false for a time that delays nobody by itself, as that until an acknowledgement.
    #[must_use]
    pub const fn is_waited_for(&self) -> bool {
        self.measure.is_waited_for()
    }
}

/// Compare all stages that both sides have; each side has one recording or several.
#[must_use]
pub fn compare(before: &[Population], after: &[Population], least: Least) -> Vec<Change> {
    let [before, after] = [before, after].map(Side::of);
    let mut rows = Vec::new();
    for &measure in before.whole.measures.keys() {
        for quantile in 0..QUANTILES.len() {
            let sides = [&before, &after].map(|side| Figure::of(side, measure, quantile));
            if let [Some(before), Some(after)] = sides {
                rows.push(Row::new(measure, quantile, [before, after]));
            }
        }
    }
    let times: BTreeMap<(Measure, usize), f64> = (rows.iter())
        .map(|row| ((row.measure, row.quantile), row.longer()))
        .collect();
    let count = rows.len() as f64;
    let changes = rows.iter().map(|row| {
        let [before, after] = row.times();
        let own = row.longer();
        let whole = times
            .get(&(row.measure.whole(), row.quantile))
            .unwrap_or(&own);
        Change {
            measure: row.measure,
            quantile: row.quantile,
            before,
            after,
            interval: row.interval(WRONG / count),
            chance: (row.chance() * count).min(1.0),
            needed: row.needed(WRONG / count),
            matters: least.is_less_than((after - before).abs(), *whole),
        }
    });
    changes.collect()
}

/// Return the messages of a side that have a stage, by weight.
#[must_use]
pub fn having(side: &[Population], measure: Measure) -> u64 {
    let whole = Side::of(side).whole;
    whole
        .measures
        .get(&measure)
        .map_or(0, |buckets| buckets.count())
}

/// A stage that one side alone has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneSided {
    /// The stage, or the whole time.
    pub measure: Measure,
    /// True if it came, false if it went.
    pub is_new: bool,
    /// The messages that have it, by weight.
    pub messages: u64,
    /// Their median, in nanoseconds.
    pub median: f64,
}

/// Find the stages that only one side has: there is no change of them to compare.
#[must_use]
pub fn one_sided(before: &[Population], after: &[Population]) -> Vec<OneSided> {
    let [before, after] = [before, after].map(|side| Side::of(side).whole);
    let of_both: BTreeSet<Measure> = before
        .measures
        .keys()
        .chain(after.measures.keys())
        .copied()
        .collect();
    of_both
        .into_iter()
        .filter_map(|measure| {
            let (is_new, buckets) =
                match (before.measures.get(&measure), after.measures.get(&measure)) {
                    (None, Some(buckets)) => (true, buckets),
                    (Some(buckets), None) => (false, buckets),
                    _ => return None,
                };
            Some(OneSided {
                measure,
                is_new,
                messages: buckets.count(),
                median: buckets.quantile(0.5)?,
            })
        })
        .collect()
}
