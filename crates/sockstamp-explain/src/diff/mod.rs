//! Find what changed from one population of messages to another.
//!
//! Quantiles of each stage are compared. The interval of a change comes from a bootstrap by
//! clusters, since messages of one flow, or of one moment, are alike: groups of flows are drawn
//! again, and blocks of neighbouring windows of time. The wider one counts, if there are
//! [`CLUSTERS`] of each.

mod buckets;
mod measure;
mod population;
mod random;

pub use measure::Measure;
pub use population::Population;

use std::collections::{BTreeMap, BTreeSet};

use crate::CLUSTERS;
use population::Cluster;
use random::Random;

/// The quantiles that are compared, with their names.
pub const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Populations that are drawn again.
const DRAWN: usize = 200;
/// Neighbouring windows that are drawn together: moments resemble those before them.
const BLOCK: usize = 5;
/// The least number of messages beyond a quantile for a statement about it.
const BEYOND: f64 = 20.0;
/// A smaller change is none: buckets are 3 % wide.
const LEAST: f64 = 0.05;

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
    /// for all changes together; `None` with too few flows and seconds, or too few messages.
    pub interval: Option<(f64, f64)>,
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

    /// Return true if it changed for sure, and by more than a bucket.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        let sure = self
            .bounds()
            .is_some_and(|(least, most)| least > 0.0 || most < 0.0);
        sure && self.relative().abs() >= LEAST
    }

    /// The name of the quantile.
    #[must_use]
    pub const fn figure(&self) -> &'static str {
        QUANTILES[self.quantile].0
    }
}

/// The logarithms of a measure's quantiles; `None` where there are too few messages.
type Logarithms = [Option<f64>; QUANTILES.len()];

/// Compare all stages that both sides have.
#[must_use]
pub fn compare(before: &Population, after: &Population) -> Vec<Change> {
    let sides = [before, after].map(Side::of);
    let mut changes = Vec::new();
    for (&measure, first) in &sides[0].quantiles {
        let Some(second) = sides[1].quantiles.get(&measure) else {
            continue;
        };
        for quantile in 0..QUANTILES.len() {
            let (Some(before), Some(after)) = (first[quantile], second[quantile]) else {
                continue;
            };
            changes.push(Change {
                measure,
                quantile,
                before: before.exp(),
                after: after.exp(),
                interval: None,
            });
        }
    }
    // |Z| exceeds this in at most 5 % of cases, all changes together: exp(-z²/2) each.
    let factor = (2.0 * (changes.len() as f64 / 0.05).ln()).sqrt();
    for change in &mut changes {
        let [one, two] = sides
            .each_ref()
            .map(|side| side.margin(change.measure, change.quantile, factor));
        change.interval = one.zip(two).map(|(one, two)| {
            let ratio = change.relative().ln_1p();
            let margin = one.hypot(two);
            (ratio - margin, ratio + margin)
        });
    }
    changes
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
pub fn one_sided(before: &Population, after: &Population) -> Vec<OneSided> {
    let [before, after] = [before, after].map(Population::all);
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

/// Figures of one side.
struct Side {
    quantiles: BTreeMap<Measure, Logarithms>,
    /// The figures of each drawn population, by groups of flows and by windows if there are enough
    /// of them.
    drawn: Vec<Drawn>,
}

/// Populations that are drawn again by clusters of one kind.
struct Drawn {
    /// The units that are drawn: independent of each other.
    blocks: f64,
    populations: Vec<BTreeMap<Measure, Logarithms>>,
}

impl Drawn {
    /// Return half the width of an interval that would span this many deviations on either side if
    /// there were infinitely many blocks.
    fn margin(&self, measure: Measure, quantile: usize, factor: f64) -> Option<f64> {
        let figures: Vec<f64> = (self.populations.iter())
            .filter_map(|of| of.get(&measure)?[quantile])
            .collect();
        // Where few clusters have it, it is often missing.
        if figures.len() * 2 < DRAWN {
            return None;
        }
        let count = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / count;
        let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
        // A sample of n has (n - 1)/n of the variance.
        let deviation = (squares / (count - 1.0) * self.blocks / (self.blocks - 1.0)).sqrt();
        // Student's t, of both sides' blocks (Abramowitz and Stegun, 26.7.5).
        let freedom = 2.0 * (self.blocks - 1.0);
        let factor = factor + (factor.powi(3) + factor) / (4.0 * freedom);
        Some(factor * deviation)
    }
}

impl Side {
    fn of(population: &Population) -> Self {
        let [flows, windows] = population.clusters();
        let mut random = Random::new();
        let drawn = [(flows, 1), (windows, BLOCK)]
            .into_iter()
            .filter(|(clusters, _)| clusters.len() >= CLUSTERS)
            .map(|(clusters, block)| Drawn {
                blocks: clusters.len() as f64 / block as f64,
                populations: (0..DRAWN)
                    .map(|_| quantiles(&draw(&clusters, block, &mut random)))
                    .collect(),
            });
        Self {
            quantiles: quantiles(&population.all()),
            drawn: drawn.collect(),
        }
    }

    /// Return the widest margin; `None` if there are too few clusters.
    fn margin(&self, measure: Measure, quantile: usize, factor: f64) -> Option<f64> {
        let margins = self
            .drawn
            .iter()
            .map(|drawn| drawn.margin(measure, quantile, factor));
        margins
            .collect::<Option<Vec<f64>>>()?
            .into_iter()
            .reduce(f64::max)
    }
}

/// Draw as many clusters again, in blocks of neighbours.
fn draw(clusters: &[&Cluster], block: usize, random: &mut Random) -> Cluster {
    let mut times = vec![0; clusters.len()];
    for _ in 0..clusters.len().div_ceil(block) {
        let first = random.below(clusters.len());
        for place in first..first + block {
            times[place % clusters.len()] += 1;
        }
    }
    let mut sum = Cluster::default();
    for (cluster, times) in clusters.iter().zip(times) {
        sum.merge(cluster, times);
    }
    sum
}

fn quantiles(cluster: &Cluster) -> BTreeMap<Measure, Logarithms> {
    let of_buckets = |buckets: &buckets::Buckets| {
        QUANTILES.map(|(_, quantile)| {
            let enough = buckets.count() as f64 * (1.0 - quantile) >= BEYOND;
            let found = buckets.quantile(quantile).filter(|_| enough)?;
            Some(found.max(1.0).ln())
        })
    };
    let measures = cluster.measures.iter();
    measures
        .map(|(measure, buckets)| (*measure, of_buckets(buckets)))
        .collect()
}
