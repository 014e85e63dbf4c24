use proptest::prelude::*;

use super::*;

/// A natural number in base 2^32, lowest digit first: bounds to the eighth power have 300 bits.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Natural(Vec<u32>);

impl Natural {
    fn times(mut self, factor: u64) -> Self {
        let mut carry = 0_u128;
        for digit in &mut self.0 {
            let sum = u128::from(*digit) * u128::from(factor) + carry;
            *digit = u32::try_from(sum & 0xffff_ffff).unwrap();
            carry = sum >> 32;
        }
        while carry > 0 {
            self.0.push(u32::try_from(carry & 0xffff_ffff).unwrap());
            carry >>= 32;
        }
        self
    }

    fn eighth_power(base: u64) -> Self {
        (0..8).fold(Self(vec![1]), |power, _| power.times(base))
    }

    fn shifted_left(self, bits: u32) -> Self {
        (0..bits).fold(self, |number, _| number.times(2))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        // No number here has leading zeros.
        Some(
            self.0
                .len()
                .cmp(&other.0.len())
                .then_with(|| self.0.iter().rev().cmp(other.0.iter().rev())),
        )
    }
}

/// Test v ns ≤ 2^(i/8) s by the definition: v^8 ≤ (10^9)^8 × 2^i, in exact integers.
fn is_at_most(v: u64, index: i32) -> bool {
    let power = Natural::eighth_power(v);
    let second = Natural::eighth_power(1_000_000_000);
    if index < 0 {
        power.shifted_left(index.unsigned_abs()) <= second
    } else {
        power <= second.shifted_left(index.unsigned_abs())
    }
}

/// The slot by the definition: how many bounds are below.
fn slot_by_search(ns: u64) -> usize {
    UPPER_BOUNDS_NS.partition_point(|&bound| bound < ns)
}

#[test]
fn bounds_are_the_powers_of_the_eighth_root_of_two() {
    for (index, &bound) in (MIN_INDEX - 1..).zip(&UPPER_BOUNDS_NS[..OVERFLOW_SLOT]) {
        assert!(is_at_most(bound, index), "index {index}");
        assert!(!is_at_most(bound + 1, index), "index {index}");
    }
    assert_eq!(UPPER_BOUNDS_NS[OVERFLOW_SLOT], u64::MAX);
}

#[test]
fn the_ends_of_the_layout_are_at_the_documented_bounds() {
    assert_eq!(UPPER_BOUNDS_NS[ZERO_SLOT], 59);
    assert_eq!((slot(0), slot(59), slot(60)), (0, 0, 1));
    assert_eq!(index(1), Some(MIN_INDEX));
    assert_eq!(slot(1_000_000_000), 192);
    assert_eq!(index(192), Some(0));
    assert_eq!(index(240), Some(MAX_INDEX));
    assert_eq!(
        (slot(64_000_000_000), slot(64_000_000_001), slot(u64::MAX)),
        (240, 241, 241)
    );
    assert_eq!(
        (index(ZERO_SLOT), index(OVERFLOW_SLOT), index(BUCKETS)),
        (None, None, None)
    );
    assert_eq!(ZERO_THRESHOLD_SECONDS, 2_f64.powi(-24));
    assert_eq!(
        (1_u32 << SCHEMA, usize::try_from(MAX_INDEX - MIN_INDEX + 1)),
        (8, Ok(BUCKETS - 2))
    );
}

#[test]
fn slot_agrees_with_the_search_around_every_bound() {
    for bound in UPPER_BOUNDS_NS {
        for ns in [bound - 1, bound, bound.saturating_add(1)] {
            assert_eq!(slot(ns), slot_by_search(ns), "{ns} ns");
        }
    }
    for octave in 0..64 {
        for part in 16..32_u64 {
            let start = if octave >= 4 {
                part << (octave - 4)
            } else {
                part >> (4 - octave)
            };
            for ns in [start.saturating_sub(1), start, start + 1] {
                assert_eq!(slot(ns), slot_by_search(ns), "{ns} ns");
            }
        }
    }
}

#[test]
fn slot_agrees_with_the_search_up_to_100_us() {
    for ns in 0..100_000 {
        assert_eq!(slot(ns), slot_by_search(ns), "{ns} ns");
    }
}

#[test]
fn ranges_cover_every_nanosecond_once() {
    assert_eq!(range_ns(ZERO_SLOT), (0, 59));
    for slot in 1..BUCKETS {
        assert_eq!(range_ns(slot).0, range_ns(slot - 1).1 + 1);
    }
}

#[test]
fn middles_are_within_four_and_a_half_percent_of_their_bucket() {
    for slot in 1..OVERFLOW_SLOT {
        let (low, high) = range_ns(slot);
        let middle = u64::try_from(middle(low.into(), high.into())).unwrap();
        for end in [low, high] {
            let error = middle.abs_diff(end) as f64 / end as f64;
            assert!(error <= 0.045, "{end} ns: {error}");
        }
    }
}

#[test]
fn latencies_close_together_give_quantiles_close_to_them() {
    let mut histogram = Histogram::new();
    // The bucket goes from 28.7 to 31.2 ms: its middle is 29.9 ms, its mean 30.1 ms.
    for ns in (30_050_000..30_150_000).step_by(1_000) {
        histogram.record(Nanos(ns), 1);
    }
    histogram.record(Nanos(28_700_000), 1);
    histogram.record(Nanos(31_000_000), 1);
    let median = histogram.quantile(0.5).unwrap();
    assert!((30_000_000..30_400_000).contains(&median.0), "{median}");
    assert_eq!(histogram.quantile(0.0), Some(Nanos(28_700_000)));
    assert_eq!(histogram.quantile(1.0), Some(Nanos(31_000_000)));
}

#[test]
fn nothing_has_no_quantile() {
    let mut histogram = Histogram::new();
    histogram.record(Nanos(1), 0);
    assert_eq!(
        (histogram.count(), histogram.max(), histogram.quantile(0.5)),
        (0, None, None)
    );
}

#[test]
fn quantiles_outside_the_exponential_buckets_are_recorded_values() {
    let mut histogram = Histogram::new();
    histogram.record(Nanos(20), 9);
    assert_eq!(histogram.quantile(0.5), Some(Nanos(20)));
    histogram.record(Nanos(59), 1);
    histogram.record(Nanos::from_secs(70), 80);
    histogram.record(Nanos::from_secs(100), 10);
    assert_eq!(histogram.quantile(0.1), Some(Nanos(59)));
    let overflow = histogram.quantile(0.5).unwrap();
    assert!((Nanos::from_secs(70)..Nanos::from_secs(100)).contains(&overflow));
    assert_eq!(histogram.quantile(1.0), Some(Nanos::from_secs(100)));
    assert_eq!(histogram.sum_ns(), 9 * 20 + 59 + 6_600_000_000_000);
}

#[test]
fn ranks_are_those_of_decimal_shares() {
    for count in 1..2_000_u64 {
        for permille in 0..=1_000_u64 {
            let exact = (permille * count).div_ceil(1_000).max(1);
            assert_eq!(
                rank(permille as f64 / 1_000.0, count),
                exact,
                "{permille} of {count}"
            );
        }
    }
    assert_eq!((rank(-1.0, 5), rank(2.0, 5), rank(f64::NAN, 5)), (1, 5, 1));
}

#[test]
fn a_copy_taken_half_way_through_an_update_stays_within_its_slot() {
    let half_way = |max_ns| {
        Histogram::from_buckets(|slot| Bucket {
            count: u64::from(slot == 192) * 2,
            sum_ns: 5,
            min_ns: 0,
            max_ns,
        })
    };
    let (low, high) = range_ns(192);
    assert_eq!(half_way(10).max(), Some(Nanos(low)));
    assert_eq!(half_way(999_999_999).max(), Some(Nanos(999_999_999)));
    assert_eq!(half_way(u64::MAX).max(), Some(Nanos(high)));
    assert_eq!(half_way(10).quantile(0.5), Some(Nanos(low)));
    assert_eq!(half_way(10).count(), 2);
}

#[test]
fn a_shortest_latency_that_was_not_kept_is_not_known() {
    let counted = |latencies: &[u64]| {
        let mut histogram = Histogram::new();
        for &latency in latencies {
            histogram.record(Nanos(latency), 1);
        }
        histogram
    };
    assert_eq!(counted(&[40, 500]).min(), Some(Nanos(40)));
    let mut kept = counted(&[40, 500]).without_zero_min();
    assert_eq!((kept.min(), kept.max()), (None, Some(Nanos(500))));
    // No latency of the bucket was counted, in all or in the meantime.
    assert_eq!(counted(&[500]).without_zero_min().min(), Some(Nanos(500)));
    let earlier = kept.clone();
    kept.merge(&counted(&[600]));
    assert_eq!(kept.min(), None);
    assert!(kept.since(&earlier).min().is_some());
    let mut exact = counted(&[30]);
    exact.merge(&kept);
    assert_eq!(exact.min(), None);
}

/// Compute the header's values back from its text.
#[test]
fn c_header_holds_the_tables() {
    let text = c_header();
    assert!(text.starts_with("/* SPDX-License-Identifier: GPL-2.0-only */\n/* Generated "));
    assert!(text.contains("\n#define HISTOGRAM_OCTAVE_BASE (-47)\n"));
    let table = |name: &str| -> Vec<u64> {
        let body = text
            .split_once(name)
            .unwrap()
            .1
            .split_once("] = {\n\t")
            .unwrap()
            .1;
        let body = body.split_once(",\n};").unwrap().0;
        body.split(',')
            .map(|number| number.trim().trim_end_matches("ULL").parse().unwrap())
            .collect()
    };
    assert_eq!(
        table("static const __u64 histogram_bounds[242"),
        UPPER_BOUNDS_NS
    );
    assert_eq!(
        table("static const __u8 histogram_octave[16"),
        OCTAVE_SLOTS.map(u64::from)
    );
}

/// Latencies of 60 ns to 60 s, equally likely in every octave.
fn latency() -> impl Strategy<Value = u64> {
    (0.0..1.0_f64).prop_map(|share| {
        let nanos = 60.0 * 1e9_f64.powf(share);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "60 to 6e10"
        )]
        let nanos = nanos as u64;
        nanos
    })
}

proptest! {
    #[test]
    fn slot_agrees_with_the_search(ns in any::<u64>(), shift in 0..64_u32) {
        prop_assert_eq!(slot(ns >> shift), slot_by_search(ns >> shift));
    }

    #[test]
    fn slot_agrees_with_the_definition(ns in 60_u64..=64_000_000_000, shift in 0..30_u32) {
        let ns = (ns >> shift).max(60);
        let index = index(slot(ns)).unwrap();
        prop_assert!(is_at_most(ns, index) && !is_at_most(ns, index - 1));
    }

    #[test]
    fn quantiles_are_within_four_and_a_half_percent(
        mut latencies in prop::collection::vec((latency(), 1..20_u64), 1..200),
        permille in 0..=1_000_u64,
    ) {
        let mut histogram = Histogram::new();
        for &(ns, weight) in &latencies {
            histogram.record(Nanos(ns), weight);
        }
        latencies.sort_unstable();
        let sorted: Vec<u64> =
            latencies.iter().flat_map(|&(ns, weight)| (0..weight).map(move |_| ns)).collect();
        let rank = (usize::try_from(permille).unwrap() * sorted.len()).div_ceil(1_000).max(1);
        let exact = sorted[rank - 1];
        let found = histogram.quantile(permille as f64 / 1_000.0).unwrap().0;
        prop_assert_eq!(usize::try_from(histogram.count()).unwrap(), sorted.len());
        prop_assert_eq!(histogram.sum_ns(), sorted.iter().map(|&ns| u128::from(ns)).sum::<u128>());
        prop_assert_eq!(histogram.max(), sorted.last().copied().map(Nanos));
        prop_assert!(found.abs_diff(exact) as f64 <= 0.045 * exact as f64, "{} for {}", found, exact);
    }

    /// All in one bucket: the worst case of the bound.
    #[test]
    fn quantiles_within_one_bucket_are_within_four_and_a_half_percent(
        slot in 1..OVERFLOW_SLOT,
        parts in prop::collection::vec((0.0..=1.0_f64, 1..20_u64), 1..60),
        permille in 0..=1_000_u64,
    ) {
        let (low, high) = range_ns(slot);
        let mut histogram = Histogram::new();
        let mut sorted = Vec::new();
        for (part, weight) in parts {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bucket")]
            let ns = (low + ((high - low) as f64 * part) as u64).min(high);
            histogram.record(Nanos(ns), weight);
            sorted.extend((0..weight).map(|_| ns));
        }
        sorted.sort_unstable();
        let rank = (usize::try_from(permille).unwrap() * sorted.len()).div_ceil(1_000).max(1);
        let exact = sorted[rank - 1];
        let found = histogram.quantile(permille as f64 / 1_000.0).unwrap().0;
        prop_assert!(found.abs_diff(exact) as f64 <= 0.045 * exact as f64, "{} for {}", found, exact);
    }

    #[test]
    fn quantiles_do_not_fall(
        latencies in prop::collection::vec(any::<u64>(), 1..50),
        p in 0.0..1.0,
        q in 0.0..1.0,
    ) {
        let mut histogram = Histogram::new();
        for (ns, shift) in latencies.into_iter().zip((0..64).cycle()) {
            histogram.record(Nanos(ns >> shift), 1);
        }
        let (low, high) = if p < q { (p, q) } else { (q, p) };
        prop_assert!(histogram.quantile(low) <= histogram.quantile(high));
        prop_assert!(histogram.quantile(high) <= histogram.max());
    }

    #[test]
    fn merging_is_recording_together(
        left in prop::collection::vec((latency(), 1..9_u64), 0..50),
        right in prop::collection::vec((latency(), 1..9_u64), 0..50),
    ) {
        let count = |latencies: &[(u64, u64)]| {
            let mut histogram = Histogram::new();
            for &(ns, weight) in latencies {
                histogram.record(Nanos(ns), weight);
            }
            histogram
        };
        let mut merged = count(&left);
        merged.merge(&count(&right));
        let together = count(&[left, right].concat());
        prop_assert_eq!(&Histogram::from_buckets(|slot| merged.buckets()[slot]), &together);
        prop_assert_eq!(merged, together);
    }
}
