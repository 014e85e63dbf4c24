//! A quantile of one side, and how far that of another recording would lie from it.

use sockstamp_model::clock::Nanos;

use crate::chance::{EIGHTHS, Spread, spread_of_flows, spread_of_times};

use super::buckets::Buckets;
use super::measure::Measure;
use super::population::Cluster;
use super::side::Side;

/// The quantiles that are compared, with their names.
pub const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The least number of messages beyond a quantile for a statement about it.
const BEYOND: f64 = 20.0;
/// 20 000 × (1 − 0.999) is a little less than 20.
const ROUNDING: f64 = 1e-6;

/// Return the least number of messages of each side for a statement about a quantile, by its place.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small and positive"
)]
pub fn enough(quantile: usize) -> u64 {
    (BEYOND / (1.0 - QUANTILES[quantile].1)).round() as u64
}

/// Variance of the logarithm of a quantile between recordings of the same system, beyond what the
/// times within one tell: other processes on other processors, other addresses, another clock rate.
/// A deviation of 10 %. It is an assumption, which several recordings on a side replace.
const APART: f64 = 0.01;
/// The same by which recordings of a second differ more, since they depend on the moment in which
/// they are made; longer ones do by less.
const APART_SECOND: f64 = 0.1;

/// A quantile of all recordings of a side, as a logarithm: a time that doubles differs as much from
/// the former as one that is halved.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) log: f64,
    /// That of each recording; `None` where one has too few messages.
    pub(super) runs: Option<Vec<f64>>,
    /// `None` if messages came in too few moments to tell.
    pub(super) spread: Option<Spread>,
}

/// Return the logarithm of a quantile; `None` if fewer messages are beyond it.
fn log(buckets: &Buckets, quantile: f64, beyond: f64) -> Option<f64> {
    let is_enough = buckets.count() as f64 * (1.0 - quantile) >= beyond - ROUNDING;
    let found = buckets.quantile(quantile).filter(|_| is_enough)?;
    Some(found.max(1.0).ln())
}

impl Figure {
    /// Take a quantile of a side; `None` with too few messages.
    pub(super) fn of(side: &Side<'_>, measure: Measure, place: usize) -> Option<Self> {
        let quantile = QUANTILES[place].1;
        let whole = log(side.whole.measures.get(&measure)?, quantile, BEYOND)?;
        let runs = side.each.iter();
        let runs = runs.map(|run| log(run.measures.get(&measure)?, quantile, BEYOND));
        // The quantile of a part, and its weight. Few parts have as many messages as the whole.
        let of_part = |buckets: &Buckets| {
            let log = log(buckets, quantile, 1.0)?;
            Some((log, buckets.count() as f64))
        };
        let times = side.recordings.iter().flat_map(|recording| {
            let mut eighths: [Buckets; EIGHTHS] = std::array::from_fn(|_| Buckets::default());
            for (eighth, window) in recording.windows() {
                if let Some(buckets) = window.measures.get(&measure) {
                    eighths[eighth].merge(buckets);
                }
            }
            eighths.into_iter().filter_map(|eighth| of_part(&eighth))
        });
        let flows = side.recordings.iter().flat_map(|recording| {
            let of_measure = move |flow: &'_ Cluster| flow.measures.get(&measure).and_then(of_part);
            recording.flows().filter_map(of_measure)
        });
        let count = side.recordings.len() as f64;
        let length: Nanos = side
            .recordings
            .iter()
            .map(|recording| recording.length())
            .sum();
        let seconds = length.0 as f64 / 1e9 / count;
        let apart = Spread::assumed((APART + APART_SECOND / seconds.max(1.0)) / count);
        let spread = spread_of_times(times, side.recordings.len());
        Some(Self {
            log: whole,
            runs: runs.collect(),
            spread: spread.map(|spread| spread.and(spread_of_flows(flows)).and(Some(apart))),
        })
    }
}
