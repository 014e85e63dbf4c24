//! The bucket layout of every latency distribution, shared with the kernel side.
//!
//! The buckets are those of Prometheus native histograms and of OpenTelemetry exponential histograms with schema
//! (scale) 3: eight a power of two, **in seconds**, since both require base units. Bucket `i` covers
//! (2^((i-1)/8), 2^(i/8)] s. So a distribution is exported as it was counted, without resampling.
//!
//! | slot | bucket | covers |
//! |---|---|---|
//! | 0 | zero bucket | 0 to 59 ns (2^-24 s, the `zero_threshold`) |
//! | 1 to 240 | index [`MIN_INDEX`] to [`MAX_INDEX`] | 60 ns to 64 s |
//! | 241 | overflow | above 64 s |
//!
//! Latencies are whole nanoseconds, so the bound 2^(i/8) s becomes floor(10^9 × 2^(i/8)) ns without moving any
//! of them to another bucket.
//!
//! **Finding the slot without a search**: the bounds halve and double exactly, so they sit at the same place of
//! every octave [2^e, 2^(e+1)) ns. Cut into 16 equal parts, an octave has at most one bound a part: the widest
//! part is log2(17/16) = 0.087 of an octave, the bounds are 0.125 apart. The part, which is the four bits behind
//! the leading one, thus gives the slot up to one comparison:
//!
//! ```text
//! e = floor(log2(v))
//! s = clamp(OCTAVE_BASE + 8 * e + OCTAVE_SLOTS[four bits behind the leading one], 0, OVERFLOW_SLOT)
//! if v > UPPER_BOUNDS_NS[s]: s = s + 1
//! ```
//!
//! Sources: Prometheus, "Native Histograms", section "Data model" (schemas, zero bucket, inclusive upper bounds);
//! OpenTelemetry, "Metrics Data Model", section "ExponentialHistogram" (scale, `zero_threshold`).

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

/// What [`Histogram::quantile`] gives for a latency in the zero bucket: its middle, at most 30 ns off.
pub const ZERO_BUCKET_VALUE: Nanos = Nanos(30);

/// Upper bound of every slot in nanoseconds, inclusive: slot `s` holds what is at most this and above the bound
/// of slot `s - 1`. The overflow has no bound; its entry is `u64::MAX`.
pub const UPPER_BOUNDS_NS: [u64; BUCKETS] = upper_bounds();

/// For each sixteenth of an octave of nanoseconds, how many bounds lie in the octave before it.
pub const OCTAVE_SLOTS: [u8; 16] = octave_slots();

/// What `8 * e + OCTAVE_SLOTS[part]` is moved by to give a slot. Negative, since slot 0 ends in the octave of
/// 2^5 ns.
pub const OCTAVE_BASE: i32 = octave_base();

const PER_OCTAVE: usize = 8;

/// Slot of bucket 0, whose upper bound is 1 s.
const SLOT_OF_INDEX_0: i32 = 1 - MIN_INDEX;

#[expect(clippy::cast_possible_truncation, reason = "the largest bound is 64e9")]
const fn upper_bounds() -> [u64; BUCKETS] {
    /// floor(2^(k/8) × 2^63). 94 bits of 10^9 times it are exact enough: see the test against exact integers.
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

/// The index of an exponential bucket as Prometheus and OpenTelemetry count it (OpenTelemetry's is this minus 1,
/// since it names a bucket by its lower bound); `None` for the zero bucket and the overflow.
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
         /*\n \
         * The slot of v ns, with e the index of its highest set bit and m the four bits behind that:\n \
         * s = HISTOGRAM_OCTAVE_BASE + 8 * e + histogram_octave[m], clamped to 0 .. HISTOGRAM_SLOTS - 1;\n \
         * s + 1 if v > histogram_bounds[s].\n \
         */\n",
    );
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "#define HISTOGRAM_SLOTS {BUCKETS}\n#define HISTOGRAM_OCTAVE_BASE ({OCTAVE_BASE})\n\n\
         /* Upper bounds in nanoseconds, inclusive. */\n\
         static const __u64 histogram_bounds[{BUCKETS}] = {{\n"
    );
    for row in UPPER_BOUNDS_NS.chunks(PER_OCTAVE) {
        let row: Vec<String> = row.iter().map(|bound| format!("{bound}ULL,")).collect();
        let _ = writeln!(text, "\t{}", row.join(" "));
    }
    text.push_str("};\n\nstatic const __u8 histogram_octave[16] = {\n");
    let row: Vec<String> = OCTAVE_SLOTS.iter().map(|slots| format!("{slots},")).collect();
    let _ = writeln!(text, "\t{}\n}};\n\n#endif", row.join(" "));
    text
}

/// A distribution of latencies, every one counted with its weight.
///
/// Counts and sum **saturate**.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    sum_ns: u128,
    max_ns: u64,
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
        Self {
            buckets: Box::new([0; BUCKETS]),
            sum_ns: 0,
            max_ns: 0,
        }
    }

    /// A histogram that was counted elsewhere: the counts of all slots, the weighted sum of the latencies and
    /// the largest of them.
    ///
    /// Such a copy may have been taken between the counting of a latency and the updating of the maximum. A
    /// maximum below the highest slot that is not empty is therefore raised to where that slot begins.
    #[must_use]
    pub fn from_parts(buckets: &[u64; BUCKETS], sum_ns: u128, max: Nanos) -> Self {
        let reached = buckets
            .iter()
            .rposition(|&count| count > 0)
            .map_or(0, |slot| range_ns(slot).0);
        Self {
            buckets: Box::new(*buckets),
            sum_ns,
            max_ns: max.0.max(reached),
        }
    }

    /// Counts a latency as `weight` messages; a weight of 0 changes nothing.
    pub fn record(&mut self, latency: Nanos, weight: u64) {
        if weight == 0 {
            return;
        }
        let count = &mut self.buckets[slot(latency.0)];
        *count = count.saturating_add(weight);
        self.sum_ns = self
            .sum_ns
            .saturating_add(u128::from(latency.0) * u128::from(weight));
        self.max_ns = self.max_ns.max(latency.0);
    }

    /// Adds everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *count = count.saturating_add(*more);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The count of every slot.
    #[must_use]
    pub fn buckets(&self) -> &[u64; BUCKETS] {
        &self.buckets
    }

    /// How many messages were counted, by weight: the sum of the buckets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(|&count| count == 0)
    }

    /// The weighted sum of the latencies in nanoseconds, exact.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The largest latency, exact; `None` if nothing was counted.
    #[must_use]
    pub fn max(&self) -> Option<Nanos> {
        (!self.is_empty()).then_some(Nanos(self.max_ns))
    }

    /// The latency that the share `q` of the messages does not exceed; `None` if nothing was counted.
    ///
    /// `q` goes from 0 to 1 and is clamped to that. The answer is the message of rank ceil(`q` × count), at least
    /// 1, in order of latency, known as closely as its bucket tells:
    ///
    /// - the last rank is the maximum, exact;
    /// - between 60 ns and 64 s, the geometric middle of the bucket's whole nanoseconds, rounded to one of them:
    ///   at most 2^(1/16) - 1 = 4.43 % off, with the rounding 4.5 %;
    /// - up to 59 ns, [`ZERO_BUCKET_VALUE`];
    /// - above 64 s, the maximum, since the overflow has no upper bound.
    ///
    /// Nothing exceeds the maximum.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = rank(q, count);
        let mut reached = 0_u64;
        let slot = self.buckets.iter().position(|&bucket| {
            reached = reached.saturating_add(bucket);
            reached >= rank
        })?;
        let value = match slot {
            _ if rank == count => self.max_ns,
            ZERO_SLOT => ZERO_BUCKET_VALUE.0,
            OVERFLOW_SLOT => self.max_ns,
            _ => middle_ns(slot),
        };
        Some(Nanos(value.min(self.max_ns)))
    }
}

/// ceil(q × count), from 1 to count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the product is not negative, and casts from floats saturate"
)]
fn rank(q: f64, count: u64) -> u64 {
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

fn middle_ns(slot: usize) -> u64 {
    let (low, high) = range_ns(slot);
    // isqrt rounds down; half of the root of four times as much, rounded up, is rounded to nearest.
    let product = u128::from(low) * u128::from(high);
    u64::try_from((4 * product).isqrt().div_ceil(2)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
