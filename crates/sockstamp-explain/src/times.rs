//! Tell slow messages from normal ones.

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;

use crate::component::Kind;

/// The times of all messages of one kind.
#[derive(Debug)]
pub struct Times {
    kind: Kind,
    /// With their weights.
    times: Vec<(u64, u32)>,
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
    /// Slow ones take longer.
    pub p99: Nanos,
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
    pub fn limits(mut self) -> Option<Limits> {
        self.times.sort_unstable();
        let messages: u64 = self.times.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut so_far = 0;
        let mut times = self.times.iter();
        let mut last = None;
        let mut reach = |percent: u64| {
            // The smallest time that so many messages do not exceed.
            let rank = (u128::from(messages) * u128::from(percent)).div_ceil(100);
            while u128::from(so_far) < rank {
                let &(time, weight) = times.next()?;
                so_far += u64::from(weight);
                last = Some(Nanos(time));
            }
            last
        };
        Some(Limits {
            messages,
            p25: reach(25)?,
            p50: reach(50)?,
            p75: reach(75)?,
            p99: reach(99)?,
        })
    }
}
