//! Separate slow messages from normal ones.

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;

use crate::chance::EIGHTHS;
use crate::component::Kind;

/// Different times that are held of a kind: 64 MB. Beyond, times are rounded.
const MOST: usize = 4 << 20;
/// Bits of a time that rounding keeps: 1/2048 of it is the error at most, far less than the width
/// of a histogram's bucket.
const BITS: u32 = 12;

/// The times of all messages of one kind.
#[derive(Debug)]
pub struct Times {
    kind: Kind,
    /// Times with their weights.
    times: Vec<(u64, u64)>,
    most: usize,
    are_rounded: bool,
    span: Option<Span>,
}

/// The time from the first message to the last, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
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
    /// Slow ones take longer. Fewer than 100 messages have none above their 99th percentile, which
    /// is the longest time.
    pub slow: Nanos,
    /// There were too many different times to hold: percentiles are up to 0.05 % too long.
    pub are_rounded: bool,
    /// When the messages came.
    pub span: Span,
}

impl Span {
    /// Return the eighth of it in which a message came.
    pub(crate) fn eighth(self, message: &Message) -> usize {
        let time = message.time.as_nanos().clamp(self.first, self.last) - self.first;
        let length = u128::from(self.last - self.first) + 1;
        let eighth = u128::from(time) * EIGHTHS as u128 / length;
        usize::try_from(eighth).unwrap_or(0)
    }

    /// Return its length in seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        (self.last - self.first) as f64 / 1e9
    }
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
            most: MOST,
            are_rounded: false,
            span: None,
        }
    }

    /// Add a message, if it has a time of this kind.
    pub fn add(&mut self, message: &Message) {
        if let Some(time) = self.kind.time(message) {
            self.push(time.0, message.weight.into());
            let moment = message.time.as_nanos();
            let span = self.span.get_or_insert(Span {
                first: moment,
                last: moment,
            });
            span.first = span.first.min(moment);
            span.last = span.last.max(moment);
        }
    }

    fn push(&mut self, time: u64, weight: u64) {
        self.times.push((time, weight));
        if self.times.len() >= self.most {
            self.merge();
            if self.times.len() > self.most / 2 {
                self.are_rounded = true;
                self.times
                    .iter_mut()
                    .for_each(|(time, _)| *time = rounded(*time));
                self.merge();
            }
        }
    }

    /// Sort the times, and add up the weights of equal ones.
    fn merge(&mut self) {
        self.times.sort_unstable();
        self.times.dedup_by(|(time, weight), (before, sum)| {
            let are_equal = time == before;
            if are_equal {
                *sum = sum.saturating_add(*weight);
            }
            are_equal
        });
    }

    /// Return the weighted percentiles; `None` without messages. They are exact up to some million
    /// different times.
    #[must_use]
    pub fn limits(mut self, border: Border) -> Option<Limits> {
        self.times.sort_unstable();
        let weights = self.times.iter().map(|(_, weight)| *weight);
        let messages = weights.fold(0, u64::saturating_add);
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
            are_rounded: self.are_rounded,
            span: self.span?,
        })
    }

    /// Return the smallest times that are not exceeded by this many thousandths of a percent.
    fn percentiles<const N: usize>(&self, messages: u64, wanted: [u32; N]) -> Option<[Nanos; N]> {
        let mut order: [usize; N] = std::array::from_fn(|place| place);
        order.sort_by_key(|&place| wanted[place]);
        let mut found = [Nanos::ZERO; N];
        let mut so_far = 0_u128;
        let mut times = self.times.iter();
        let mut last = None;
        for place in order {
            let rank = (u128::from(messages) * u128::from(wanted[place])).div_ceil(100_000);
            while so_far < rank {
                let &(time, weight) = times.next()?;
                so_far += u128::from(weight);
                last = Some(Nanos(time));
            }
            found[place] = last?;
        }
        Some(found)
    }
}

/// Round up to so many bits that few different times are left.
fn rounded(time: u64) -> u64 {
    let length = u64::BITS - time.leading_zeros();
    let rest = (1 << length.saturating_sub(BITS)) - 1;
    time.saturating_add(rest) & !rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Span = Span { first: 7, last: 7 };

    fn limits(most: usize, times: impl Iterator<Item = u64>) -> Limits {
        let mut all = Times {
            most,
            span: Some(MOMENT),
            ..Times::new(Kind::Read)
        };
        for time in times {
            all.push(time, 2);
            assert!(all.times.len() < most);
        }
        all.limits(Border::default()).unwrap()
    }

    #[test]
    fn times_that_occur_often_need_little_room() {
        let all = limits(1000, (0..100_000).map(|number| number * 7919 % 400));
        let expected = Limits {
            messages: 200_000,
            p25: Nanos(99),
            p50: Nanos(199),
            p75: Nanos(299),
            p99: Nanos(395),
            slow: Nanos(395),
            are_rounded: false,
            span: MOMENT,
        };
        assert_eq!(all, expected);
    }

    #[test]
    fn few_messages_have_none_above_their_99th_percentile() {
        for (count, has_slow) in [(60, false), (99, false), (100, true)] {
            let all = limits(1000, 1..=count);
            assert_eq!(all.is_slow(Nanos(count)), has_slow, "{count}");
        }
    }

    #[test]
    fn too_many_times_are_rounded_up_by_little() {
        // All up to a million, each once, since the factor is a prime.
        let times = || (1..=1_000_000_u64).map(|number| number * 7_919 % 1_000_003);
        let exact = limits(1 << 20, times());
        let all = limits(60_000, times());
        assert!(all.are_rounded && !exact.are_rounded);
        assert_eq!(all.messages, exact.messages);
        for (rounded, exact) in [
            (all.p25, exact.p25),
            (all.p50, exact.p50),
            (all.p75, exact.p75),
            (all.p99, exact.p99),
        ] {
            assert!((exact.0..=exact.0 + exact.0 / 2000).contains(&rounded.0));
        }
    }

    #[test]
    fn rounding_keeps_short_times_and_does_not_overflow() {
        assert_eq!(
            [0, 1, 4095, 4096, 4097].map(rounded),
            [0, 1, 4095, 4096, 4098]
        );
        assert!(rounded(u64::MAX) >= u64::MAX - (1 << 52));
    }
}
