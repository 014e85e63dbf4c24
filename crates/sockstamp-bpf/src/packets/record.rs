//! Turn records of packets into the model's.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use sockstamp_model::clock::{ClockOffset, Monotonic, Realtime, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::interface::Interface;
use sockstamp_model::name::Name;
use sockstamp_model::packet::{Packet, PacketStage, Segments};
use sockstamp_model::stage::Direction;

use crate::abi::raw::{direction, packet_record};
use crate::map_view;

/// A record, copied out of the ring.
pub(super) struct Raw {
    record: packet_record,
    bytes: Box<[u8]>,
}

impl Raw {
    /// Copy a sample of the ring; `None` if it is not one of ours.
    pub(super) fn of(sample: &[u8]) -> Option<Self> {
        let record = *map_view::packet(sample)?;
        let bytes = sample.get(size_of::<packet_record>()..)?;
        let captured = usize::try_from(record.captured).ok()?;
        Some(Self {
            record,
            bytes: bytes.get(..captured)?.into(),
        })
    }

    pub(super) fn time(&self) -> u64 {
        self.record.time
    }

    pub(super) fn cgroup(&self) -> Option<u64> {
        (self.record.cgroup != 0).then_some(self.record.cgroup)
    }

    /// Return the model's view; `None` if a field has a value that no version of ours writes.
    pub(super) fn into_packet(
        self,
        to_realtime: ClockOffset<Monotonic, Realtime>,
        cgroup_path: Option<Name>,
    ) -> Option<Packet> {
        let record = &self.record;
        let netns = NetnsInode(record.key.netns);
        let text = |bytes: [i8; 16]| Name::from_c(&bytes.map(i8::cast_unsigned));
        Some(Packet {
            stage: *PacketStage::ALL.get(usize::from(record.stage))?,
            direction: match u32::from(record.direction) {
                direction::DIRECTION_TX => Direction::Tx,
                direction::DIRECTION_RX => Direction::Rx,
                _ => return None,
            },
            time: to_realtime.convert(Timestamp::from_nanos(record.time)),
            stamp: Timestamp::from_nanos(record.time),
            address: record.address,
            flow: Flow {
                netns,
                protocol: Protocol::from_number(u8::try_from(record.key.protocol).ok()?)?,
                local: end(record.key.local_address, record.key.local_port),
                remote: end(record.key.remote_address, record.key.remote_port),
                cookie: SocketCookie(record.cookie),
            },
            cgroup: self.cgroup().map(CgroupId),
            cgroup_path,
            pid: (record.pid != 0).then_some(record.pid),
            comm: text(record.comm),
            interface: Interface {
                name: text(record.interface),
                index: record.ifindex,
                netns,
            },
            length: record.length,
            segments: (record.gso_size != 0).then_some(Segments {
                size: record.gso_size,
                count: record.gso_segs,
            }),
            bytes: self.bytes,
        })
    }
}

fn end(address: [u32; 4], port: u16) -> SocketAddr {
    let mut octets = [0; 16];
    for (part, word) in octets.chunks_exact_mut(4).zip(address) {
        part.copy_from_slice(&word.to_ne_bytes());
    }
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(), port)
}
