use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Counters of a relay since its creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayStatistics {
    /// Packets sent by host a.
    pub a_to_b: DirectionStatistics,
    /// Packets sent by host b.
    pub b_to_a: DirectionStatistics,
}

impl RelayStatistics {
    /// Return the difference to `earlier`, taken from the same link.
    pub fn since(&self, earlier: &RelayStatistics) -> RelayStatistics {
        RelayStatistics {
            a_to_b: self.a_to_b.since(&earlier.a_to_b),
            b_to_a: self.b_to_a.since(&earlier.b_to_a),
        }
    }
}

/// One direction of a relay. Packets are counted as the relay sees them: with offload one can carry
/// many segments. Multicast is only in `ignored`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionStatistics {
    /// Packets taken from the sender, whatever became of them.
    pub received: u64,
    /// Packets delivered, duplicates included.
    pub packets: u64,
    /// Bytes delivered, from the IP header on.
    pub bytes: u64,
    /// Packets dropped because the configuration asks for loss.
    pub lost: u64,
    /// Packets held back because the configuration asks for reordering.
    pub held_back: u64,
    /// Packets delivered after one that had arrived later.
    pub reordered: u64,
    /// Second copies made because the configuration asks for duplication.
    pub duplicated: u64,
    /// Packets dropped because the queue before the configured line rate was full.
    pub queue_drops: u64,
    /// Packets the sender's interface dropped because the relay did not take them in time.
    pub device_drops: u64,
    /// Packets the receiver's interface refused.
    pub write_errors: u64,
    /// Multicast and broadcast packets: not carried. Hosts send them by themselves at moments of
    /// their own, which would make runs with the same seed differ.
    pub ignored: u64,
    /// True if the relay's thread runs under a real-time policy. If not, expect more lateness. If
    /// it does, and only when saturated, it is throttled to `kernel.sched_rt_runtime_us`.
    pub real_time: bool,
    /// The delays of delivered packets against their due time.
    pub lateness: Lateness,
}

impl DirectionStatistics {
    fn since(&self, earlier: &DirectionStatistics) -> DirectionStatistics {
        DirectionStatistics {
            received: self.received - earlier.received,
            packets: self.packets - earlier.packets,
            bytes: self.bytes - earlier.bytes,
            lost: self.lost - earlier.lost,
            held_back: self.held_back - earlier.held_back,
            reordered: self.reordered - earlier.reordered,
            duplicated: self.duplicated - earlier.duplicated,
            queue_drops: self.queue_drops - earlier.queue_drops,
            device_drops: self.device_drops - earlier.device_drops,
            write_errors: self.write_errors - earlier.write_errors,
            ignored: self.ignored - earlier.ignored,
            real_time: self.real_time,
            lateness: self.lateness.since(&earlier.lateness),
        }
    }
}

/// log2 of the buckets per octave: a bucket is at most 1/16 of its value wide.
const SUB_BITS: u32 = 4;
const BUCKETS: usize = ((64 - SUB_BITS as usize) << SUB_BITS) + (1 << SUB_BITS);

fn bucket(nanoseconds: u64) -> usize {
    let exponent = nanoseconds.max(1).ilog2();
    let index = match exponent.checked_sub(SUB_BITS) {
        None => nanoseconds,
        Some(shift) => (u64::from(shift) << SUB_BITS) + (nanoseconds >> shift),
    };
    usize::try_from(index).expect("there are fewer than 1000 buckets")
}

/// The largest value that falls into a bucket.
fn upper_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    match (bucket >> SUB_BITS).checked_sub(1) {
        None => bucket,
        Some(shift) => {
            let mantissa = (bucket & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS);
            (mantissa << shift) + ((1 << shift) - 1)
        }
    }
}

/// The distribution of (time of delivery − time due), both of the monotonic clock, to 1/16 of the
/// value.
///
/// A packet is due its delay after the relay *read* it. The relay's own delay in reading is not
/// included: under a real-time policy that is the time to wake a thread.
#[derive(Clone, PartialEq, Eq)]
pub struct Lateness {
    counts: Vec<u64>,
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lateness")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.p99())
            .field("max", &self.max())
            .finish()
    }
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            counts: vec![0; BUCKETS],
        }
    }
}

impl Lateness {
    /// Return the number of delivered packets.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The smallest lateness that at least the share `q` (0 to 1) of the packets kept to; zero
    /// without packets.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rank is a count of packets, far below 2^53, times a share"
    )]
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = (self.count() as f64 * q.clamp(0.0, 1.0)).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return Duration::from_nanos(upper_edge(bucket));
            }
        }
        Duration::ZERO
    }

    /// The 99th percentile.
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }

    /// The largest.
    pub fn max(&self) -> Duration {
        self.quantile(1.0)
    }

    fn since(&self, earlier: &Lateness) -> Lateness {
        Lateness {
            counts: self
                .counts
                .iter()
                .zip(&earlier.counts)
                .map(|(now, then)| now - then)
                .collect(),
        }
    }
}

/// The figures of one direction as its thread, their only writer, keeps them.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) received: AtomicU64,
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) held_back: AtomicU64,
    pub(crate) reordered: AtomicU64,
    pub(crate) duplicated: AtomicU64,
    pub(crate) queue_drops: AtomicU64,
    pub(crate) write_errors: AtomicU64,
    pub(crate) ignored: AtomicU64,
    pub(crate) real_time: AtomicBool,
    lateness: Vec<AtomicU64>,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            received: AtomicU64::default(),
            packets: AtomicU64::default(),
            bytes: AtomicU64::default(),
            lost: AtomicU64::default(),
            held_back: AtomicU64::default(),
            reordered: AtomicU64::default(),
            duplicated: AtomicU64::default(),
            queue_drops: AtomicU64::default(),
            write_errors: AtomicU64::default(),
            ignored: AtomicU64::default(),
            real_time: AtomicBool::default(),
            lateness: (0..BUCKETS).map(|_| AtomicU64::default()).collect(),
        }
    }
}

impl Counters {
    pub(crate) fn record_lateness(&self, lateness: Duration) {
        let nanoseconds = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        add(&self.lateness[bucket(nanoseconds)], 1);
    }

    pub(crate) fn snapshot(&self, device_drops: u64) -> DirectionStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DirectionStatistics {
            received: read(&self.received),
            packets: read(&self.packets),
            bytes: read(&self.bytes),
            lost: read(&self.lost),
            held_back: read(&self.held_back),
            reordered: read(&self.reordered),
            duplicated: read(&self.duplicated),
            queue_drops: read(&self.queue_drops),
            device_drops,
            write_errors: read(&self.write_errors),
            ignored: read(&self.ignored),
            real_time: self.real_time.load(Ordering::Relaxed),
            lateness: Lateness {
                counts: self.lateness.iter().map(read).collect(),
            },
        }
    }
}

/// Add without a locked instruction, which the single writer of each counter does not need.
pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Ordering::Relaxed) + value, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_the_bucket_that_ends_at_or_above_it() {
        let mut values: Vec<u64> = (0..64).map(|shift| 1 << shift).collect();
        values.extend((0..64).map(|shift| (1u64 << shift).wrapping_mul(3)));
        values.extend(0..5000);
        values.push(u64::MAX);
        for value in values {
            let bucket = bucket(value);
            assert!(upper_edge(bucket) >= value, "{value}");
            assert!(bucket == 0 || upper_edge(bucket - 1) < value, "{value}");
        }
    }

    #[test]
    fn quantiles_of_known_values_are_within_a_sixteenth() {
        let counters = Counters::default();
        for microseconds in 1..=100 {
            counters.record_lateness(Duration::from_micros(microseconds));
        }
        let lateness = counters.snapshot(0).lateness;
        assert_eq!(lateness.count(), 100);
        for (q, exact) in [(0.5, 50), (0.99, 99), (1.0, 100)] {
            let exact = Duration::from_micros(exact);
            assert!(
                lateness.quantile(q) >= exact && lateness.quantile(q) <= exact * 17 / 16,
                "{q}"
            );
        }
        assert_eq!(lateness.since(&lateness).max(), Duration::ZERO);
    }
}
