//! Turn packets and error-queue entries into results of probes.

use std::net::{IpAddr, SocketAddr};

use sockstamp::control::Origin;
use sockstamp::error_queue::NetworkError;
use sockstamp::timestamping::{self, RxStamp, TxStamp};

use crate::clocks::Reading;
use crate::event::{Answer, AnswerKind, Refusal, RefusalKind, Stray};
use crate::flights::{Reply, State};
use crate::lane::{Kind, Probe, low};
use crate::packet::icmp::has_cookie;
use crate::packet::tcp;
use crate::times::{Arrival, times};
use crate::{Error, Event, Outcome, Result};

use super::destination::{datagram, initial_sequence};
use super::inbox::{Inbox, Incoming, QueueEntry, Trouble};
use super::{CONNECTION, PORT, Worker, cookie};

impl Worker {
    /// A socket has packets, or entries in its error queue.
    pub(super) fn receive_from_lane(&mut self, token: u64, inbox: &mut Inbox) -> Result<()> {
        let Ok(lane) = u32::try_from(token >> PORT) else {
            return Ok(());
        };
        let index = usize::from(token.to_le_bytes()[0]);
        // Its last target may have ended with an event before this one.
        let Some(port) = self.lanes.get(&lane).and_then(|lane| lane.ports.get(index)) else {
            return Ok(());
        };
        let malformed = inbox.malformed();
        inbox
            .collect(port)
            .map_err(Error::call("recvmmsg", "a lane"))?;
        self.outbox.counters.malformed_reports += inbox.malformed() - malformed;
        for entry in inbox.entries.drain(..) {
            match entry {
                QueueEntry::Stamp(stamp) => self.stamp(lane, index, &stamp),
                QueueEntry::Error(trouble) => self.trouble(lane, index, &trouble),
            }
        }
        for incoming in inbox.incoming.drain(..) {
            self.packet_came(lane, index, &incoming);
        }
        Ok(())
    }

    fn stamp(&mut self, lane: u32, index: usize, stamp: &TxStamp) {
        let Some(port) = self
            .lanes
            .get_mut(&lane)
            .and_then(|lane| lane.ports.get_mut(index))
        else {
            return;
        };
        let mut of = None;
        match port.stamp(stamp, |probe| of = Some(probe)) {
            timestamping::Outcome::Matched => {}
            timestamping::Outcome::Duplicate => self.outbox.counters.repeated_stamps += 1,
            _ => self.outbox.counters.unmatched_stamps += 1,
        }
        let Some(probe) = of else { return };
        let Some(flight) = self.flight(probe) else {
            return;
        };
        flight.departure.add(stamp);
        if let State::Held(_, arrival) = &flight.state
            && !flight.departure.may_improve(&arrival.stamp)
        {
            self.release(probe);
        }
    }

    pub(super) fn packet_came(&mut self, lane: u32, index: usize, incoming: &Incoming) {
        let Some(from) = incoming.received.from else {
            return;
        };
        match self.find(lane, index, from, incoming) {
            Ok((probe, reply)) => {
                let arrival = self.arrival(incoming.received.stamp, incoming.read);
                self.answer(probe, reply, arrival, from.ip());
            }
            Err((why, destination)) => self.stray(from.ip(), why, destination),
        }
    }

    fn arrival(&self, stamp: RxStamp, read: Reading) -> Arrival {
        Arrival {
            stamp,
            woken: self.woken,
            read,
        }
    }

    /// Find the probe that a packet answers, or the reason why there is none and the apparent
    /// sender.
    fn find(
        &mut self,
        number: u32,
        index: usize,
        from: SocketAddr,
        incoming: &Incoming,
    ) -> std::result::Result<(Probe, Reply), (Stray, Option<u32>)> {
        let lane = self.lanes.get(&number).ok_or((Stray::Unknown, None))?;
        let head = incoming.head.bytes();
        let mut reply = Reply {
            kind: AnswerKind::EchoReply,
            from: from.ip(),
            hop_limit: incoming.received.hop_limit,
            bytes: 0,
            missing: 0,
            reordered: false,
        };
        match &lane.kind {
            Kind::Ping | Kind::RawIcmp { .. } => {
                let echo = lane.echo_reply(head).ok_or((Stray::Truncated, None))?;
                // Examine the head, and count the rest.
                let payload = echo.payload.len() + incoming.received.length - head.len();
                let destination = self.destination_at(number, from.ip(), 0)?;
                let (probe, sent) = self.remembered(destination, echo.sequence)?;
                match has_cookie(echo.payload, self.cookie(probe), sent) {
                    Some(true) => {}
                    Some(false) => return Err((Stray::Cookie, Some(destination))),
                    None => return Err((Stray::Truncated, Some(destination))),
                }
                reply.bytes = payload;
                reply.missing = sent.saturating_sub(payload);
                Ok((probe, reply))
            }
            Kind::Udp => {
                let destination = self.destination_at(number, from.ip(), from.port())?;
                reply.kind = AnswerKind::UdpReply;
                reply.bytes = incoming.received.length;
                let index = lane.turn_of(index);
                let probe = self.datagram(destination, index, head)?;
                Ok((probe, reply))
            }
            Kind::RawTcp { ports, .. } => {
                let segment = lane
                    .without_ip_header(head)
                    .and_then(tcp::parse)
                    .ok_or((Stray::Truncated, None))?;
                let port = ports[usize::from(low(segment.acknowledged.into())) % ports.len()];
                let destination = self.destination_at(number, from.ip(), segment.from)?;
                let (probe, _) = self.remembered(destination, low(segment.acknowledged.into()))?;
                if segment.acknowledged != initial_sequence(probe.number, self.cookie(probe))
                    || segment.to != port
                {
                    return Err((Stray::Cookie, Some(destination)));
                }
                reply.kind = match segment.reset {
                    true => AnswerKind::Reset,
                    false => AnswerKind::SynAck,
                };
                Ok((probe, reply))
            }
            Kind::Connect => Err((Stray::Unknown, None)),
        }
    }

    fn destination_at(
        &self,
        lane: u32,
        address: IpAddr,
        port: u16,
    ) -> std::result::Result<u32, (Stray, Option<u32>)> {
        self.destination_of
            .get(&(lane, address, port))
            .copied()
            .ok_or((Stray::Source, None))
    }

    /// The probe with these low bits, if it is remembered, and how many bytes it carried.
    fn remembered(
        &mut self,
        destination: u32,
        low: u16,
    ) -> std::result::Result<(Probe, usize), (Stray, Option<u32>)> {
        let unknown = (Stray::Unknown, Some(destination));
        let known = self.destinations.get_mut(&destination).ok_or(unknown)?;
        let number = known.flights.latest(low.into(), u16::BITS).ok_or(unknown)?;
        let flight = known.flights.get(number).ok_or(unknown)?;
        Ok((
            Probe {
                destination,
                number,
            },
            flight.payload,
        ))
    }

    fn datagram(
        &mut self,
        destination: u32,
        index: Option<usize>,
        payload: &[u8],
    ) -> std::result::Result<Probe, (Stray, Option<u32>)> {
        let unknown = (Stray::Unknown, Some(destination));
        let secret = &self.secret;
        let known = self.destinations.get_mut(&destination).ok_or(unknown)?;
        let cookie = |number| {
            cookie(
                secret,
                Probe {
                    destination,
                    number,
                },
            )
        };
        let number = datagram(&mut known.flights, index, payload, cookie).ok_or(unknown)?;
        Ok(Probe {
            destination,
            number,
        })
    }

    fn stray(&mut self, from: IpAddr, why: Stray, destination: Option<u32>) {
        let counters = &mut self.outbox.counters;
        *match why {
            Stray::Source => &mut counters.stray_source,
            Stray::Cookie => &mut counters.stray_cookie,
            Stray::Unknown => &mut counters.stray_unknown,
            Stray::Truncated => &mut counters.stray_truncated,
        } += 1;
        let known = destination.and_then(|destination| self.destinations.get(&destination));
        let target = known.and_then(|known| known.targets.first().copied());
        self.outbox.send(Event::Stray { target, from, why });
    }

    /// An answer came: now, late, or again.
    fn answer(&mut self, probe: Probe, mut reply: Reply, arrival: Arrival, from: IpAddr) {
        let Some(known) = self.destinations.get_mut(&probe.destination) else {
            return;
        };
        let Some(flight) = known.flights.get(probe.number) else {
            return;
        };
        if !self.targets.contains_key(&flight.target) {
            return self.stray(from, Stray::Unknown, Some(probe.destination));
        }
        match flight.state {
            State::Waiting => {
                let (waits, target) = (flight.departure.may_improve(&arrival.stamp), flight.target);
                reply.reordered = known.flights.answered(probe.number);
                if let Some(flight) = known.flights.get(probe.number) {
                    flight.state = State::Held(reply, arrival);
                }
                self.follow(target);
                match waits {
                    true => {
                        let until = arrival.read.at + self.stamp_wait;
                        self.schedule.hold(probe, until);
                    }
                    false => self.release(probe),
                }
            }
            State::Lost => {
                flight.state = State::Answered;
                reply.reordered = known.flights.answered(probe.number);
                self.late(probe, reply, &arrival);
            }
            State::Held(..) | State::Answered => {
                let (target, seq) = (flight.target, flight.seq);
                let answer = reply.answer(times(&flight.departure, &arrival));
                self.outbox.counters.duplicate += 1;
                self.outbox.send(Event::Duplicate {
                    target,
                    seq,
                    answer,
                });
            }
            State::Over => self.stray(from, Stray::Unknown, Some(probe.destination)),
        }
    }

    /// Tell an answer with the stamps that have come.
    pub(super) fn release(&mut self, probe: Probe) {
        let Some(flight) = self.flight(probe) else {
            return;
        };
        let State::Held(reply, arrival) = flight.state else {
            return;
        };
        self.schedule.released(probe);
        let Some(flight) = self.flight(probe) else {
            return;
        };
        let answer = reply.answer(times(&flight.departure, &arrival));
        let target = flight.target;
        let timeout = self.targets.get(&target).map(|target| target.timeout);
        if timeout.is_some_and(|timeout| answer.times.rtt > timeout) {
            self.conclude(probe, State::Answered, Outcome::Lost);
            self.late(probe, reply, &arrival);
        } else {
            self.conclude(probe, State::Answered, Outcome::Answered(answer));
        }
    }

    fn late(&mut self, probe: Probe, reply: Reply, arrival: &Arrival) {
        let Some(flight) = self.flight(probe) else {
            return;
        };
        let answer = reply.answer(times(&flight.departure, arrival));
        let (target, seq) = (flight.target, flight.seq);
        self.outbox.counters.late += 1;
        self.outbox.counters.reordered += u64::from(answer.reordered);
        self.outbox.count_fallback(&answer.times);
        self.outbox.send(Event::Late {
            target,
            seq,
            answer,
        });
    }

    /// The network refused something.
    fn trouble(&mut self, lane: u32, index: usize, trouble: &Trouble) {
        let error = &trouble.error;
        // Skip it: the send call has reported this host's own refusal.
        if error.origin == Origin::Local {
            return;
        }
        let found = trouble
            .destination
            .and_then(|to| self.refused(lane, index, to, trouble.quoted.bytes()));
        let Some(probe) = found else {
            self.outbox.counters.stray_error += 1;
            return;
        };
        let arrival = self.arrival(error.stamp, trouble.read);
        if let (Some(from), true) = (
            error.offender,
            is_port_unreachable(error) && self.is_datagram(lane),
        ) {
            let reply = Reply {
                kind: AnswerKind::PortUnreachable,
                from,
                hop_limit: None,
                bytes: 0,
                missing: 0,
                reordered: false,
            };
            return self.answer(probe, reply, arrival, from);
        }
        let Some(flight) = self.flight(probe) else {
            return;
        };
        let refusal = Refusal {
            kind: meaning(error),
            from: error.offender,
            icmp_type: error.kind,
            icmp_code: error.code,
            errno: error.errno.cast_signed(),
            times: times(&flight.departure, &arrival),
        };
        match flight.state {
            State::Waiting => self.conclude(probe, State::Over, Outcome::Refused(refusal)),
            State::Lost => {
                let (target, seq) = (flight.target, flight.seq);
                flight.state = State::Over;
                self.outbox.counters.late_refused += 1;
                self.outbox.send(Event::LateRefusal {
                    target,
                    seq,
                    refusal,
                });
            }
            State::Held(..) | State::Answered | State::Over => {
                self.outbox.counters.stray_error += 1;
            }
        }
    }

    fn is_datagram(&self, lane: u32) -> bool {
        self.lanes
            .get(&lane)
            .is_some_and(|lane| matches!(lane.kind, Kind::Udp))
    }

    /// Find the probe that an error quotes.
    fn refused(
        &mut self,
        number: u32,
        index: usize,
        to: SocketAddr,
        quoted: &[u8],
    ) -> Option<Probe> {
        let lane = self.lanes.get(&number)?;
        match &lane.kind {
            Kind::Ping | Kind::RawIcmp { .. } => {
                let echo = lane.echo_request_in(quoted)?;
                let destination = self.destination_at(number, to.ip(), 0).ok()?;
                let (probe, sent) = self.remembered(destination, echo.sequence).ok()?;
                // A router need not quote so much.
                (has_cookie(echo.payload, self.cookie(probe), sent) != Some(false)).then_some(probe)
            }
            Kind::Udp => {
                let destination = self.destination_at(number, to.ip(), to.port()).ok()?;
                let index = lane.turn_of(index);
                self.datagram(destination, index, quoted).ok()
            }
            Kind::RawTcp { .. } => {
                let (_, port, sequence) = tcp::quoted(quoted)?;
                let destination = self.destination_at(number, to.ip(), port).ok()?;
                let (probe, _) = self.remembered(destination, low(sequence.into())).ok()?;
                (sequence == initial_sequence(probe.number, self.cookie(probe))).then_some(probe)
            }
            Kind::Connect => None,
        }
    }

    /// The connection is established, or has failed.
    pub(super) fn receive_from_connection(&mut self, token: u64) {
        let read = Reading::take();
        let Ok(destination) = u32::try_from((token & !CONNECTION) >> 32) else {
            return;
        };
        let Some(known) = self.destinations.get_mut(&destination) else {
            return;
        };
        let Some(number) = known.flights.latest(token & u64::from(u32::MAX), u32::BITS) else {
            return;
        };
        let (probe, from) = (
            Probe {
                destination,
                number,
            },
            known.address.ip(),
        );
        let Some(flight) = known.flights.get(number) else {
            return;
        };
        let Some(socket) = flight.connection.take() else {
            return;
        };
        let arrival = self.arrival(RxStamp::default(), read);
        let kind = match socket.take_error() {
            Ok(None) => AnswerKind::SynAck,
            Ok(Some(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                AnswerKind::Reset
            }
            Ok(Some(error)) | Err(error) => {
                return self.conclude(probe, State::Over, Outcome::NotSent(error));
            }
        };
        let reply = Reply {
            kind,
            from,
            hop_limit: None,
            bytes: 0,
            missing: 0,
            reordered: false,
        };
        self.answer(probe, reply, arrival, from);
    }
}

impl Reply {
    fn answer(self, times: crate::Times) -> Answer {
        Answer {
            kind: self.kind,
            from: self.from,
            times,
            hop_limit: self.hop_limit,
            bytes: self.bytes,
            missing: self.missing,
            reordered: self.reordered,
        }
    }
}

/// RFC 792 and RFC 4443, section 3.1.
fn is_port_unreachable(error: &NetworkError) -> bool {
    matches!(
        (error.origin, error.kind, error.code),
        (Origin::Icmp, 3, 3) | (Origin::Icmp6, 1, 4)
    )
}

fn meaning(error: &NetworkError) -> RefusalKind {
    match (error.origin, error.kind, error.code) {
        (Origin::Icmp, 3, 4) | (Origin::Icmp6, 2, _) => RefusalKind::TooBig { mtu: error.info },
        (Origin::Icmp, 3, _) | (Origin::Icmp6, 1, _) => RefusalKind::Unreachable,
        (Origin::Icmp, 11, 0) | (Origin::Icmp6, 3, 0) => RefusalKind::HopLimit,
        _ => RefusalKind::Other,
    }
}
