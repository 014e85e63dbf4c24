//! The bounds of classic histograms: powers of two in seconds.
//!
//! The kernel counts into buckets that end at 2^(j/4) s, so a bucket is on one side of each of
//! these bounds, and adding up whole buckets moves no count across a bound.

use std::ops::RangeInclusive;

use sockstamp_model::group::{GroupHistogram, SLOTS};

/// Exponents of the bounds, from 2^-20 s (0.95 µs) to 2^5 s (32 s).
const EXPONENTS: RangeInclusive<i32> = -20..=5;

/// Buckets per histogram, the one without a bound included.
pub const BUCKETS: usize = (*EXPONENTS.end() - *EXPONENTS.start()).unsigned_abs() as usize + 2;

/// Buckets of the kernel per power of two.
const PER_OCTAVE: i32 = 4;

/// The first slot holds times up to 2^-24 s.
const LOWEST_EXPONENT: i32 = -24;

/// A bucket: all times up to a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// The bound in seconds, inclusive; infinite for the last bucket.
    pub bound: f64,
    /// Messages up to the bound, by weight.
    pub count: u64,
}

/// Return the bound of a bucket in seconds.
#[must_use]
pub fn bound(bucket: usize) -> f64 {
    let exponent =
        i32::try_from(bucket).map_or(*EXPONENTS.end() + 1, |bucket| EXPONENTS.start() + bucket);
    match EXPONENTS.contains(&exponent) {
        true => 2_f64.powi(exponent),
        false => f64::INFINITY,
    }
}

/// Return the buckets of a distribution, the last without a bound.
pub fn cumulative(histogram: &GroupHistogram) -> impl Iterator<Item = Bucket> {
    let mut slots = histogram.slots().peekable();
    let mut count = 0_u64;
    (0..BUCKETS).map(move |bucket| {
        let bound = bound(bucket);
        let highest = match bound.is_finite() {
            true => slot_below(EXPONENTS.start() + i32::try_from(bucket).unwrap_or(0)),
            false => SLOTS,
        };
        while let Some((_, more)) = slots.next_if(|&(slot, _)| slot <= highest) {
            count = count.saturating_add(more);
        }
        Bucket { bound, count }
    })
}

/// Return the last slot whose times are all up to 2^exponent s.
fn slot_below(exponent: i32) -> usize {
    usize::try_from((exponent - LOWEST_EXPONENT) * PER_OCTAVE).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockstamp_model::clock::Nanos;

    use super::*;

    /// Compare in integers: ns / 10^9 <= 2^exponent.
    fn is_within(ns: u64, exponent: i32) -> bool {
        let (ns, second) = (u128::from(ns), 1_000_000_000_u128);
        if exponent < 0 {
            ns << -exponent <= second
        } else {
            ns <= second << exponent
        }
    }

    /// Times anywhere, and times at a bound and next to it.
    fn latency() -> impl Strategy<Value = u64> {
        let at_a_bound = (EXPONENTS, -1_i64..=1).prop_map(|(exponent, beside)| {
            let second = 1_000_000_000_u64;
            let bound = if exponent < 0 {
                second >> -exponent
            } else {
                second << exponent
            };
            bound.saturating_add_signed(beside)
        });
        prop_oneof![
            any::<u64>(),
            0_u64..100_000_000_000,
            0_u64..1_000_000,
            at_a_bound
        ]
    }

    proptest! {
        #[test]
        fn no_count_crosses_a_bound(
            latencies in prop::collection::vec((latency(), 1_u64..9), 0..60),
        ) {
            let mut histogram = GroupHistogram::default();
            for &(latency, weight) in &latencies {
                histogram.record(Nanos(latency), weight);
            }
            let buckets: Vec<_> = cumulative(&histogram).collect();
            prop_assert_eq!(buckets.len(), BUCKETS);
            for (exponent, bucket) in EXPONENTS.zip(&buckets) {
                let within = latencies.iter().filter(|(latency, _)| is_within(*latency, exponent));
                let count: u64 = within.map(|(_, weight)| weight).sum();
                prop_assert_eq!(bucket, &Bucket { bound: 2_f64.powi(exponent), count });
            }
            let last = buckets[BUCKETS - 1];
            prop_assert_eq!((last.bound, last.count), (f64::INFINITY, histogram.count()));
        }
    }
}
