//! Packets with all their stages, each with the message that it belongs to.

mod datagrams;
mod side;
mod streams;

use std::collections::{HashMap, VecDeque};

use sockstamp_host::clock;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::flow::Protocol;
use sockstamp_model::message::Message;
use sockstamp_model::packet::{Ids, Packet, Way};
use sockstamp_model::stage::Direction;

use datagrams::Datagrams;
use streams::Streams;

/// Packets wait this long for their message, which ends with its acknowledgement or its read.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// Packets that wait at most: some tens of megabytes.
const WAITING: usize = 65_536;

/// Packets that wait for their further stages and their messages.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    ids: Ids,
    /// In the order of the times at which they were seen first.
    waiting: VecDeque<Way>,
    /// The number of the first of these; each has the next number.
    first: u64,
    /// The numbers, by the id of the packet, and whether it was received.
    numbers: HashMap<(u64, bool), u64>,
    streams: Streams,
    datagrams: Datagrams,
}

fn key(id: u64, packet: &Packet<'_>) -> (u64, bool) {
    (id, packet.direction == Direction::Rx)
}

impl Ways {
    /// Take a packet at a stage; they come in the order of their times.
    pub(crate) fn packet(&mut self, packet: &Packet<'_>) {
        let Some((id, _)) = self.ids.id(packet) else {
            return;
        };
        let next = self.first + self.waiting.len() as u64;
        let number = *self.numbers.entry(key(id, packet)).or_insert(next);
        let place = usize::try_from(number - self.first).ok();
        match place.and_then(|place| self.waiting.get_mut(place)) {
            Some(way) => way.stamps[packet.stage as usize] = Some(packet.stamp),
            None => self
                .waiting
                .push_back(Way::new(id, packet.clone().into_owned())),
        }
    }

    /// Take a message.
    pub(crate) fn message(&mut self, message: &Message) {
        if message.is_connection() {
            return;
        }
        match message.flow.protocol {
            Protocol::Tcp => self.streams.message(message),
            Protocol::Udp => self.datagrams.message(message),
        }
    }

    /// Return the packets that have waited long enough.
    pub(crate) fn ready(&mut self) -> Vec<Way> {
        // No way is ready if the clock cannot be read.
        let now = clock::now().unwrap_or(Timestamp::from_nanos(0));
        self.ready_at(now)
    }

    fn ready_at(&mut self, now: Timestamp<Monotonic>) -> Vec<Way> {
        let mut ready = Vec::new();
        while let Some(way) = self.waiting.front() {
            let waited = now.since(way.packet.stamp);
            if waited.is_none_or(|waited| waited < PATIENCE) && self.waiting.len() <= WAITING {
                break;
            }
            ready.extend(self.take_first());
        }
        ready
    }

    /// Return all packets.
    pub(crate) fn rest(&mut self) -> Vec<Way> {
        std::iter::from_fn(|| self.take_first()).collect()
    }

    fn take_first(&mut self) -> Option<Way> {
        let mut way = self.waiting.pop_front()?;
        self.first += 1;
        self.numbers.remove(&key(way.id, &way.packet));
        way.message = match way.packet.flow.protocol {
            Protocol::Tcp => self.streams.message_of(&way),
            Protocol::Udp => self.datagrams.message_of(&way, &self.waiting),
        };
        Some(way)
    }
}

#[cfg(test)]
mod tests;
