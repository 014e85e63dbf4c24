//! Choose slow messages that show what slow ones are like.

use sockstamp_model::message::Message;

use crate::cause::Cause;

/// Slow messages that are kept to choose from.
const KEPT: usize = 1024;
/// Messages that are shown.
const SHOWN: usize = 3;

/// A sample of slow messages.
#[derive(Debug, Default)]
pub struct Lives(Sample<Message>);

impl Lives {
    pub(crate) fn add(&mut self, message: &Message) {
        self.0.add(|| message.clone());
    }

    /// Return those of a cause that are at a quarter, the half and three quarters of them by time,
    /// the fastest first; fewer if there are no more.
    #[must_use]
    pub fn typical(self, cause: &Cause) -> Vec<Message> {
        let mut of_cause = self.0.kept;
        of_cause.retain(|message| cause.covers(message));
        of_cause.sort_by_key(|message| cause.kind().time(message));
        let count = of_cause.len();
        let mut places: Vec<usize> = (1..=SHOWN).map(|place| place * count / (SHOWN + 1)).collect();
        places.dedup();
        let chosen = places.into_iter().filter_map(|place| of_cause.get(place));
        chosen.cloned().collect()
    }
}

/// Every one of some things, every second one, …, so that the number stays bounded.
#[derive(Debug)]
struct Sample<T> {
    kept: Vec<T>,
    seen: u64,
    /// The logarithm to base 2 of how many things a kept one stands for.
    thinned: u32,
}

impl<T> Default for Sample<T> {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            seen: 0,
            thinned: 0,
        }
    }
}

impl<T> Sample<T> {
    fn add(&mut self, thing: impl FnOnce() -> T) {
        if self.kept.len() == KEPT {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.thinned += 1;
        }
        if self.seen.trailing_zeros() >= self.thinned {
            self.kept.push(thing());
        }
        self.seen += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_bounded_and_even() {
        let mut sample = Sample::default();
        for seen in 0..100 * KEPT {
            sample.add(|| seen);
        }
        assert!(sample.kept.len() <= KEPT && sample.kept.len() * 2 >= KEPT);
        let even: Vec<usize> = (0..sample.kept.len())
            .map(|place| place << sample.thinned)
            .collect();
        assert_eq!(sample.kept, even);
    }
}
