//! Tell what is seen in these recordings, whatever others would show.

use super::measure::Measure;
use super::population::{Cluster, Population};
use super::side::Side;

/// The mean of a whole time on both sides, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// The time that somebody waits for.
    pub measure: Measure,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// Its stage that changed most in the same direction, and by how much, per message; `None` if
    /// it has no stages.
    pub stage: Option<(Measure, f64)>,
}

/// Return the means of all whole times that both sides have, the largest difference first.
#[must_use]
pub fn seen(before: &[Population], after: &[Population]) -> Vec<Seen> {
    let [before, after] = [before, after].map(|side| Side::of(side).whole);
    let of = |measure| {
        let before = before.measures.get(&measure)?;
        before.mean().zip(after.measures.get(&measure)?.mean())
    };
    let wholes = Measure::all().filter(|measure| measure.is_whole());
    let mut seen: Vec<Seen> = wholes
        .filter_map(|measure| {
            let (mean_before, mean_after) = of(measure)?;
            let sign = (mean_after - mean_before).signum();
            // A stage that few messages have adds little to the mean of all.
            let per_message = |stage: Measure| {
                let mean = |side: &Cluster| {
                    let count = side.measures.get(&measure)?.count() as f64;
                    let stage = side.measures.get(&stage)?;
                    Some(stage.mean()? * stage.count() as f64 / count)
                };
                mean(&after).unwrap_or(0.0) - mean(&before).unwrap_or(0.0)
            };
            let stages =
                Measure::all().filter(|stage| *stage != measure && stage.whole() == measure);
            Some(Seen {
                measure,
                before: mean_before,
                after: mean_after,
                stage: stages
                    .map(|stage| (stage, per_message(stage)))
                    .max_by(|(_, one), (_, other)| (sign * one).total_cmp(&(sign * other))),
            })
        })
        .collect();
    seen.sort_by(|one, other| {
        let difference = |seen: &Seen| (seen.after - seen.before).abs();
        difference(other).total_cmp(&difference(one))
    });
    seen
}
