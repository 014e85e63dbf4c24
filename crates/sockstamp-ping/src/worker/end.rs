//! The ends: of a probe, by its outcome, and of a target.

use sockstamp_model::clock::{Monotonic, Timestamp};

use super::Worker;
use super::schedule::Timer;
use crate::clocks::now;
use crate::flights::{Flight, State};
use crate::lane::Probe;
use crate::{End, Event, Outcome, TargetId};

impl Worker {
    /// Probes of a target that have had their time are lost.
    pub(super) fn expire(&mut self, id: TargetId, now: Timestamp<Monotonic>) {
        while let Some(target) = self.targets.get_mut(&id) {
            let destination = target.destination;
            match target.expiries.front() {
                Some((time, number)) if *time <= now => {
                    let probe = Probe {
                        destination,
                        number: *number,
                    };
                    target.expiries.pop_front();
                    self.lose(probe);
                }
                Some((time, _)) => return self.schedule.at(*time, Timer::Expire(id)),
                None => return,
            }
        }
    }

    fn lose(&mut self, probe: Probe) {
        let flight = self.flight(probe);
        if flight.is_some_and(|flight| matches!(flight.state, State::Waiting)) {
            self.conclude(probe, State::Lost, Outcome::Lost);
        }
    }

    pub(super) fn flight(&mut self, probe: Probe) -> Option<&mut Flight> {
        self.destinations
            .get_mut(&probe.destination)?
            .flights
            .get(probe.number)
    }

    /// The outcome of a probe.
    pub(super) fn conclude(&mut self, probe: Probe, state: State, outcome: Outcome) {
        let Some(flight) = self.flight(probe) else {
            return;
        };
        // A flood went on when the answer came.
        let follows = matches!(flight.state, State::Waiting);
        flight.state = state;
        flight.connection = None;
        let (target, seq) = (flight.target, flight.seq);
        self.tell(target, seq, outcome);
        if follows {
            self.follow(target);
        }
        self.end_if_complete(target);
    }

    pub(super) fn tell(&mut self, target: TargetId, seq: u64, outcome: Outcome) {
        let counters = &mut self.outbox.counters;
        let is_answered = matches!(outcome, Outcome::Answered(_));
        let is_news = !matches!(outcome, Outcome::Lost | Outcome::Abandoned);
        match &outcome {
            Outcome::Answered(answer) => {
                counters.answered += 1;
                counters.reordered += u64::from(answer.reordered);
                counters.truncated += u64::from(answer.missing > 0);
                self.outbox.count_fallback(&answer.times);
            }
            Outcome::Lost => counters.lost += 1,
            Outcome::Refused(_) => counters.refused += 1,
            Outcome::Abandoned => counters.abandoned += 1,
            Outcome::NotSent(_) => counters.not_sent += 1,
        }
        self.outbox.send(Event::Probe {
            target,
            seq,
            outcome,
        });
        if let Some(watched) = self.targets.get_mut(&target) {
            watched.open -= 1;
            watched.is_answered |= is_answered;
            watched.has_news |= is_news;
        }
    }

    pub(super) fn end_if_complete(&mut self, id: TargetId) {
        let Some(target) = self.targets.get(&id) else {
            return;
        };
        if target.settings.until_answered && target.is_answered {
            self.end(id, End::Answered);
        } else if target.open == 0 && Some(target.sent) == target.settings.count {
            let until = target.last + target.settings.linger.into();
            match !target.has_news && until > now() {
                true => self.schedule.at(until, Timer::Complete(id)),
                false => self.end(id, End::Count),
            }
        }
    }

    /// The target has ended: no more events of it come.
    pub(super) fn end(&mut self, id: TargetId, end: End) {
        let Some(destination) = self.targets.get(&id).map(|target| target.destination) else {
            return;
        };
        for number in self.open_probes(id, destination) {
            self.abandon(Probe {
                destination,
                number,
            });
        }
        // Look again: abandoning the last probe may have ended it.
        let Some(target) = self.targets.remove(&id) else {
            return;
        };
        self.schedule
            .count_out(target.settings.interval, target.settings.flood);
        self.leave(id, destination);
        self.outbox.send(Event::Ended { target: id, end });
    }

    fn open_probes(&mut self, id: TargetId, destination: u32) -> Vec<u64> {
        let Some(destination) = self.destinations.get_mut(&destination) else {
            return Vec::new();
        };
        let mut open = destination.flights.open();
        open.retain(|number| {
            destination
                .flights
                .get(*number)
                .is_some_and(|flight| flight.target == id)
        });
        open
    }

    fn abandon(&mut self, probe: Probe) {
        self.release(probe);
        let flight = self.flight(probe);
        if flight.is_some_and(|flight| flight.state.is_open()) {
            self.conclude(probe, State::Over, Outcome::Abandoned);
        }
    }

    /// A destination without targets is forgotten, and so is a lane without destinations.
    pub(super) fn leave(&mut self, id: TargetId, number: u32) {
        let Some(destination) = self.destinations.get_mut(&number) else {
            return;
        };
        destination.targets.remove(&id);
        if !destination.targets.is_empty() {
            return;
        }
        let lane = destination.lane;
        let address = destination.address;
        self.destinations.remove(&number);
        self.destination_of
            .remove(&(lane, address.ip(), address.port()));
        let Some(known) = self.lanes.get_mut(&lane) else {
            return;
        };
        known.destinations -= 1;
        if known.destinations == 0 {
            self.lane_of.remove(&known.key);
            self.lanes.remove(&lane);
        }
    }
}
