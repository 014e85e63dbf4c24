//! Send the probe of a due target.

use std::hash::BuildHasher;
use std::io;
use std::net::IpAddr;

use nix::sys::epoll::{EpollEvent, EpollFlags};
use socket2::Socket;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

use crate::clocks::{self, Reading, now};
use crate::event::Fallback;
use crate::flights::State;
use crate::lane::{Kind, Probe};
use crate::packet::{Content, tcp};
use crate::times::Departure;
use crate::{Outcome, Result, TargetId, pacing};

use super::destination::{SOURCE_HOLDS, initial_sequence};
use super::schedule::Timer;
use super::{CONNECTION, GRACE, Worker};

/// The result of a send call.
struct Sent {
    result: io::Result<()>,
    unstamped: Option<Fallback>,
    connection: Option<Socket>,
}

impl Worker {
    /// Send the next probe of a target, and those that go with the first.
    pub(super) fn send(&mut self, id: TargetId) -> Result<()> {
        let Some(target) = self.targets.get_mut(&id) else {
            return Ok(());
        };
        let left = target
            .settings
            .count
            .map_or(u64::MAX, |count| count - target.sent);
        let together = match target.sent {
            0 => target.settings.preload.min(left),
            _ => left.min(1),
        };
        if together == 0 {
            // A flood is due with each answer, that of its last probes as well.
            return Ok(());
        }
        let now = now();
        self.plan(id, now, together == left);
        for _ in 0..together {
            self.send_one(id, now);
        }
        Ok(())
    }

    /// Plan the probe after the next one, unless that is the last.
    fn plan(&mut self, id: TargetId, now: Timestamp<Monotonic>, is_last: bool) {
        let Some(target) = self.targets.get_mut(&id) else {
            return;
        };
        target.last = now;
        if target.settings.flood {
            target.due = now + target.interval;
            if target.sent == 0 {
                self.schedule.at(target.due, Timer::Due(id));
            }
            return;
        }
        self.outbox.lateness.record((now - target.due).abs(), 1);
        let (planned, skipped) = pacing::next(target.planned, target.interval, now);
        self.outbox.counters.skipped += skipped;
        let random = self.secret.hash_one((target.destination, target.sent));
        let due = planned + pacing::part(random, target.settings.jitter.into());
        (target.planned, target.due) = (planned, due);
        if !is_last {
            self.schedule.at(due, Timer::Due(id));
        }
    }

    fn send_one(&mut self, id: TargetId, now: Timestamp<Monotonic>) {
        let Some(target) = self.targets.get_mut(&id) else {
            return;
        };
        target.sent += 1;
        target.open += 1;
        let (seq, destination) = (target.sent, target.destination);
        self.launch(id, seq, destination, now);
        if let Some(target) = self.targets.get_mut(&id) {
            let longer = |time: Nanos| {
                Nanos(
                    time.0
                        .saturating_mul(target.settings.backoff_percent.into())
                        / 100,
                )
            };
            (target.interval, target.timeout) = (longer(target.interval), longer(target.timeout));
        }
    }

    fn launch(&mut self, id: TargetId, seq: u64, destination: u32, now: Timestamp<Monotonic>) {
        self.make_room(destination);
        let Some(known) = self.destinations.get(&destination) else {
            return;
        };
        let probe = Probe {
            destination,
            number: known.flights.next(),
        };
        let Some(target) = self.targets.get(&id) else {
            return;
        };
        let content = Content::of(&target.settings);
        let (payload, hop_limit) = (content.length, target.settings.hop_limit);
        let before = Reading::take();
        let sent = self.transmit(probe, hop_limit, &content, now);
        let departure = Departure::new(before, clocks::now(), sent.unstamped);
        if let Some(known) = self.destinations.get_mut(&destination) {
            let evicted = known
                .flights
                .push(id, seq, payload, departure, sent.connection);
            if let Some(flight) = evicted.filter(|flight| flight.state.is_open()) {
                self.outbox.counters.evicted += 1;
                self.tell(flight.target, flight.seq, Outcome::Lost);
                self.end_if_complete(flight.target);
            }
        }
        match sent.result {
            Ok(()) => {
                self.outbox.counters.sent += 1;
                self.expect(id, probe.number, before.at);
            }
            Err(error) => self.conclude(probe, State::Over, Outcome::NotSent(error)),
        }
    }

    /// The next probe takes the place of the oldest. An answer that still waits there for stamps of
    /// its probe has waited long enough.
    fn make_room(&mut self, destination: u32) {
        let known = self.destinations.get(&destination);
        let oldest = known.and_then(|known| known.flights.oldest());
        if let Some(flight) = oldest {
            let number = flight.number;
            self.release(Probe {
                destination,
                number,
            });
        }
    }

    /// Note until when an answer is in time.
    fn expect(&mut self, id: TargetId, number: u64, sent: Timestamp<Monotonic>) {
        let Some(target) = self.targets.get_mut(&id) else {
            return;
        };
        let until = sent + target.timeout + GRACE;
        if target.expiries.is_empty() {
            self.schedule.at(until, Timer::Expire(id));
        }
        if target.expiries.len() == crate::MAX_IN_FLIGHT {
            // Pushed out of the ring before.
            target.expiries.pop_front();
        }
        target.expiries.push_back((until, number));
    }

    fn transmit(
        &mut self,
        probe: Probe,
        hop_limit: Option<u8>,
        content: &Content,
        now: Timestamp<Monotonic>,
    ) -> Sent {
        let failed = |error| Sent {
            result: Err(error),
            unstamped: None,
            connection: None,
        };
        let Some(known) = self.destinations.get(&probe.destination) else {
            return failed(super::os_error(nix::errno::Errno::EDESTADDRREQ));
        };
        let (lane, peer) = (known.lane, known.address);
        if matches!(self.lanes[&lane].kind, Kind::Connect) {
            return self.connect(probe, lane).unwrap_or_else(failed);
        }
        let source = match self.lanes[&lane].kind {
            Kind::RawTcp { .. } if peer.is_ipv4() => match self.source(probe.destination, now) {
                Ok(source) => Some(source),
                Err(error) => return failed(error),
            },
            _ => None,
        };
        let cookie = self.cookie(probe);
        let Some(lane) = self.lanes.get_mut(&lane) else {
            return failed(super::os_error(nix::errno::Errno::EDESTADDRREQ));
        };
        let mut to = lane.key.peer(peer.ip(), 0);
        match &lane.kind {
            Kind::Ping | Kind::RawIcmp { .. } => {
                lane.echo_request(&mut self.packet, probe.number, cookie, content);
            }
            Kind::RawTcp { ports, .. } => {
                let from = ports[usize::from(crate::lane::low(probe.number)) % ports.len()];
                let sequence = initial_sequence(probe.number, cookie);
                let ends = source.map(|source| (source, peer.ip()));
                self.packet.clear();
                self.packet
                    .extend(tcp::syn(from, peer.port(), sequence, ends));
            }
            Kind::Udp | Kind::Connect => {
                to = peer;
                self.packet.clear();
                content.write(&mut self.packet, cookie);
            }
        }
        if let Err(error) = lane.set_hop_limit(hop_limit) {
            return failed(error);
        }
        let index = lane.port_of(probe.number);
        let (result, unstamped) = lane.ports[index].send(probe, &self.packet, to, now);
        Sent {
            result,
            unstamped,
            connection: None,
        }
    }

    /// Our address on the route to a destination. Routes change, so it is looked up again from time
    /// to time. The checksum of a SYN in between would be wrong, and the SYN would be lost.
    fn source(&mut self, destination: u32, now: Timestamp<Monotonic>) -> io::Result<IpAddr> {
        let known = &self.destinations[&destination];
        let holds =
            |found: Timestamp<Monotonic>| now.since(found).is_some_and(|age| age < SOURCE_HOLDS);
        match known.source {
            Some((source, found)) if holds(found) => Ok(source),
            _ => {
                let source = self.lanes[&known.lane].source_towards(known.address)?;
                if let Some(known) = self.destinations.get_mut(&destination) {
                    known.source = Some((source, now));
                }
                Ok(source)
            }
        }
    }

    fn connect(&mut self, probe: Probe, lane: u32) -> io::Result<Sent> {
        let peer = self.destinations[&probe.destination].address;
        let socket = self.lanes[&lane].connect(peer)?;
        let [a, b, c, d, ..] = probe.number.to_le_bytes();
        let number = u32::from_le_bytes([a, b, c, d]);
        let token = CONNECTION | u64::from(probe.destination) << 32 | u64::from(number);
        self.epoll
            .add(&socket, EpollEvent::new(EpollFlags::EPOLLOUT, token))?;
        Ok(Sent {
            result: Ok(()),
            unstamped: Some(Fallback::NoPrivilege),
            connection: Some(socket),
        })
    }
}
