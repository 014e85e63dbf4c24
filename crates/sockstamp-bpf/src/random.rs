//! Numbers without a pattern, so that events timed by them are in step with no traffic.

use std::hash::{BuildHasher, RandomState};

/// A source of such numbers.
#[derive(Debug, Default)]
pub(crate) struct Random {
    keys: RandomState,
    drawn: u64,
}

impl Random {
    /// Return a number from 0 to below 1.
    pub(crate) fn draw(&mut self) -> f64 {
        self.drawn += 1;
        // As many bits as a float keeps.
        (self.keys.hash_one(self.drawn) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Return a factor that differs from 1 by up to a quarter.
    pub(crate) fn jitter(&mut self) -> f64 {
        0.75 + self.draw() / 2.0
    }
}
