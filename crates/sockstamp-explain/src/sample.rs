//! Keep some of many things.

/// Things that are kept.
const KEPT: usize = 1024;

/// Keep every item, every second one, …, so the number stays bounded.
#[derive(Debug)]
pub struct Sample<T> {
    kept: Vec<T>,
    seen: u64,
    /// The logarithm to base 2 of the weight of a kept item.
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
    /// Add a thing; it is only made if it is kept.
    pub fn add(&mut self, thing: impl FnOnce() -> T) {
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

    /// Return those that are kept, in their order.
    #[must_use]
    pub fn into_kept(self) -> Vec<T> {
        self.kept
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
