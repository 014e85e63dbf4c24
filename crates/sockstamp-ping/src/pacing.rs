//! Schedule the next probe of each target.

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

/// Return the phase of the n-th target of a thread in its interval. Multiples of the golden ratio,
/// modulo 1, are evenly spaced for any number of targets, and none has to move for the next (the
/// three-gap theorem: gaps differ by a factor of at most 2.62).
pub(crate) fn phase(n: u64, interval: Nanos) -> Nanos {
    /// 2^64 divided by the golden ratio.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    part(n.wrapping_mul(STEP), interval)
}

/// Return a part of a time: `share` of 2^64.
pub(crate) fn part(share: u64, time: Nanos) -> Nanos {
    let nanos = (u128::from(share) * u128::from(time.0)) >> 64;
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Return the time of the first probe: from `now` on, at `phase` of an interval. Intervals begin at
/// `origin` for all targets, so that their phases stay even however long adding them took.
pub(crate) fn first(
    origin: Timestamp<Monotonic>,
    phase: Nanos,
    interval: Nanos,
    now: Timestamp<Monotonic>,
) -> Timestamp<Monotonic> {
    let planned = origin + phase;
    if planned >= now {
        return planned;
    }
    next(planned, interval, now).0
}

/// Return the next time to send, after a probe due at `due` was sent at `now`, and the number of
/// skipped ones: a target that is late by an interval or more continues with the present interval.
pub(crate) fn next(
    due: Timestamp<Monotonic>,
    interval: Nanos,
    now: Timestamp<Monotonic>,
) -> (Timestamp<Monotonic>, u64) {
    let late = now.since(due).unwrap_or_default();
    let missed = late.0 / interval.0.max(1);
    let steps = Nanos(interval.0.saturating_mul(missed.saturating_add(1)));
    (due + steps, missed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_target_begins_at_once() {
        assert_eq!(phase(0, Nanos::from_secs(1)), Nanos::ZERO);
    }

    #[test]
    fn phases_leave_no_gap_much_larger_than_even_ones() {
        const TARGETS: u64 = 1_000;
        let interval = Nanos::from_millis(100);
        let mut phases: Vec<_> = (0..TARGETS).map(|n| phase(n, interval).0).collect();
        phases.push(interval.0);
        phases.sort_unstable();
        let even = interval.0 / TARGETS;
        for pair in phases.windows(2) {
            let gap = pair[1] - pair[0];
            assert!(
                gap > even / 3 && gap < even * 3,
                "{gap} is not about {even}"
            );
        }
    }

    #[test]
    fn the_first_probe_keeps_to_the_grid_of_all() {
        let at = Timestamp::from_nanos;
        let first = |now| first(at(1_000), Nanos(30), Nanos(100), at(now)).as_nanos();
        assert_eq!(
            [1_000, 1_030, 1_031, 1_129, 1_531].map(first),
            [1_030, 1_030, 1_130, 1_130, 1_630]
        );
    }

    proptest! {
        #[test]
        fn the_next_time_is_ahead_and_on_the_grid(
            due in 0_u64..1 << 40,
            interval in 1_u64..1 << 32,
            late in 0_u64..1 << 36,
        ) {
            let now = Timestamp::from_nanos(due + late);
            let (next, skipped) = next(Timestamp::from_nanos(due), Nanos(interval), now);
            let ahead = next.as_nanos() - due;
            prop_assert!(next > now && ahead - late <= interval);
            prop_assert_eq!(ahead % interval, 0);
            prop_assert_eq!(skipped, ahead / interval - 1);
        }

        #[test]
        fn an_early_target_keeps_its_schedule(due in 1_u64..1 << 40, early in 0_u64..1 << 20) {
            let now = Timestamp::from_nanos(due.saturating_sub(early));
            let (next, skipped) = next(Timestamp::from_nanos(due), Nanos(1_000), now);
            prop_assert_eq!((next.as_nanos(), skipped), (due + 1_000, 0));
        }
    }
}
