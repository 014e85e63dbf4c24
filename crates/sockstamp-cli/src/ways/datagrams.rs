//! The messages of UDP, by their stamps: those of messages and of packets are taken in the same
//! hooks, one after the other. A packet has the message whose stamp is nearest to its own, unless
//! another packet is nearer to that message: not every message is measured.

use std::collections::{BTreeMap, HashMap, VecDeque};

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_model::packet::{Headers, MessageName, PacketStage, Way};
use sockstamp_model::stage::Direction;

use super::side::{MESSAGES, Side, name, side};

/// The stamps of a packet and its message are no further apart: programs, and, where fragments are
/// put together, the receive path.
const NEAR: Nanos = Nanos::from_micros(100);
/// A datagram's fragments follow each other within this time.
const TOGETHER: Nanos = Nanos::from_millis(1);
/// Datagrams whose fragments are remembered.
const FRAGMENTED: usize = 4_096;

#[derive(Debug)]
struct Datagram {
    bytes: u64,
    name: MessageName,
    /// The distance of the nearest packet so far.
    nearest: Option<Nanos>,
}

/// The messages of all flows, of each direction, by their stamps.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    sides: HashMap<Side, BTreeMap<u64, Datagram>>,
    /// The oldest first.
    order: VecDeque<(Side, u64)>,
    /// The messages of first fragments, by the id of the datagram: later ones have no ports.
    fragmented: HashMap<(Side, u32), MessageName>,
}

/// Return the stamp that a packet has, too.
fn stamp(message: &Message) -> Option<Timestamp<Monotonic>> {
    match message.direction {
        Direction::Tx => message.stamps.sched_last,
        Direction::Rx => message.stamps.ready,
    }
}

/// Return the stamp that a message has, too.
fn stamp_of(way: &Way) -> Timestamp<Monotonic> {
    let stage = match way.packet.direction {
        Direction::Tx => PacketStage::Sched,
        Direction::Rx => PacketStage::Socket,
    };
    way.stamps[stage as usize].unwrap_or_else(|| way.last())
}

fn apart(a: u64, b: u64) -> Nanos {
    Nanos(a.abs_diff(b))
}

/// A buffer may be smaller than the datagram that it takes.
fn fits(message: &Datagram, payload: u64, direction: Direction) -> bool {
    match direction {
        Direction::Tx => message.bytes == payload,
        Direction::Rx => message.bytes <= payload,
    }
}

impl Datagrams {
    pub(super) fn message(&mut self, message: &Message) {
        let Some(stamp) = stamp(message) else { return };
        let side = side(&message.flow, message.direction);
        let datagram = Datagram {
            bytes: message.bytes,
            name: name(message, None),
            nearest: None,
        };
        let datagrams = self.sides.entry(side).or_default();
        datagrams.insert(stamp.as_nanos(), datagram);
        self.order.push_back((side, stamp.as_nanos()));
        if self.order.len() > MESSAGES {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((side, stamp)) = self.order.pop_front() else {
            return;
        };
        if let Some(datagrams) = self.sides.get_mut(&side) {
            datagrams.remove(&stamp);
            if datagrams.is_empty() {
                self.sides.remove(&side);
            }
        }
    }

    /// Find the message of a packet; `later` are those that were seen after it, in their order.
    pub(super) fn message_of(&mut self, way: &Way, later: &VecDeque<Way>) -> Option<MessageName> {
        let side = side(&way.packet.flow, way.packet.direction);
        let headers = way.packet.headers()?;
        let datagram = headers.id.map(|id| (side, id));
        match headers.fragment {
            None => self.nearest(way, side, headers.payload.into(), later),
            Some(0) => {
                let name = self.of_fragments(way, side, &headers, later)?;
                if self.fragmented.len() >= FRAGMENTED {
                    self.fragmented.clear();
                }
                self.fragmented.insert(datagram?, name);
                Some(name)
            }
            Some(_) => self.fragmented.get(&datagram?).copied(),
        }
    }

    fn nearest(
        &mut self,
        way: &Way,
        side: Side,
        payload: u64,
        later: &VecDeque<Way>,
    ) -> Option<MessageName> {
        let (at, direction) = (stamp_of(way).as_nanos(), way.packet.direction);
        let (stamp, message) = near(self.sides.get_mut(&side)?, at, payload, direction)?;
        let distance = apart(at, stamp);
        let is_nearer = |other: &Way| {
            let payload = other.packet.headers().map(|headers| headers.payload);
            payload.is_some_and(|payload| fits(message, payload.into(), direction))
                && apart(stamp_of(other).as_nanos(), stamp) < distance
        };
        let mut others = soon(way, side, later, NEAR.saturating_add(NEAR));
        if message.nearest.is_some_and(|nearest| nearest <= distance) || others.any(is_nearer) {
            return None;
        }
        message.nearest = Some(distance);
        Some(message.name)
    }

    /// Find the message of a first fragment; its bytes are those of all fragments.
    fn of_fragments(
        &mut self,
        way: &Way,
        side: Side,
        headers: &Headers,
        later: &VecDeque<Way>,
    ) -> Option<MessageName> {
        let mut payload = u64::from(headers.payload);
        let mut at = stamp_of(way);
        for other in soon(way, side, later, TOGETHER) {
            let others = other.packet.headers().filter(|others| {
                others.id == headers.id && others.fragment.is_some_and(|offset| offset > 0)
            });
            if let Some(others) = others {
                payload += u64::from(others.payload);
                at = at.max(stamp_of(other));
            }
        }
        let datagrams = self.sides.get_mut(&side)?;
        let (_, message) = near(datagrams, at.as_nanos(), payload, way.packet.direction)?;
        Some(message.name)
    }
}

/// Find the nearest message of a packet's size.
fn near(
    datagrams: &mut BTreeMap<u64, Datagram>,
    at: u64,
    payload: u64,
    direction: Direction,
) -> Option<(u64, &mut Datagram)> {
    let around = at.saturating_sub(NEAR.0)..=at.saturating_add(NEAR.0);
    let fitting = datagrams
        .range_mut(around)
        .filter(|(_, message)| fits(message, payload, direction));
    fitting
        .min_by_key(|(stamp, _)| apart(at, **stamp))
        .map(|(stamp, message)| (*stamp, message))
}

/// Iterate over the packets of the same flow that were seen within this time after one.
fn soon<'a>(
    way: &Way,
    of: Side,
    later: &'a VecDeque<Way>,
    within: Nanos,
) -> impl Iterator<Item = &'a Way> + use<'a> {
    let first = way.packet.stamp;
    let in_time = move |other: &&Way| {
        let after = other.packet.stamp.since(first);
        after.is_none_or(|after| after <= within)
    };
    let same = move |other: &&Way| side(&other.packet.flow, other.packet.direction) == of;
    later.iter().take_while(in_time).filter(same)
}
