//! Separate slow messages from normal ones.

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;

use crate::component::Kind;

/// The times of all messages of one kind.
#[derive(Debug)]
pub struct Times {
    kind: Kind,
    /// Times with their weights.
    times: Vec<(u64, u32)>,
}

/// The border between slow messages and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Border {
    /// A percentile, in thousandths of a percent.
    Percentile(u32),
    /// A time.
    Time(Nanos),
}

impl Default for Border {
    fn default() -> Self {
        Self::Percentile(99_000)
    }
}

/// The times between which messages are normal, and above which they are slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Messages, by weight.
    pub messages: u64,
    /// Normal ones take this long at least.
    pub p25: Nanos,
    /// The median.
    pub p50: Nanos,
    /// Normal ones take this long at most.
    pub p75: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
    /// Slow ones take longer.
    pub slow: Nanos,
}

impl Limits {
    pub(crate) fn is_slow(&self, time: Nanos) -> bool {
        time > self.slow
    }

    /// Return true for a message that is neither slow nor fast.
    pub(crate) fn is_normal(&self, time: Nanos) -> bool {
        !self.is_slow(time) && (self.p25..=self.p75).contains(&time)
    }
}

impl Times {
    /// Form an empty list.
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            times: Vec::new(),
        }
    }

    /// Add a message, if it has a time of this kind.
    pub fn add(&mut self, message: &Message) {
        if let Some(time) = self.kind.time(message) {
            self.times.push((time.0, message.weight));
        }
    }

    /// Return the exact, weighted percentiles; `None` without messages.
    #[must_use]
    pub fn limits(mut self, border: Border) -> Option<Limits> {
        self.times.sort_unstable();
        let messages: u64 = self
            .times
            .iter()
            .map(|(_, weight)| u64::from(*weight))
            .sum();
        let wanted = match border {
            Border::Percentile(wanted) => wanted,
            Border::Time(_) => 100_000,
        };
        let [p25, p50, p75, p99, percentile] =
            self.percentiles(messages, [25_000, 50_000, 75_000, 99_000, wanted])?;
        let slow = match border {
            Border::Percentile(_) => percentile,
            Border::Time(time) => time,
        };
        Some(Limits {
            messages,
            p25,
            p50,
            p75,
            p99,
            slow,
        })
    }

    /// Return the smallest times that are not exceeded by this many thousandths of a percent.
    fn percentiles<const N: usize>(&self, messages: u64, wanted: [u32; N]) -> Option<[Nanos; N]> {
        let mut order: [usize; N] = std::array::from_fn(|place| place);
        order.sort_by_key(|&place| wanted[place]);
        let mut found = [Nanos::ZERO; N];
        let mut so_far = 0;
        let mut times = self.times.iter();
        let mut last = None;
        for place in order {
            let rank = (u128::from(messages) * u128::from(wanted[place])).div_ceil(100_000);
            while u128::from(so_far) < rank {
                let &(time, weight) = times.next()?;
                so_far += u64::from(weight);
                last = Some(Nanos(time));
            }
            found[place] = last?;
        }
        Some(found)
    }
}
