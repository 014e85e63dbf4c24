//! What a worker does next, and when.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

use crate::TargetId;
use crate::lane::Probe;

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A probe is due.
    Due(TargetId),
    /// The oldest probe of a target that may be in flight has had its time.
    Expire(TargetId),
    /// An answer has waited for stamps of its probe long enough.
    GiveUp(Probe),
    /// The deadline of a target.
    Deadline(TargetId),
    /// Whether the network namespace is still there.
    Look,
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    timers: BinaryHeap<Reverse<(Timestamp<Monotonic>, Timer)>>,
    /// Targets that are due, in turn.
    ready: VecDeque<TargetId>,
    /// Probes a second, of all targets.
    rate: f64,
    /// Targets that set no rate.
    floods: usize,
    last: Option<Timestamp<Monotonic>>,
}

/// Who comes late sends at most that many times as fast as planned.
const CATCH_UP: f64 = 4.0;

impl Schedule {
    pub(super) fn at(&mut self, time: Timestamp<Monotonic>, timer: Timer) {
        self.timers.push(Reverse((time, timer)));
    }

    /// The next timer whose time has come.
    pub(super) fn take(&mut self, now: Timestamp<Monotonic>) -> Option<(Timestamp<Monotonic>, Timer)> {
        let Reverse((time, _)) = self.timers.peek()?;
        if *time > now {
            return None;
        }
        self.timers.pop().map(|Reverse(timer)| timer)
    }

    pub(super) fn count_in(&mut self, interval: Duration, flood: bool) {
        self.rate += interval.as_secs_f64().recip();
        self.floods += usize::from(flood);
    }

    pub(super) fn count_out(&mut self, interval: Duration, flood: bool) {
        self.rate -= interval.as_secs_f64().recip();
        self.floods -= usize::from(flood);
    }

    pub(super) fn is_ready(&mut self, target: TargetId) {
        self.ready.push_back(target);
    }

    /// Who sends now.
    pub(super) fn next_to_send(&mut self, now: Timestamp<Monotonic>) -> Option<TargetId> {
        if self.may_send_at() > now {
            return None;
        }
        let target = self.ready.pop_front()?;
        self.last = Some(now);
        Some(target)
    }

    fn may_send_at(&self) -> Timestamp<Monotonic> {
        let never_sent = Timestamp::from_nanos(0);
        self.last.map_or(never_sent, |last| last + self.gap())
    }

    /// The shortest time between two probes.
    fn gap(&self) -> Nanos {
        if self.floods > 0 {
            return Nanos::ZERO;
        }
        let seconds = (self.rate * CATCH_UP).recip();
        Duration::try_from_secs_f64(seconds).map_or(Nanos::ZERO, Nanos::from)
    }

    /// When there is something to do.
    pub(super) fn wakes_at(&self) -> Option<Timestamp<Monotonic>> {
        let timer = self.timers.peek().map(|Reverse((time, _))| *time);
        let send = (!self.ready.is_empty()).then(|| self.may_send_at());
        timer.into_iter().chain(send).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(micros * 1_000)
    }

    #[test]
    fn timers_come_in_the_order_of_their_times() {
        let mut schedule = Schedule::default();
        schedule.at(at(30), Timer::Look);
        schedule.at(at(10), Timer::Due(TargetId(1)));
        assert_eq!(schedule.wakes_at(), Some(at(10)));
        assert_eq!(schedule.take(at(9)), None);
        assert_eq!(schedule.take(at(40)), Some((at(10), Timer::Due(TargetId(1)))));
        assert_eq!(schedule.take(at(40)), Some((at(30), Timer::Look)));
        assert_eq!(schedule.wakes_at(), None);
    }

    /// 1000 targets at 10 a second each: 100 µs apart, and after a stall 25 µs.
    #[test]
    fn whoever_is_late_catches_up_without_a_burst() {
        let mut schedule = Schedule::default();
        for target in 0..1_000 {
            schedule.count_in(Duration::from_millis(100), false);
            schedule.is_ready(TargetId(target));
        }
        let mut sent = 0;
        for micros in 1_000..2_000 {
            if let Some(target) = schedule.next_to_send(at(micros)) {
                assert_eq!(target, TargetId(sent));
                sent += 1;
                assert_eq!(schedule.next_to_send(at(micros)), None);
            }
        }
        // The sum of a thousand tenths is a little off: the gap may end a nanosecond behind its microsecond.
        assert!((38..=40).contains(&sent), "{sent}");
    }

    #[test]
    fn a_flood_is_not_held_back() {
        let mut schedule = Schedule::default();
        schedule.count_in(Duration::from_secs(1), true);
        schedule.is_ready(TargetId(0));
        schedule.is_ready(TargetId(0));
        assert!(schedule.next_to_send(at(1)).is_some());
        assert!(schedule.next_to_send(at(1)).is_some());
    }
}
