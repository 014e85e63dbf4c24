//! Estimate how far a figure would lie from that of another measurement.

use sockstamp_model::student::critical;

/// The stretches of time that are compared with each other.
pub(crate) const EIGHTHS: usize = 8;

/// Fewer independent parts do not tell how far they spread.
const LEAST_PARTS: f64 = 3.0;
/// Fewer flows do not tell what other flows would do: the figure is of these alone.
const LEAST_FLOWS: f64 = 5.0;

/// The variance of a figure, estimated with so many degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) variance: f64,
    pub(crate) freedom: f64,
}

/// Residuals of one cluster, and its weight. The residuals of all clusters add up to zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) residual: f64,
    pub(crate) weight: f64,
}

/// Squares of clusters' sums.
struct Squares {
    /// The variance of the mean of so many independent clusters of equal weight.
    variance: f64,
    /// Clusters of equal weight that would be as many: (Σw)²/Σw² (Kish: "Survey Sampling", 1965).
    clusters: f64,
}

fn squares(clusters: impl Iterator<Item = Sums>) -> Squares {
    let (mut residuals, mut weight, mut weights) = (0.0, 0.0, 0.0);
    for cluster in clusters {
        residuals += cluster.residual.powi(2);
        // Weights may be sums of excesses, which are below zero where few messages are slow.
        weight += cluster.weight.max(0.0);
        weights += cluster.weight.max(0.0).powi(2);
    }
    let clusters = if weights > 0.0 {
        weight * weight / weights
    } else {
        0.0
    };
    Squares {
        variance: residuals / (weight * weight) * clusters / (clusters - 1.0),
        clusters,
    }
}

/// Return the spread of a mean over stretches of time, in any order; `None` if its messages came in
/// too few of them. These are the [`EIGHTHS`] of each of so many recordings.
pub(crate) fn of_time(stretches: impl Iterator<Item = Sums>, recordings: usize) -> Option<Spread> {
    let squares = squares(stretches);
    // A recording is no steadier than one of its eighths: each counts for one of them.
    let steadiness = squares.clusters.min(EIGHTHS as f64 * recordings as f64) / recordings as f64;
    (squares.clusters >= LEAST_PARTS).then(|| Spread {
        variance: squares.variance * steadiness.max(1.0),
        freedom: squares.clusters - 1.0,
    })
}

/// Return the spread of a mean over flows; `None` with too few of them.
pub(crate) fn of_flows(flows: impl Iterator<Item = Sums>) -> Option<Spread> {
    let squares = squares(flows);
    (squares.clusters >= LEAST_FLOWS).then_some(Spread {
        variance: squares.variance,
        freedom: squares.clusters - 1.0,
    })
}

/// Return the variance of one of several figures, by their weights, and how many of equal weight
/// they are.
fn of_each(figures: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let figures: Vec<(f64, f64)> = figures.collect();
    let weight: f64 = figures.iter().map(|(_, weight)| weight).sum();
    let weights: f64 = figures.iter().map(|(_, weight)| weight.powi(2)).sum();
    let mean = figures
        .iter()
        .map(|(figure, weight)| figure * weight)
        .sum::<f64>()
        / weight;
    let squares = figures
        .iter()
        .map(|(figure, weight)| (figure - mean).powi(2) * weight);
    let count = weight * weight / weights;
    let variance = squares.sum::<f64>() / weight * count / (count - 1.0);
    (variance, if weights > 0.0 { count } else { 0.0 })
}

/// Return the spread of a figure of so many recordings, each of which is no steadier than its
/// eighths, from that of each eighth with its weight; `None` if there are too few.
pub(crate) fn spread_of_times(
    eighths: impl Iterator<Item = (f64, f64)>,
    recordings: usize,
) -> Option<Spread> {
    let (variance, count) = of_each(eighths);
    (count >= LEAST_PARTS).then(|| Spread {
        variance: variance / recordings as f64,
        freedom: count - 1.0,
    })
}

/// Return the spread of a figure of many flows from that of each; `None` with too few of them.
pub(crate) fn spread_of_flows(flows: impl Iterator<Item = (f64, f64)>) -> Option<Spread> {
    let (variance, count) = of_each(flows);
    (count >= LEAST_FLOWS).then(|| Spread {
        variance: variance / count,
        freedom: count - 1.0,
    })
}

impl Spread {
    /// Form one that is not estimated.
    pub(crate) const fn assumed(variance: f64) -> Self {
        Self {
            variance,
            freedom: f64::INFINITY,
        }
    }

    /// Add an independent spread. Degrees of freedom are Satterthwaite's (Biometrics 2, 1946).
    pub(crate) fn and(self, other: Option<Self>) -> Self {
        let Some(other) = other.filter(|other| other.variance > 0.0) else {
            return self;
        };
        let variance = self.variance + other.variance;
        let of = |one: Self| one.variance.powi(2) / one.freedom;
        Self {
            variance,
            freedom: variance * variance / (of(self) + of(other)),
        }
    }

    /// Return the spread of a share of so many messages if each were independent of all others,
    /// with one more of either kind (Agresti, Coull: The American Statistician 52, 1998): of three
    /// of three, another may well not be like them.
    pub(crate) fn of_share(share: f64, messages: f64) -> Self {
        let share = share.clamp(0.0, 1.0).mul_add(messages, 1.0) / (messages + 2.0);
        Self {
            variance: share * (1.0 - share) / (messages + 2.0),
            freedom: (messages + 1.0).max(1.0),
        }
    }

    /// Return how far the figure may lie from what is estimated, on either side, unless that
    /// happens with at most this chance.
    pub(crate) fn margin(self, chance: f64) -> f64 {
        critical(chance, self.freedom) * self.deviation()
    }

    /// Return the spread of the difference to another measurement of the same length, which has the
    /// same.
    pub(crate) const fn of_another(self) -> Self {
        Self {
            variance: 2.0 * self.variance,
            freedom: self.freedom,
        }
    }

    /// Return the standard deviation.
    pub(crate) fn deviation(self) -> f64 {
        self.variance.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(residuals: &[f64]) -> impl Iterator<Item = Sums> {
        residuals.iter().map(|residual| Sums {
            residual: *residual,
            weight: 1.0,
        })
    }

    #[test]
    fn a_recording_is_no_steadier_than_its_eighths() {
        let eighths = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0];
        let one = of_time(of(&eighths), 1).unwrap();
        // Of eight, each deviates by one: 8/7 is the variance of each.
        assert!((one.variance - 8.0 / 7.0).abs() < 1e-12);
        assert!((one.freedom - 7.0).abs() < 1e-12);
        let two = of_time(of(&eighths.repeat(2)), 2).unwrap();
        assert!((two.variance - 16.0 / 15.0 / 2.0).abs() < 1e-12);
        let flows = of_flows(of(&eighths)).unwrap();
        assert!((flows.variance - 1.0 / 7.0).abs() < 1e-12);
    }

    #[test]
    fn one_moment_tells_nothing_of_others() {
        let mut sums: Vec<Sums> = of(&[0.0; 8]).collect();
        sums[3].weight = 1e6;
        assert_eq!(of_time(sums.into_iter(), 1), None);
        assert_eq!(of_flows(of(&[1.0, -1.0, 0.5, -0.5])), None);
    }

    #[test]
    fn the_larger_spread_decides_the_degrees_of_freedom() {
        let small = Spread {
            variance: 1e-6,
            freedom: 100.0,
        };
        let large = Spread {
            variance: 1.0,
            freedom: 7.0,
        };
        let both = large.and(Some(small));
        assert!((both.freedom - 7.0).abs() < 0.01 && both.variance > 1.0);
        assert_eq!(large.and(None), large);
    }
}
