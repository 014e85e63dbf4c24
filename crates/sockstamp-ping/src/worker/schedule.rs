//! Schedule the actions of a worker.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

use crate::TargetId;
use crate::lane::Probe;

/// An action at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A probe is due.
    Due(TargetId),
    /// A flood may send the probe that follows an answer.
    Follow(TargetId),
    /// The oldest probe of a target that may be in flight has had its time.
    Expire(TargetId),
    /// The last probe of a target has been waited for.
    Complete(TargetId),
    /// The deadline of a target.
    Deadline(TargetId),
    /// Look for the network namespace.
    Look,
}

#[derive(Debug)]
pub(super) struct Schedule {
    timers: BinaryHeap<Reverse<(Timestamp<Monotonic>, Timer)>>,
    /// Answers that wait for stamps of their probes, and until when, in the order of these times.
    held: VecDeque<(Timestamp<Monotonic>, Probe)>,
    /// Targets that are due, in turn.
    ready: VecDeque<TargetId>,
    /// Probes per second, of all targets.
    rate: f64,
    /// Targets that set no rate.
    floods: usize,
    /// The time by which all sent probes would have been sent one gap apart.
    even: Timestamp<Monotonic>,
}

/// Catch up at most this many times as fast as planned.
const CATCH_UP: f64 = 4.0;
/// This many probes together are no burst, and cost the prober one wake-up.
const TOGETHER: u64 = 4;
/// 10 000 per second are no burst.
const LONGEST_GAP: Nanos = Nanos::from_micros(100);

impl Default for Schedule {
    fn default() -> Self {
        Self {
            timers: BinaryHeap::new(),
            held: VecDeque::new(),
            ready: VecDeque::new(),
            rate: 0.0,
            floods: 0,
            even: Timestamp::from_nanos(0),
        }
    }
}

impl Schedule {
    pub(super) fn at(&mut self, time: Timestamp<Monotonic>, timer: Timer) {
        self.timers.push(Reverse((time, timer)));
    }

    /// The next timer whose time has come.
    pub(super) fn take(
        &mut self,
        now: Timestamp<Monotonic>,
    ) -> Option<(Timestamp<Monotonic>, Timer)> {
        let Reverse((time, _)) = self.timers.peek()?;
        if *time > now {
            return None;
        }
        self.timers.pop().map(|Reverse(timer)| timer)
    }

    /// An answer waits for stamps of its probe until then; each waits as long as the others.
    pub(super) fn hold(&mut self, probe: Probe, until: Timestamp<Monotonic>) {
        self.held.push_back((until, probe));
    }

    /// The answer to this probe waits no longer. Most are released in the order in which they came.
    pub(super) fn released(&mut self, probe: Probe) {
        if self.held.front().is_some_and(|(_, first)| *first == probe) {
            self.held.pop_front();
        }
    }

    /// The next probe whose answer has waited for stamps long enough, unless it was released.
    pub(super) fn take_held(&mut self, now: Timestamp<Monotonic>) -> Option<Probe> {
        let (until, probe) = *self.held.front()?;
        (until <= now).then(|| {
            self.held.pop_front();
            probe
        })
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

    /// A probe of a flood has its outcome: the next one is sent at once, but not before `earliest`.
    pub(super) fn follow(
        &mut self,
        target: TargetId,
        earliest: Timestamp<Monotonic>,
        now: Timestamp<Monotonic>,
    ) {
        match earliest > now {
            true => self.at(earliest, Timer::Follow(target)),
            false => self.is_ready(target),
        }
    }

    /// Return the target that sends now.
    pub(super) fn next_to_send(&mut self, now: Timestamp<Monotonic>) -> Option<TargetId> {
        let ahead = self.even.since(now).unwrap_or_default();
        let gap = self.gap();
        if ahead > Nanos(gap.0 * (TOGETHER - 1)) {
            return None;
        }
        let target = self.ready.pop_front()?;
        self.even = self.even.max(now) + gap;
        Some(target)
    }

    /// The shortest mean time between probes. It grows as targets become fewer, and must not delay
    /// probes that are due together by chance.
    fn gap(&self) -> Nanos {
        if self.floods > 0 {
            return Nanos::ZERO;
        }
        let seconds = (self.rate * CATCH_UP).recip();
        Duration::try_from_secs_f64(seconds).map_or(Nanos::ZERO, |gap| LONGEST_GAP.min(gap.into()))
    }

    /// Return true if there is something to do.
    pub(super) fn is_due(&self, now: Timestamp<Monotonic>) -> bool {
        self.wakes_at().is_some_and(|next| next <= now)
    }

    /// Return the time of the next action.
    pub(super) fn wakes_at(&self) -> Option<Timestamp<Monotonic>> {
        let timer = self.timers.peek().map(|Reverse((time, _))| *time);
        let send = (!self.ready.is_empty()).then_some(self.even);
        let held = self.held.front().map(|(until, _)| *until);
        timer.into_iter().chain(send).chain(held).min()
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
        assert_eq!(
            schedule.take(at(40)),
            Some((at(10), Timer::Due(TargetId(1))))
        );
        assert_eq!(schedule.take(at(40)), Some((at(30), Timer::Look)));
        assert_eq!(schedule.wakes_at(), None);
    }

    #[test]
    fn answers_wait_for_stamps_in_their_order_until_they_are_released() {
        let probe = |number| Probe {
            destination: 1,
            number,
        };
        let mut schedule = Schedule::default();
        (1..=3).for_each(|number| schedule.hold(probe(number), at(10 * number)));
        assert!(!schedule.is_due(at(9)) && schedule.is_due(at(10)));
        // Out of turn: its time comes, and finds it released.
        schedule.released(probe(2));
        schedule.released(probe(1));
        assert_eq!(schedule.wakes_at(), Some(at(20)));
        assert_eq!(schedule.take_held(at(19)), None);
        let taken = [(); 3].map(|()| schedule.take_held(at(40)));
        assert_eq!(taken, [Some(probe(2)), Some(probe(3)), None]);
    }

    /// 1000 targets at 10 per second each: 100 µs apart, and after a stall 25 µs on average.
    #[test]
    fn a_late_worker_catches_up_without_a_burst() {
        let mut schedule = Schedule::default();
        for target in 0..1_000 {
            schedule.count_in(Duration::from_millis(100), false);
            schedule.is_ready(TargetId(target));
        }
        let mut sent = 0;
        let mut now = at(1_000);
        while now < at(2_000) {
            let mut together = 0;
            while let Some(target) = schedule.next_to_send(now) {
                assert_eq!(target, TargetId(sent));
                (sent, together) = (sent + 1, together + 1);
            }
            assert!(together <= TOGETHER, "{together}");
            now = schedule.wakes_at().unwrap();
        }
        // Four at once, each 100 µs.
        assert!((38..=40).contains(&sent), "{sent}");
    }

    #[test]
    fn those_that_are_due_together_by_chance_hardly_wait() {
        let mut schedule = Schedule::default();
        for target in 0..6 {
            schedule.count_in(Duration::from_secs(60), false);
            schedule.is_ready(TargetId(target));
        }
        for _ in 0..TOGETHER {
            assert!(schedule.next_to_send(at(1_000)).is_some());
        }
        assert!(schedule.next_to_send(at(1_000)).is_none());
        assert_eq!(schedule.wakes_at(), Some(at(1_400)));
        assert!(schedule.next_to_send(at(1_400)).is_some());
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
