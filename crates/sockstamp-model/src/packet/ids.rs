//! Give a packet one id at all stages of its path.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use rustc_hash::FxHashMap;

use super::{Headers, Packet, PacketStage};
use crate::clock::{Nanos, Realtime, Timestamp};
use crate::stage::Direction;

/// Packets that may be on their way through the host at one time, and flows with large packets.
const PLACES: usize = 65_536;
const FLOWS: usize = 4_096;
/// Large packets of a flow that are remembered until a driver has cut them into segments.
const LARGE: usize = 256;
/// No packet is longer on its way through the host. Its memory is another packet's later.
const LONGEST: Nanos = Nanos::from_secs(10);

/// The fields that a packet keeps from stage to stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    source: SocketAddr,
    destination: SocketAddr,
    length: u32,
    headers: Option<Headers>,
}

impl Identity {
    fn of(packet: &Packet<'_>) -> Self {
        let (local, remote) = (packet.flow.local, packet.flow.remote);
        let (source, destination) = match packet.direction {
            Direction::Tx => (local, remote),
            Direction::Rx => (remote, local),
        };
        Self {
            source,
            destination,
            length: packet.length,
            headers: packet.headers(),
        }
    }

    /// Return true if this is a packet at an earlier stage.
    fn is_of(&self, packet: &Packet<'_>, later: &Self) -> bool {
        match packet.stage {
            // Others may be put together with it there: tcp_add_backlog(), Linux 6.18.
            PacketStage::Tcp => self.begins_as(later),
            _ => self == later,
        }
    }

    fn begins_as(&self, other: &Self) -> bool {
        let seq = |one: &Self| Some(one.headers?.segment?.seq);
        self.source == other.source
            && self.destination == other.destination
            && seq(self) == seq(other)
    }

    /// The sequence numbers of its payload.
    fn range(&self) -> Option<(u32, u32)> {
        let headers = self.headers.filter(|headers| headers.payload > 0)?;
        let seq = headers.segment?.seq;
        Some((seq, seq.wrapping_add(headers.payload)))
    }
}

/// A packet that was seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    identity: Identity,
    id: u64,
    stage: PacketStage,
    interface: u32,
    time: Timestamp<Realtime>,
}

impl Seen {
    /// Return the id if this was the same packet, at an earlier stage or at another interface.
    fn same(&self, packet: &Packet<'_>, identity: &Identity) -> Option<u64> {
        let elsewhere = packet.interface.index != self.interface;
        let later = packet.stage > self.stage
            || packet.stage == self.stage && elsewhere
            || packet.stage == PacketStage::Sched && self.stage == PacketStage::Driver && elsewhere;
        let in_time = packet
            .time
            .since(self.time)
            .is_none_or(|time| time < LONGEST);
        (later && in_time && self.identity.is_of(packet, identity)).then_some(self.id)
    }
}

/// A large packet on its way to the driver.
#[derive(Debug, Clone, Copy)]
struct Large {
    first: u32,
    end: u32,
    id: u64,
}

/// The large packets of flows, from source to destination.
type Flows = HashMap<(SocketAddr, SocketAddr), VecDeque<Large>>;

/// Find the large packet of which this is a segment.
fn whole(flows: &Flows, packet: &Packet<'_>, identity: &Identity) -> Option<u64> {
    if flows.is_empty() || packet.stage != PacketStage::Driver {
        return None;
    }
    let (first, end) = identity.range()?;
    let flow = flows.get(&(identity.source, identity.destination))?;
    let within = |large: &&Large| !before(first, large.first) && !before(large.end, end);
    flow.iter().rev().find(within).map(|large| large.id)
}

/// The ids of packets. A packet keeps its id from the packet scheduler to the socket that receives
/// it, as long as it stays within this host; the segments into which it is cut before a driver have
/// it too. A retransmission is another packet.
#[derive(Debug, Default)]
pub struct Ids {
    last: u64,
    places: FxHashMap<u64, Seen>,
    flows: Flows,
}

impl Ids {
    /// Return the id of a packet, and whether it is new; `None` for a packet that TCP takes, and
    /// that was not seen before: it came before the recording began. Packets come in the order of
    /// their times.
    pub fn id(&mut self, packet: &Packet<'_>) -> Option<(u64, bool)> {
        let identity = Identity::of(packet);
        self.make_room(packet.time);
        let place = self.places.entry(packet.address);
        let before = match &place {
            Entry::Occupied(seen) => seen.get().same(packet, &identity),
            Entry::Vacant(_) => None,
        };
        let known = before.or_else(|| whole(&self.flows, packet, &identity));
        if known.is_none() && packet.stage == PacketStage::Tcp {
            return None;
        }
        let id = known.unwrap_or(self.last + 1);
        place.insert_entry(Seen {
            identity,
            id,
            stage: packet.stage,
            interface: packet.interface.index,
            time: packet.time,
        });
        self.last = self.last.max(id);
        let large = packet.stage == PacketStage::Sched && packet.segments.is_some();
        if let (true, Some((first, end))) = (large, identity.range()) {
            self.remember_large(
                (identity.source, identity.destination),
                Large { first, end, id },
            );
        }
        Some((id, known.is_none()))
    }

    fn make_room(&mut self, now: Timestamp<Realtime>) {
        if self.places.len() < PLACES {
            return;
        }
        let recent = |time| {
            now.since(time)
                .is_none_or(|time| time < Nanos::from_secs(1))
        };
        self.places.retain(|_, seen| recent(seen.time));
        if self.places.len() >= PLACES {
            self.places.clear();
        }
    }

    fn remember_large(&mut self, flow: (SocketAddr, SocketAddr), large: Large) {
        if self.flows.len() >= FLOWS && !self.flows.contains_key(&flow) {
            self.flows.clear();
        }
        let all = self.flows.entry(flow).or_default();
        if all.len() == LARGE {
            all.pop_front();
        }
        all.push_back(large);
    }
}

/// Compare sequence numbers, which wrap: RFC 9293, section 3.4.
fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::super::Segments;
    use super::*;
    use crate::flow::{Flow, NetnsInode, Protocol, SocketCookie};
    use crate::interface::Interface;
    use crate::name::Name;

    fn packet(stage: PacketStage, address: u64, seq: u32, payload: u32) -> Packet<'static> {
        let mut bytes = vec![0; 40];
        bytes[0] = 0x45;
        bytes[9] = 6;
        bytes[24..28].copy_from_slice(&seq.to_be_bytes());
        bytes[32] = 0x50;
        let (near, far) = (
            "10.0.0.1:1000".parse().unwrap(),
            "10.0.0.2:80".parse().unwrap(),
        );
        let received = stage >= PacketStage::Softirq;
        Packet {
            stage,
            direction: if received {
                Direction::Rx
            } else {
                Direction::Tx
            },
            time: Timestamp::from_nanos(1_000_000),
            stamp: Timestamp::from_nanos(1_000_000),
            address,
            flow: Flow {
                netns: NetnsInode(1),
                protocol: Protocol::Tcp,
                local: if received { far } else { near },
                remote: if received { near } else { far },
                cookie: SocketCookie(1),
            },
            cgroup: None,
            cgroup_path: None,
            pid: None,
            comm: Name::default(),
            interface: Interface {
                name: "eth0".into(),
                index: 2,
                netns: NetnsInode(1),
            },
            length: 40 + payload,
            segments: None,
            bytes: bytes.into(),
        }
    }

    #[test]
    fn a_packet_has_one_id_from_the_scheduler_to_the_other_socket() {
        let mut ids = Ids::default();
        for stage in PacketStage::ALL {
            assert_eq!(
                ids.id(&packet(stage, 7, 100, 50)),
                Some((1, stage == PacketStage::Sched))
            );
        }
        // The same memory, another packet.
        assert_eq!(
            ids.id(&packet(PacketStage::Sched, 7, 150, 50)),
            Some((2, true))
        );
    }

    #[test]
    fn tcp_takes_packets_that_were_seen_and_those_that_it_put_together_as_the_first() {
        let mut ids = Ids::default();
        assert_eq!(ids.id(&packet(PacketStage::Tcp, 7, 100, 50)), None);
        for (address, seq) in [(7, 100), (8, 150)] {
            ids.id(&packet(PacketStage::Socket, address, seq, 50));
        }
        assert_eq!(
            ids.id(&packet(PacketStage::Tcp, 7, 100, 100)),
            Some((1, false))
        );
        // Another packet has that memory now.
        assert_eq!(ids.id(&packet(PacketStage::Tcp, 8, 200, 50)), None);
    }

    #[test]
    fn a_retransmission_is_another_packet() {
        let mut ids = Ids::default();
        assert_eq!(
            ids.id(&packet(PacketStage::Sched, 7, 100, 50)).unwrap().0,
            1
        );
        assert_eq!(
            ids.id(&packet(PacketStage::Driver, 7, 100, 50)).unwrap().0,
            1
        );
        assert_eq!(
            ids.id(&packet(PacketStage::Sched, 7, 100, 50)).unwrap().0,
            2
        );
        assert_eq!(
            ids.id(&packet(PacketStage::Driver, 7, 100, 50)).unwrap().0,
            2
        );
    }

    #[test]
    fn a_packet_keeps_its_id_at_a_further_interface() {
        let mut ids = Ids::default();
        assert_eq!(
            ids.id(&packet(PacketStage::Sched, 7, 100, 50)).unwrap().0,
            1
        );
        assert_eq!(
            ids.id(&packet(PacketStage::Driver, 7, 100, 50)).unwrap().0,
            1
        );
        for stage in [PacketStage::Sched, PacketStage::Driver] {
            let mut further = packet(stage, 7, 100, 50);
            further.interface.index = 3;
            assert_eq!(ids.id(&further), Some((1, false)), "{stage}");
        }
    }

    #[test]
    fn segments_have_the_id_of_the_packet_that_they_were_cut_from() {
        let mut ids = Ids::default();
        let large = Packet {
            segments: Some(Segments {
                size: 100,
                count: 3,
            }),
            ..packet(PacketStage::Sched, 7, u32::MAX - 99, 300)
        };
        assert_eq!(ids.id(&large).unwrap().0, 1);
        for (address, seq) in [(8, u32::MAX - 99), (9, 0), (10, 100)] {
            assert_eq!(
                ids.id(&packet(PacketStage::Driver, address, seq, 100)),
                Some((1, false))
            );
        }
        assert_eq!(
            ids.id(&packet(PacketStage::Driver, 11, 200, 100)),
            Some((2, true))
        );
    }
}
