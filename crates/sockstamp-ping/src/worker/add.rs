//! Targets as they come: the lane and the destination that they need, and their first time.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::net::SocketAddr;

use sockstamp_model::clock::{Nanos, Timestamp};

use super::destination::Destination;
use super::schedule::Timer;
use super::{Answer, Watched, Worker};
use crate::clocks::now;
use crate::flights::Flights;
use crate::lane::{Key, Lane};
use crate::{Added, MAX_IN_FLIGHT, Protocol, Result, Sockets, Target, TargetId, pacing};

impl Worker {
    pub(super) fn add_all(&mut self, batch: &[(TargetId, Target)]) -> Answer {
        let mut added = Vec::with_capacity(batch.len());
        for (id, target) in batch {
            match self.prepare(*id, target) {
                Ok(sockets) => added.push(Added { id: *id, sockets }),
                Err(error) => {
                    added.iter().for_each(|added| self.forget(added.id));
                    return Err((target.address, error));
                }
            }
        }
        // Opening sockets took its time: no target is late from the beginning.
        added.iter().for_each(|added| self.begin(added.id));
        Ok(added)
    }

    fn prepare(&mut self, id: TargetId, target: &Target) -> Result<Sockets> {
        let (number, sockets) = self.lane(target)?;
        let port = match target.protocol {
            Protocol::Icmp => 0,
            Protocol::Udp { port } | Protocol::Tcp { port } => port,
        };
        let settings = &target.settings;
        let ahead = usize::try_from(settings.preload).unwrap_or(MAX_IN_FLIGHT);
        let slots = Flights::slots(settings.timeout, settings.interval)
            .max(ahead.min(MAX_IN_FLIGHT).next_power_of_two());
        let destination = self.destination(id, number, target, port, slots);
        self.schedule.count_in(settings.interval, settings.flood);
        let watched = Watched {
            destination,
            settings: settings.clone(),
            planned: self.woken,
            due: self.woken,
            interval: settings.interval.into(),
            timeout: settings.timeout.into(),
            last: Timestamp::from_nanos(0),
            sent: 0,
            is_answered: false,
            has_news: false,
            open: 0,
            expiries: VecDeque::new(),
        };
        self.targets.insert(id, watched);
        Ok(sockets)
    }

    fn begin(&mut self, id: TargetId) {
        let Some(target) = self.targets.get_mut(&id) else {
            return;
        };
        let (now, interval) = (now(), target.settings.interval.into());
        let origin = *self.origin.get_or_insert(now);
        let first = pacing::first(origin, pacing::phase(self.added, interval), interval, now);
        self.added += 1;
        (target.planned, target.due) = (first, first);
        self.schedule.at(first, Timer::Due(id));
        if let Some(deadline) = target.settings.deadline {
            self.schedule
                .at(now + Nanos::from(deadline), Timer::Deadline(id));
        }
    }

    /// Take back a target that has not begun.
    fn forget(&mut self, id: TargetId) {
        if let Some(target) = self.targets.remove(&id) {
            let settings = &target.settings;
            self.schedule.count_out(settings.interval, settings.flood);
            self.leave(id, target.destination);
        }
    }

    fn lane(&mut self, target: &Target) -> Result<(u32, Sockets)> {
        let key = Key::of(target);
        if let Some(number) = self.lane_of.get(&key) {
            return Ok((*number, self.lanes[number].sockets()));
        }
        let [low, high, ..] = self.secret.hash_one(self.made).to_le_bytes();
        let lane = Lane::open(key.clone(), &self.support, u16::from_le_bytes([low, high]))?;
        self.made += 1;
        let number = self.made;
        let (sockets, ports) = (lane.sockets(), lane.ports.len());
        self.lanes.insert(number, lane);
        (0..ports).try_for_each(|index| self.add_to_epoll((number, index)))?;
        self.lane_of.insert(key, number);
        Ok((number, sockets))
    }

    fn destination(
        &mut self,
        id: TargetId,
        lane: u32,
        target: &Target,
        port: u16,
        slots: usize,
    ) -> u32 {
        let number = match self.destination_of.entry((lane, target.address, port)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.made += 1;
                let known = self.lanes.get_mut(&lane);
                let address = known.map(|lane| {
                    lane.destinations += 1;
                    lane.key.peer(target.address, port)
                });
                let destination = Destination {
                    lane,
                    address: address.unwrap_or(SocketAddr::new(target.address, port)),
                    flights: Flights::new(slots),
                    targets: BTreeSet::new(),
                    source: None,
                };
                self.destinations.insert(self.made, destination);
                *new.insert(self.made)
            }
        };
        if let Some(destination) = self.destinations.get_mut(&number) {
            destination.targets.insert(id);
            let all = slots * destination.targets.len();
            destination
                .flights
                .grow(all.next_power_of_two().min(MAX_IN_FLIGHT));
        }
        number
    }
}
