//! A distribution with fewer buckets than [`Histogram`](crate::Histogram), since there is one a
//! group and stage.
//!
//! Two neighbouring exponential buckets of schema 3 are one of schema 2, whose bounds are at
//! 2^(j/4) s; the zero bucket and the overflow are the same.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::clock::Nanos;
use crate::histogram::{self, OVERFLOW_SLOT, UPPER_BOUNDS_NS};

/// Slots: the zero bucket, 120 exponential buckets and the overflow.
pub const SLOTS: usize = OVERFLOW_SLOT.div_ceil(2) + 1;

/// The slot of a latency in nanoseconds; the kernel side computes the same.
#[must_use]
pub fn slot(ns: u64) -> usize {
    histogram::slot(ns).div_ceil(2)
}

/// The lowest and the highest whole nanosecond of a slot.
fn range_ns(slot: usize) -> (u64, u64) {
    match slot {
        0 => (0, UPPER_BOUNDS_NS[0]),
        _ => (
            UPPER_BOUNDS_NS[2 * slot - 2] + 1,
            UPPER_BOUNDS_NS[(2 * slot).min(OVERFLOW_SLOT)],
        ),
    }
}

/// A distribution of latencies of one group, every one counted with its weight.
///
/// Between 60 ns and 64 s, no quantile is more than 2^(1/8) - 1 = 9.05 % off, with the rounding to
/// whole nanoseconds 9.2 %. Counts and sums are exact, and saturate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupHistogram(
    // Most distributions of most groups count nothing: then this takes eight bytes.
    Option<Box<Counted>>,
);

/// The counts of a distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counted {
    // Most fill a few neighbouring slots, so only these are held: no zero at either end, and at
    // least one count.
    first: usize,
    counts: Vec<u64>,
    sum_ns: u128,
    max_ns: u64,
    /// The largest is not known, only that it is not above `max_ns`.
    max_is_bound: bool,
}

impl GroupHistogram {
    /// A distribution that was counted elsewhere, by slot. The copy may have been taken in the
    /// middle of an update.
    #[must_use]
    pub fn from_counts(counts: &[u64; SLOTS], sum_ns: u128, max_ns: u64) -> Self {
        Self(Counted::new(0, counts, sum_ns, max_ns, false))
    }

    /// The slots from the first to the last that counted something, with their counts.
    pub fn slots(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().flat_map(|counted| counted.slots())
    }

    /// Count a latency as `weight` messages; a weight of 0 changes nothing.
    pub fn record(&mut self, latency: Nanos, weight: u64) {
        if weight == 0 {
            return;
        }
        let slot = slot(latency.0);
        let counted = self
            .0
            .get_or_insert_with(|| Box::new(Counted::starting_at(slot)));
        counted.add(slot, &[weight], u128::from(latency.0) * u128::from(weight));
        counted.raise(latency.0, false);
    }

    /// Add everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Some(counted), Some(more)) => {
                counted.add(more.first, &more.counts, more.sum_ns);
                counted.raise(more.max_ns, more.max_is_bound);
            }
            (None, Some(_)) => self.clone_from(other),
            (_, None) => {}
        }
    }

    /// Return the counts since an earlier snapshot of the same distribution. Its maximum is exact
    /// if it is the largest so far, otherwise an upper bound.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        match (&self.0, &earlier.0) {
            (Some(now), Some(then)) => Self(now.since(then)),
            _ => self.clone(),
        }
    }

    /// Return the number of messages, by weight.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.slots()
            .fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Return true if nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The weighted sum of the latencies in nanoseconds, exact.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.0.as_ref().map_or(0, |counted| counted.sum_ns)
    }

    /// The largest latency, exact except for [differences](Self::since); `None` if nothing was
    /// counted.
    #[must_use]
    pub fn max(&self) -> Option<Nanos> {
        self.0.as_ref().map(|counted| Nanos(counted.max_ns))
    }

    /// The latency that the share `q` of the messages does not exceed, as [`Histogram::quantile`]
    /// defines it: the geometric middle of its bucket, where the bucket ends with the largest
    /// latency if that is in it.
    ///
    /// [`Histogram::quantile`]: crate::Histogram::quantile
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let counted = self.0.as_ref()?;
        let count = self.count();
        let mut rank = histogram::rank(q, count);
        if rank == count && !counted.max_is_bound {
            return self.max();
        }
        for (slot, count) in counted.slots() {
            if rank <= count {
                let (low, high) = range_ns(slot);
                let high = high.min(counted.max_ns);
                let middle = histogram::middle(low.into(), high.into());
                return Some(Nanos(u64::try_from(middle).unwrap_or(u64::MAX)));
            }
            rank -= count;
        }
        self.max()
    }
}

impl Counted {
    /// `None` if all counts, which begin with that of the slot `first`, are zero.
    fn new(
        first: usize,
        counts: &[u64],
        sum_ns: u128,
        max_ns: u64,
        max_is_bound: bool,
    ) -> Option<Box<Self>> {
        let begin = counts.iter().position(|&count| count > 0)?;
        let end = counts.iter().rposition(|&count| count > 0)?;
        let (low, high) = range_ns(first + end);
        Some(Box::new(Self {
            first: first + begin,
            counts: counts[begin..=end].to_vec(),
            sum_ns,
            max_ns: max_ns.clamp(low, high),
            max_is_bound,
        }))
    }

    /// No count yet: one must be added to this slot.
    fn starting_at(first: usize) -> Self {
        Self {
            first,
            counts: Vec::new(),
            sum_ns: 0,
            max_ns: 0,
            max_is_bound: false,
        }
    }

    fn slots(&self) -> impl Iterator<Item = (usize, u64)> {
        (self.first..).zip(self.counts.iter().copied())
    }

    fn slot_count(&self, slot: usize) -> u64 {
        let index = slot.checked_sub(self.first);
        index
            .and_then(|index| self.counts.get(index))
            .copied()
            .unwrap_or(0)
    }

    /// Add counts, which begin with that of the slot `first`.
    fn add(&mut self, first: usize, counts: &[u64], sum_ns: u128) {
        self.extend_to(first, counts.len());
        for (count, more) in self.counts[first - self.first..].iter_mut().zip(counts) {
            *count = count.saturating_add(*more);
        }
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
    }

    fn raise(&mut self, max_ns: u64, is_bound: bool) {
        if max_ns > self.max_ns {
            self.max_ns = max_ns;
            self.max_is_bound = is_bound;
        }
    }

    /// Make room for this many slots from `first` on.
    fn extend_to(&mut self, first: usize, slots: usize) {
        let below = self.first.saturating_sub(first);
        self.counts.splice(..0, std::iter::repeat_n(0, below));
        self.first -= below;
        let end = first + slots - self.first;
        self.counts.resize(end.max(self.counts.len()), 0);
    }

    fn since(&self, earlier: &Self) -> Option<Box<Self>> {
        let counts = self
            .slots()
            .map(|(slot, count)| count.saturating_sub(earlier.slot_count(slot)));
        Self::new(
            self.first,
            &counts.collect::<Vec<_>>(),
            self.sum_ns.saturating_sub(earlier.sum_ns),
            self.max_ns,
            self.max_is_bound || self.max_ns <= earlier.max_ns,
        )
    }
}

impl Serialize for GroupHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("GroupHistogram", 6)?;
        object.serialize_field("count", &self.count())?;
        object.serialize_field("p50_ns", &self.quantile(0.5))?;
        object.serialize_field("p90_ns", &self.quantile(0.9))?;
        object.serialize_field("p99_ns", &self.quantile(0.99))?;
        object.serialize_field("max_ns", &self.max())?;
        object.serialize_field("sum_ns", &self.sum_ns())?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2^(1/8) - 1, plus the rounding to whole nanoseconds at 60 ns.
    const ACCURACY: f64 = 0.092;

    fn of(latencies: &[u64]) -> GroupHistogram {
        let mut histogram = GroupHistogram::default();
        for &latency in latencies {
            histogram.record(Nanos(latency), 1);
        }
        histogram
    }

    #[test]
    fn slots_cover_everything_without_a_gap() {
        assert_eq!((range_ns(0).0, range_ns(SLOTS - 1).1), (0, u64::MAX));
        for slot in 1..SLOTS {
            assert_eq!(range_ns(slot).0, range_ns(slot - 1).1 + 1);
        }
        for latency in [0, 59, 60, 1_000, 64_000_000_000, 64_000_000_001, u64::MAX] {
            let (low, high) = range_ns(slot(latency));
            assert!((low..=high).contains(&latency), "{latency}");
        }
    }

    #[test]
    fn nothing_has_no_quantiles() {
        let nothing = GroupHistogram::from_counts(&[0; SLOTS], 0, 7);
        assert_eq!(nothing, GroupHistogram::default());
        assert_eq!((nothing.quantile(0.5), nothing.max()), (None, None));
    }

    #[test]
    fn the_last_is_exact() {
        let histogram = of(&[100, 5_000, 123_456_789]);
        assert_eq!(histogram.max(), Some(Nanos(123_456_789)));
        assert_eq!(histogram.quantile(0.99), histogram.max());
        assert_eq!(of(&[777, 777]).sum_ns(), 1_554);
    }

    proptest! {
        #[test]
        fn quantiles_keep_to_their_accuracy(
            before in prop::collection::vec(60_u64..64_000_000_000, 0..9),
            mut latencies in prop::collection::vec(60_u64..64_000_000_000, 1..200),
            q in 0.0..=1.0,
        ) {
            let earlier = of(&before);
            let mut histogram = of(&latencies);
            histogram.merge(&earlier);
            let histogram = histogram.since(&earlier);
            latencies.sort_unstable();
            let count = latencies.len() as u64;
            let rank = usize::try_from(histogram::rank(q, count)).unwrap();
            let exact = latencies[rank - 1] as f64;
            let told = histogram.quantile(q).unwrap().0 as f64;
            prop_assert!((told - exact).abs() <= ACCURACY * exact, "{told} for {exact}");
        }

        #[test]
        fn merged_is_as_if_counted_together(
            first in prop::collection::vec(any::<u64>(), 0..20),
            second in prop::collection::vec(any::<u64>(), 0..20),
        ) {
            let mut merged = of(&first);
            merged.merge(&of(&second));
            prop_assert_eq!(&merged, &of(&[first.as_slice(), &second].concat()));
            let since = merged.since(&of(&first));
            prop_assert_eq!(
                (since.count(), since.sum_ns()),
                (second.len() as u64, of(&second).sum_ns()),
            );
            if let (Some(&exact), Some(told)) = (second.iter().max(), since.max()) {
                prop_assert!(told.0 >= exact);
            }
        }
    }
}
