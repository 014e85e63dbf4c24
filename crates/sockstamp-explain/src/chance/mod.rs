//! Tell what another measurement would show from what this one shows.
//!
//! Messages of one flow, or of one moment, are slow together, so that flows that share the same
//! moments are no independent samples. The spread of a figure therefore comes from two sides at
//! once, as with two-way clusters (Cameron, Gelbach, Miller: "Robust inference with multiway
//! clustering", 2011): from flows, and from blocks of time. What both see is counted twice, which
//! can only widen an interval.
//!
//! Time has no scale from which on stretches are independent: load drifts, and programs come and
//! go. A whole recording is therefore assumed to be no steadier than one of its [`EIGHTHS`], as
//! flicker noise is, whose differences between neighbours do not shrink as these grow longer.

mod spread;

pub(crate) use spread::{
    EIGHTHS, Spread, Sums, of_flows, of_time, spread_of_flows, spread_of_times,
};

/// The chance that any of all claims is wrong.
pub(crate) const WRONG: f64 = 0.05;

/// A difference too small to matter to anybody.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Least {
    /// In nanoseconds.
    pub time: f64,
    /// Of the time of the whole message: of 1.
    pub share: f64,
}

impl Default for Least {
    /// 100 µs, and a twentieth of the whole.
    fn default() -> Self {
        Self {
            time: 1e5,
            share: 0.05,
        }
    }
}

impl Least {
    /// Return true if a difference of times matters to messages that take so long in all.
    #[must_use]
    pub fn is_less_than(&self, difference: f64, whole: f64) -> bool {
        difference >= self.time.max(self.share * whole)
    }
}
