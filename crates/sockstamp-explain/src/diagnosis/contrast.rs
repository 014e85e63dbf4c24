//! The smallest set of siblings that carries what is lost, and those unlike it.

use std::net::SocketAddr;

use serde::Serialize;
use sockstamp_model::clock::Nanos;

/// Others of the same kind that lose a third or less for each attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unlike {
    /// Up to three of them.
    pub named: Vec<SocketAddr>,
    /// Their number.
    pub count: usize,
    /// Their mean time.
    #[serde(rename = "mean_ns")]
    pub mean: Nanos,
}

/// As many are named.
pub(super) const NAMED: usize = 3;

/// Return how many of the first, which lose most, carry four fifths.
pub(super) fn carriers(lost: impl IntoIterator<Item = u64> + Clone) -> usize {
    let whole: u128 = lost.clone().into_iter().map(u128::from).sum();
    let mut sum = 0_u128;
    let mut count = 0;
    for lost in lost {
        if sum * 5 >= whole * 4 {
            break;
        }
        sum += u128::from(lost);
        count += 1;
    }
    count
}

/// Return the siblings, with their mean times and counts, if they take a third or less.
pub(super) fn unlike(mean: Nanos, siblings: &[(SocketAddr, Nanos, u64)]) -> Option<Unlike> {
    let count: u128 = siblings.iter().map(|(.., count)| u128::from(*count)).sum();
    let sum: u128 = siblings
        .iter()
        .map(|(_, mean, count)| u128::from(mean.0) * u128::from(*count))
        .sum();
    let others = Nanos(u64::try_from(sum.checked_div(count)?).unwrap_or(u64::MAX));
    (others.0.saturating_mul(3) <= mean.0).then(|| Unlike {
        named: siblings
            .iter()
            .take(NAMED)
            .map(|(name, ..)| *name)
            .collect(),
        count: siblings.len(),
        mean: others,
    })
}
