//! Send events to their reader, and keep the counters.

use std::collections::VecDeque;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};

use sockstamp_model::Histogram;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

use crate::event::{Fallback, Times};
use crate::{Counters, Event};

/// A worker's report on itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    pub(crate) counters: Counters,
    /// The deviations of probes from their schedule.
    pub(crate) lateness: Histogram,
}

impl Report {
    pub(crate) fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        self.lateness.merge(&other.lateness);
    }
}

pub(crate) type Shared = Arc<Mutex<Report>>;

/// Longest age of the published counters, while something happens.
const REPORT_EVERY: Nanos = Nanos::from_millis(50);

/// Events that are handed over together at most.
const TOGETHER: usize = 64;
/// Longest wait of an event while the worker has other things to do.
const LONGEST: Nanos = Nanos::from_millis(2);

#[derive(Debug)]
pub(super) struct Outbox {
    events: SyncSender<Event>,
    /// Events to hand over together: each by itself would wake their reader, which takes longer
    /// than a probe does.
    waiting: Vec<Event>,
    /// The time when none was waiting.
    handed_over: Timestamp<Monotonic>,
    /// Ends that found no room. Other events are dropped and counted, but a reader that waits for
    /// an end would wait forever: there is one per target.
    ends: VecDeque<Event>,
    pub(super) counters: Counters,
    pub(super) lateness: Histogram,
    shared: Shared,
    /// The time when the counters were last published.
    reported: Timestamp<Monotonic>,
    /// There is no reader any more.
    pub(super) is_closed: bool,
}

impl Outbox {
    pub(super) fn new(events: SyncSender<Event>, shared: Shared) -> Self {
        Self {
            events,
            waiting: Vec::with_capacity(TOGETHER),
            handed_over: Timestamp::from_nanos(0),
            ends: VecDeque::new(),
            counters: Counters::default(),
            lateness: Histogram::new(),
            shared,
            reported: Timestamp::from_nanos(0),
            is_closed: false,
        }
    }

    /// Keep an event until the worker has nothing else to do, or others have come.
    pub(super) fn send(&mut self, event: Event) {
        self.waiting.push(event);
        if self.waiting.len() >= TOGETHER {
            self.hand_over();
        }
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Send the events that wait.
    pub(super) fn hand_over(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.drain(..).for_each(|event| self.send_now(event));
        self.waiting = waiting;
    }

    fn send_now(&mut self, event: Event) {
        if !self.ends.is_empty() && matches!(event, Event::Ended { .. }) {
            self.ends.push_back(event);
            return;
        }
        match self.events.try_send(event) {
            Ok(()) => {}
            Err(TrySendError::Full(end @ Event::Ended { .. })) => self.ends.push_back(end),
            Err(TrySendError::Full(_)) => self.counters.dropped_events += 1,
            Err(TrySendError::Disconnected(_)) => self.is_closed = true,
        }
    }

    /// Hand over events that have waited, retry those without room, and publish the counters from
    /// time to time.
    pub(super) fn publish(&mut self, now: Timestamp<Monotonic>) {
        let is_late = now
            .since(self.handed_over)
            .is_some_and(|age| age >= LONGEST);
        if is_late {
            self.hand_over();
        }
        if self.waiting.is_empty() {
            self.handed_over = now;
        }
        self.send_ends();
        if now
            .since(self.reported)
            .is_some_and(|age| age >= REPORT_EVERY)
        {
            self.reported = now;
            self.tell();
        }
    }

    pub(super) fn send_ends(&mut self) {
        while let Some(end) = self.ends.pop_front() {
            match self.events.try_send(end) {
                Ok(()) => {}
                Err(TrySendError::Full(end)) => {
                    self.ends.push_front(end);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => self.is_closed = true,
            }
        }
    }

    pub(super) fn tell(&self) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.counters = self.counters;
        shared.lateness.clone_from(&self.lateness);
    }

    pub(super) fn has_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    pub(super) fn count_fallback(&mut self, times: &Times) {
        let counters = &mut self.counters;
        match times.fallback {
            Some(Fallback::NoTxStamp) => counters.no_tx_stamp += 1,
            Some(Fallback::NoRxStamp) => counters.no_rx_stamp += 1,
            Some(Fallback::ClockStep) => counters.clock_step += 1,
            Some(Fallback::Implausible) => counters.implausible += 1,
            Some(Fallback::NoId) => counters.no_id += 1,
            Some(Fallback::NoPrivilege) | None => {}
        }
    }
}
