//! Sends that are counted and timed, round by round.

use std::time::{Duration, Instant};

const ROUND: Duration = Duration::from_millis(50);
/// The loop reads the clock after this many sends, of which a sampled round has one stamped.
pub(super) const SENDS: u64 = 64;

/// The sends of a round.
#[derive(Debug)]
pub(super) struct Sends {
    began: Instant,
    sent: u64,
    interval: u64,
}

impl Sends {
    pub(super) fn begin(interval: u64) -> Self {
        Self {
            began: Instant::now(),
            sent: 0,
            interval,
        }
    }

    /// Look at the clock: is there time for more?
    pub(super) fn go_on(&self) -> bool {
        self.began.elapsed() < ROUND
    }

    /// Count a send, and return true if stamps are to be read after it.
    pub(super) fn count(&mut self) -> bool {
        self.sent += 1;
        self.sent.is_multiple_of(self.interval)
    }

    pub(super) fn end(self, stamps: Option<u64>) -> Done {
        Done {
            sent: self.sent,
            stamped: self.sent,
            stamps,
            time: self.began.elapsed(),
        }
    }
}

/// The outcome of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub(super) sent: u64,
    /// Of them, those with stamps.
    pub(super) stamped: u64,
    /// Stamps that were read, by ways that have to read all.
    pub(super) stamps: Option<u64>,
    pub(super) time: Duration,
}
