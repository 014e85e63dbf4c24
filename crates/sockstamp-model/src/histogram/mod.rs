//! The bucket layout of every latency distribution, shared with the kernel side.
//!
//! The buckets are those of Prometheus native histograms and of OpenTelemetry exponential
//! histograms with schema (scale) 3: eight per power of two, **in seconds**, since both require
//! base units. Bucket `i` covers (2^((i-1)/8), 2^(i/8)] s. So a distribution is exported as it was
//! counted, without resampling.
//!
//! | slot | bucket | covers |
//! |---|---|---|
//! | 0 | zero bucket | 0 to 59 ns (2^-24 s, the `zero_threshold`) |
//! | 1 to 240 | index [`MIN_INDEX`] to [`MAX_INDEX`] | 60 ns to 64 s |
//! | 241 | overflow | above 64 s |
//!
//! Latencies are whole nanoseconds, so the bound 2^(i/8) s becomes floor(10^9 × 2^(i/8)) ns without
//! moving any of them to another bucket.
//!
//! **Finding the slot without a search**: the bounds halve and double exactly, so they sit at the
//! same place of every octave [2^e, 2^(e+1)) ns. Cut into 16 equal parts, an octave has at most one
//! bound per part: the widest part is log2(17/16) = 0.087 of an octave, the bounds are 0.125 apart.
//! The part, which is the four bits after the leading one, therefore gives the slot up to one
//! comparison:
//!
//! ```text
//! e = floor(log2(v)) s = clamp(OCTAVE_BASE + 8 * e + OCTAVE_SLOTS[four bits after the leading
//! one], 0, OVERFLOW_SLOT) if v > UPPER_BOUNDS_NS[s]: s = s + 1
//! ```
//!
//! Sources: Prometheus, "Native Histograms", section "Data model" (schemas, zero bucket, inclusive
//! upper bounds); OpenTelemetry, "Metrics Data Model", section "ExponentialHistogram" (scale,
//! `zero_threshold`).

use std::fmt::Write as _;

use crate::clock::Nanos;

/// The Prometheus schema, which is the OpenTelemetry scale: 2^3 buckets a power of two.
pub const SCHEMA: i32 = 3;

/// Index of the lowest exponential bucket, with the upper bound 2^-23.875 s = 64 ns.
pub const MIN_INDEX: i32 = -191;

/// Index of the highest exponential bucket, with the upper bound 2^6 s = 64 s.
pub const MAX_INDEX: i32 = 48;

/// Slots of a histogram: the zero bucket, 240 exponential buckets and the overflow.
pub const BUCKETS: usize = 242;

/// Slot of the latencies up to the zero threshold.
pub const ZERO_SLOT: usize = 0;

/// Slot of the latencies above 64 s.
pub const OVERFLOW_SLOT: usize = BUCKETS - 1;

/// Upper bound of the zero bucket, 2^-24, in seconds.
pub const ZERO_THRESHOLD_SECONDS: f64 = 1.0 / 16_777_216.0;

/// Upper bound of every slot in nanoseconds, inclusive: slot `s` holds values up to this and above
/// the bound of slot `s - 1`. The overflow has no bound; its element is `u64::MAX`.
pub const UPPER_BOUNDS_NS: [u64; BUCKETS] = upper_bounds();

/// Number of bounds in the octave before each sixteenth of an octave of nanoseconds.
pub const OCTAVE_SLOTS: [u8; 16] = octave_slots();

/// The offset from `8 * e + OCTAVE_SLOTS[part]` to the slot. Negative, because slot 0 ends in the
/// octave of 2^5 ns.
pub const OCTAVE_BASE: i32 = octave_base();

const PER_OCTAVE: usize = 8;

/// Slot of bucket 0, whose upper bound is 1 s.
const SLOT_OF_INDEX_0: i32 = 1 - MIN_INDEX;

#[expect(clippy::cast_possible_truncation, reason = "the largest bound is 64e9")]
const fn upper_bounds() -> [u64; BUCKETS] {
    /// floor(2^(k/8) × 2^63). 94 bits of 10^9 times it are exact enough: see the test against exact
    /// integers.
    const ROOTS: [u64; PER_OCTAVE] = [
        0x8000_0000_0000_0000,
        0x8b95_c1e3_ea8b_d6e6,
        0x9837_f051_8db8_a96f,
        0xa5fe_d6a9_b151_38ea,
        0xb504_f333_f9de_6484,
        0xc567_2a11_5506_dadd,
        0xd744_fcca_d69d_6af4,
        0xeac0_c6e7_dd24_392e,
    ];
    let mut bounds = [u64::MAX; BUCKETS];
    let mut slot = 0;
    while slot < OVERFLOW_SLOT {
        // Slot 0 is 2^-24 s: 24 octaves below a second.
        let octaves_up = slot / PER_OCTAVE;
        let nanos = 1_000_000_000 * ROOTS[slot % PER_OCTAVE] as u128;
        bounds[slot] = (nanos >> (63 + 24 - octaves_up)) as u64;
        slot += 1;
    }
    bounds
}

/// The octave of nanoseconds that ends with 2^30; any other has its bounds at the same places.
const OCTAVE_EXPONENT: u32 = 29;

const fn bounds_below(nanos: u64) -> usize {
    let mut slot = 0;
    while UPPER_BOUNDS_NS[slot] < nanos {
        slot += 1;
    }
    slot
}

#[expect(clippy::cast_possible_truncation, reason = "an octave has 8 bounds")]
const fn octave_slots() -> [u8; 16] {
    let before = bounds_below(1 << OCTAVE_EXPONENT);
    let mut slots = [0; 16];
    let mut part = 0;
    while part < slots.len() {
        let start = (16 + part as u64) << (OCTAVE_EXPONENT - 4);
        slots[part] = (bounds_below(start) - before) as u8;
        part += 1;
    }
    slots
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers of slots"
)]
const fn octave_base() -> i32 {
    bounds_below(1 << OCTAVE_EXPONENT) as i32 - (PER_OCTAVE as u32 * OCTAVE_EXPONENT) as i32
}

/// The slot of a latency in nanoseconds, for every `u64`; the kernel side computes the same.
#[must_use]
pub fn slot(ns: u64) -> usize {
    // 0 has no leading one; it shares the slot of 1.
    let ns = ns.max(1);
    let exponent = ns.ilog2();
    let part = usize::try_from((ns << (63 - exponent)) >> 59 & 0xf).unwrap_or(0);
    let candidate = OCTAVE_BASE
        .saturating_add_unsigned(8 * exponent)
        .saturating_add(i32::from(OCTAVE_SLOTS[part]));
    let slot = usize::try_from(candidate).unwrap_or(0).min(OVERFLOW_SLOT);
    slot + usize::from(ns > UPPER_BOUNDS_NS[slot])
}

/// The index of an exponential bucket as Prometheus and OpenTelemetry count it (OpenTelemetry's is
/// this minus 1, since it names a bucket by its lower bound); `None` for the zero bucket and the
/// overflow.
#[must_use]
pub fn index(slot: usize) -> Option<i32> {
    (slot != ZERO_SLOT && slot < OVERFLOW_SLOT)
        .then(|| i32::try_from(slot).ok())?
        .map(|s| s - SLOT_OF_INDEX_0)
}

/// The lowest and the highest whole nanosecond of a slot.
///
/// # Panics
///
/// If `slot` is not below [`BUCKETS`].
#[must_use]
pub fn range_ns(slot: usize) -> (u64, u64) {
    let low = match slot {
        ZERO_SLOT => 0,
        _ => UPPER_BOUNDS_NS[slot - 1] + 1,
    };
    (low, UPPER_BOUNDS_NS[slot])
}

/// `histogram_bounds.h`: the tables for the kernel side, as text.
#[must_use]
pub fn c_header() -> String {
    let mut text = String::from(
        "/* SPDX-License-Identifier: GPL-2.0-only */\n\
         /* Generated by sockstamp_model::histogram::c_header(); do not edit. */\n\
         #ifndef SOCKSTAMP_HISTOGRAM_BOUNDS_H\n\
         #define SOCKSTAMP_HISTOGRAM_BOUNDS_H\n\n\
         #include \"lists.h\"\n\n\
         /*\n \
         * The slot of v ns, with e the index of its highest set bit and m the four bits behind that:\n \
         * s = HISTOGRAM_OCTAVE_BASE + 8 * e + histogram_octave[m], clamped to 0 .. HISTOGRAM_SLOTS - 1;\n \
         * s + 1 if v > histogram_bounds[s].\n \
         */\n",
    );
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "#define HISTOGRAM_OCTAVE_BASE ({OCTAVE_BASE})\n\n\
         /* Upper bounds in nanoseconds, inclusive. */\n\
         static const __u64 histogram_bounds[{BUCKETS}] = {{\n"
    );
    for row in UPPER_BOUNDS_NS.chunks(PER_OCTAVE) {
        let row: Vec<String> = row.iter().map(|bound| format!("{bound}ULL,")).collect();
        let _ = writeln!(text, "\t{}", row.join(" "));
    }
    text.push_str("};\n\nstatic const __u8 histogram_octave[16] = {\n");
    let row: Vec<String> = OCTAVE_SLOTS
        .iter()
        .map(|slots| format!("{slots},"))
        .collect();
    let _ = writeln!(text, "\t{}\n}};\n\n#endif", row.join(" "));
    text
}

/// The latencies of a slot. The sum and the extremes, kept with the exported count, narrow down the
/// position of a quantile in the bucket.
///
/// Counts and sums **saturate**.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bucket {
    /// Messages, by weight.
    pub count: u64,
    /// Sum of their latencies, by weight, in nanoseconds.
    pub sum_ns: u128,
    /// The shortest of them, in nanoseconds; 0 if there is none.
    pub min_ns: u64,
    /// The longest of them, in nanoseconds; 0 if there is none.
    pub max_ns: u64,
}

impl Bucket {
    fn record(&mut self, ns: u64, weight: u64) {
        self.merge(&Self {
            count: weight,
            sum_ns: u128::from(ns) * u128::from(weight),
            min_ns: ns,
            max_ns: ns,
        });
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 {
            other.min_ns
        } else {
            self.min_ns.min(other.min_ns)
        };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            ..*self
        }
    }

    /// The bucket with its ends brought into the slot's range, where a copy was taken half way
    /// through an update.
    fn within(self, slot: usize) -> Self {
        let (low, high) = range_ns(slot);
        let max_ns = self.max_ns.clamp(low, high);
        let min_ns = self.min_ns.clamp(low, max_ns);
        if self.count == 0 {
            Self::default()
        } else {
            Self {
                min_ns,
                max_ns,
                ..self
            }
        }
    }

    /// The latency of this rank (from 1) among those of the bucket: the geometric middle of the
    /// interval that count, sum and ends leave for it.
    fn estimate(&self, rank: u64) -> u64 {
        let (low, high) = (u128::from(self.min_ns), u128::from(self.max_ns));
        let (below, above) = (u128::from(rank - 1), u128::from(self.count - rank));
        if below == 0 {
            return self.min_ns;
        }
        if above == 0 {
            return self.max_ns;
        }
        // Bound the quantile: one latency is the shortest, those above are at most the longest, so
        // the sum leaves this much for the others up to the rank; and vice versa.
        let least = self
            .sum_ns
            .saturating_sub(low + above * high)
            .div_ceil(below);
        let most = self.sum_ns.saturating_sub(high + below * low) / above;
        let (least, most) = (least.clamp(low, high), most.clamp(low, high));
        u64::try_from(middle(least.min(most), most.max(least))).unwrap_or(u64::MAX)
    }
}

/// The geometric middle, rounded to nearest; of the zero bucket, where a factor may be 0, the
/// arithmetic one.
pub(crate) fn middle(low: u128, high: u128) -> u128 {
    if low == 0 {
        return high.div_ceil(2);
    }
    // isqrt rounds down; half of the root of four times as much, rounded up, is rounded to nearest.
    low.checked_mul(high)
        .and_then(|product| product.checked_mul(4))
        .map_or(high, |product| product.isqrt().div_ceil(2))
}

/// A distribution of latencies, every one counted with its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[Bucket; BUCKETS]>,
    /// True if latencies of the zero bucket were counted without the shortest of them.
    lacks_zero_min: bool,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// A histogram of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::from_buckets(|_| Bucket::default())
    }

    /// A histogram that was counted elsewhere, by slot. The copy may have been taken in the middle
    /// of an update: extremes outside their slot are moved to its border.
    #[must_use]
    pub fn from_buckets(mut bucket: impl FnMut(usize) -> Bucket) -> Self {
        Self {
            buckets: Box::new(std::array::from_fn(|slot| bucket(slot).within(slot))),
            lacks_zero_min: false,
        }
    }

    /// The same, counted by one who keeps no shortest latency of the zero bucket.
    #[must_use]
    pub fn without_zero_min(self) -> Self {
        Self {
            lacks_zero_min: self.buckets[ZERO_SLOT].count > 0,
            ..self
        }
    }

    /// Count a latency as `weight` messages; a weight of 0 changes nothing.
    pub fn record(&mut self, latency: Nanos, weight: u64) {
        self.buckets[slot(latency.0)].record(latency.0, weight);
    }

    /// Add everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            bucket.merge(more);
        }
        self.lacks_zero_min |= other.lacks_zero_min;
    }

    /// Return the counts since an earlier snapshot of the same distribution. The extremes of a
    /// bucket are those of all time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let buckets = |slot: usize| self.buckets[slot].since(&earlier.buckets[slot]);
        let since = Self::from_buckets(buckets);
        if self.lacks_zero_min {
            since.without_zero_min()
        } else {
            since
        }
    }

    /// The bucket of every slot.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket; BUCKETS] {
        &self.buckets
    }

    /// Return the number of messages, by weight.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, bucket| sum.saturating_add(bucket.count))
    }

    /// Return true if nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.count == 0)
    }

    /// The weighted sum of the latencies in nanoseconds, exact.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.buckets
            .iter()
            .fold(0, |sum, bucket| sum.saturating_add(bucket.sum_ns))
    }

    /// The shortest latency, exact; `None` if nothing was counted, or if it is one of the zero
    /// bucket that was counted without the shortest.
    #[must_use]
    pub fn min(&self) -> Option<Nanos> {
        if self.lacks_zero_min {
            return None;
        }
        let lowest = self.buckets.iter().find(|bucket| bucket.count > 0)?;
        Some(Nanos(lowest.min_ns))
    }

    /// The weighted mean, rounded down; `None` if nothing was counted.
    #[must_use]
    pub fn mean(&self) -> Option<Nanos> {
        mean(self.sum_ns(), self.count())
    }

    /// The largest latency, exact; `None` if nothing was counted.
    #[must_use]
    pub fn max(&self) -> Option<Nanos> {
        let highest = self.buckets.iter().rfind(|bucket| bucket.count > 0)?;
        Some(Nanos(highest.max_ns))
    }

    /// The latency that the share `q` of the messages does not exceed; `None` if nothing was
    /// counted.
    ///
    /// `q` goes from 0 to 1 and is clamped to that. The answer is the message of rank ceil(`q` ×
    /// count), at least 1, in order of latency. The bucket's count, sum, shortest and longest
    /// latency leave an interval for it; the answer is the geometric middle of that interval. The
    /// first and the last of a bucket are exact.
    ///
    /// Between 60 ns and 64 s, no answer is more than 2^(1/16) - 1 = 4.43 % off, with the rounding
    /// to whole nanoseconds 4.5 %: half of a bucket, where nothing narrows it down.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let mut rank = rank(q, count);
        for bucket in self.buckets.iter() {
            if rank <= bucket.count {
                return Some(Nanos(bucket.estimate(rank)));
            }
            rank -= bucket.count;
        }
        self.max()
    }
}

/// Return the mean of `count` latencies, rounded down; `None` of none.
#[must_use]
pub fn mean(sum_ns: u128, count: u64) -> Option<Nanos> {
    let mean = sum_ns.checked_div(count.into())?;
    Some(Nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
}

/// ceil(q × count), from 1 to count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the product is not negative, and casts from floats saturate"
)]
pub(crate) fn rank(q: f64, count: u64) -> u64 {
    let product = q.clamp(0.0, 1.0) * count as f64;
    // 0.07 × 100 is 7.000000000000001 in binary, but means rank 7.
    let nearest = product.round();
    let rank = if (product - nearest).abs() <= 4.0 * f64::EPSILON * product {
        nearest
    } else {
        product.ceil()
    };
    (rank as u64).clamp(1, count)
}

#[cfg(test)]
mod tests;
