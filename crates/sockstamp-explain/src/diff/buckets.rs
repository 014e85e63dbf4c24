//! Count durations so finely that a change of a few percent shows.

use sockstamp_model::clock::Nanos;

/// Buckets per power of two: each is at most 3.1 % wide.
const PER_OCTAVE: usize = 32;
const OCTAVE_BITS: u32 = PER_OCTAVE.ilog2();
/// Longer durations are in the last bucket: 2^41 ns, 37 minutes.
const LONGEST_BIT: u32 = 40;

/// Durations by bucket, each with its weight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Buckets {
    /// Iterate from the first non-empty bucket to the last.
    counts: Vec<u64>,
    first: usize,
    /// All durations, by weight.
    time: u128,
}

fn place(duration: Nanos) -> usize {
    let nanos = duration.0.min((1 << (LONGEST_BIT + 1)) - 1);
    let octave = nanos
        .checked_ilog2()
        .unwrap_or(0)
        .saturating_sub(OCTAVE_BITS);
    // Below 2^(LONGEST_BIT + 1), so that it fits.
    octave as usize * PER_OCTAVE + (nanos >> octave) as usize
}

/// Return the first duration of a bucket, and its width.
fn range(place: usize) -> (f64, f64) {
    let octave = (place / PER_OCTAVE).saturating_sub(1);
    let begin = place - octave * PER_OCTAVE;
    let width = (octave as f64).exp2();
    (begin as f64 * width, width)
}

impl Buckets {
    pub(super) fn add(&mut self, duration: Nanos, weight: u64) {
        let place = place(duration);
        self.extend_to(place, 1);
        self.counts[place - self.first] += weight;
        self.time += u128::from(duration.0) * u128::from(weight);
    }

    /// Add all that another one has.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        self.extend_to(other.first, other.counts.len());
        let sums = self.counts[other.first - self.first..].iter_mut();
        for (sum, count) in sums.zip(&other.counts) {
            *sum += count;
        }
        self.time += other.time;
    }

    /// Make room for this many buckets.
    fn extend_to(&mut self, first: usize, buckets: usize) {
        if self.counts.is_empty() {
            self.first = first;
        }
        let below = self.first.saturating_sub(first);
        self.counts.splice(..0, std::iter::repeat_n(0, below));
        self.first -= below;
        let end = first + buckets - self.first;
        self.counts.resize(end.max(self.counts.len()), 0);
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Return the mean in nanoseconds; `None` without durations.
    pub(super) fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.time as f64 / count as f64)
    }

    /// Return a quantile in nanoseconds, interpolated within its bucket; `None` without durations.
    pub(super) fn quantile(&self, quantile: f64) -> Option<f64> {
        let rank = quantile * self.count() as f64;
        let mut before = 0.0;
        for (place, &count) in (self.first..)
            .zip(&self.counts)
            .filter(|(_, count)| **count > 0)
        {
            let count = count as f64;
            if before + count >= rank {
                let (begin, width) = range(place);
                return Some(begin + width * (rank - before) / count);
            }
            before += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_their_durations() {
        for nanos in (0..100_000).chain((17..63).map(|bit| (1 << bit) - 1)) {
            let (begin, width) = range(place(Nanos(nanos)));
            let longest = ((1_u64 << (LONGEST_BIT + 1)) - 1) as f64;
            let within = (nanos as f64).min(longest);
            assert!(begin <= within && within < begin + width, "{nanos}");
            assert!(width <= (begin / PER_OCTAVE as f64).max(1.0), "{nanos}");
        }
        assert_eq!(
            place(Nanos(u64::MAX)),
            place(Nanos((1 << (LONGEST_BIT + 1)) - 1))
        );
    }

    #[test]
    fn quantiles_are_within_a_bucket_of_the_exact_ones() {
        let mut buckets = Buckets::default();
        assert_eq!(buckets.quantile(0.5), None);
        for millis in 1..=1000 {
            buckets.add(Nanos(millis * 1_000_000), 1);
        }
        for (quantile, exact) in [(0.5, 500e6), (0.99, 990e6)] {
            let found = buckets.quantile(quantile).unwrap();
            assert!((found / exact - 1.0).abs() < 0.032, "{found}");
        }
        assert_eq!(buckets.mean(), Some(500.5e6));
    }
}
