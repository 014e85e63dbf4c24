//! The prober's clock, CLOCK_MONOTONIC, and its distance from CLOCK_REALTIME, in which the kernel
//! stamps.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sockstamp_model::clock::{Clock, ClockOffset, Delta, Monotonic, Nanos, Realtime, Timestamp};

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The clocks were read at this moment or very little later.
    pub(crate) at: Timestamp<Monotonic>,
    pub(crate) offset: ClockOffset<Monotonic, Realtime>,
    /// The offset is right to plus or minus this.
    pub(crate) uncertainty: Nanos,
}

/// A bracket that is wider was interrupted.
const NARROW: Nanos = Nanos::from_micros(1);
const ATTEMPTS: usize = 4;

impl Reading {
    /// The value before the first reading.
    pub(crate) const NEVER: Self = Self {
        at: Timestamp::from_nanos(0),
        offset: ClockOffset::new(Delta(0)),
        uncertainty: Nanos::MAX,
    };

    /// Read CLOCK_REALTIME between two readings of CLOCK_MONOTONIC.
    pub(crate) fn take() -> Self {
        let mut best = Self::bracket();
        let at = best.at;
        for _ in 1..ATTEMPTS {
            if best.uncertainty <= NARROW {
                break;
            }
            let next = Self::bracket();
            if next.uncertainty < best.uncertainty {
                best = next;
            }
        }
        Self { at, ..best }
    }

    fn bracket() -> Self {
        let before: Timestamp<Monotonic> = read(ClockId::CLOCK_MONOTONIC);
        let realtime: Timestamp<Realtime> = read(ClockId::CLOCK_REALTIME);
        let after = read(ClockId::CLOCK_MONOTONIC);
        let half = Nanos(after.since(before).unwrap_or(Nanos::MAX).0.div_ceil(2));
        Self {
            at: before,
            offset: ClockOffset::between(before + half, realtime),
            uncertainty: half,
        }
    }

    /// Return true if CLOCK_REALTIME was stepped between the readings. Slewing moves both clocks
    /// alike (`timekeeping_advance()` in kernel/time/timekeeping.c, v6.18), so their offset stays
    /// the same.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        let moved = Nanos(self.offset.delta().0.abs_diff(other.offset.delta().0));
        moved > self.uncertainty + other.uncertainty
    }
}

pub(crate) fn now() -> Timestamp<Monotonic> {
    read(ClockId::CLOCK_MONOTONIC)
}

fn read<C: Clock>(clock: ClockId) -> Timestamp<C> {
    let time = clock_gettime(clock).expect("Linux has both clocks");
    Timestamp::from_nanos(Nanos::from(Duration::from(time)).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(offset: i64, uncertainty: u64) -> Reading {
        Reading {
            at: Timestamp::from_nanos(1),
            offset: ClockOffset::new(Delta(offset)),
            uncertainty: Nanos(uncertainty),
        }
    }

    #[test]
    fn readings_without_a_step_do_not_differ() {
        let first = Reading::take();
        for _ in 0..1_000 {
            assert!(!Reading::take().differs_from(&first));
        }
    }

    #[test]
    fn a_step_is_a_difference_beyond_the_uncertainty() {
        assert!(!reading(1_000, 30).differs_from(&reading(1_060, 30)));
        assert!(reading(1_000, 30).differs_from(&reading(1_061, 30)));
        assert!(reading(-2_000_000_000, 30).differs_from(&reading(1_000, 30)));
        assert!(reading(i64::MIN, 0).differs_from(&reading(i64::MAX, 0)));
    }
}
