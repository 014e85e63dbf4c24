//! Turn records of packets into the model's.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sockstamp_model::clock::{ClockOffset, Monotonic, Realtime, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::interface::Interface;
use sockstamp_model::name::Name;
use sockstamp_model::packet::{Packet, PacketStage, Segments};
use sockstamp_model::stage::Direction;

use crate::abi::raw::{direction, packet_record};

/// Return the model's view of a record; `None` if a field has a value that no version of ours
/// writes.
pub(super) fn packet<'a>(
    record: &packet_record,
    bytes: &'a [u8],
    to_realtime: ClockOffset<Monotonic, Realtime>,
    cgroup_path: Option<&'a Name>,
) -> Option<Packet<'a>> {
    let netns = NetnsInode(record.key.netns);
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
        cgroup: (record.cgroup != 0).then_some(CgroupId(record.cgroup)),
        cgroup_path: cgroup_path.map(Cow::Borrowed),
        pid: (record.pid != 0).then_some(record.pid),
        comm: Name::from_c(&record.comm),
        interface: Interface {
            name: Name::from_c(&record.interface),
            index: record.ifindex,
            netns,
        },
        length: record.length,
        segments: (record.gso_size != 0).then_some(Segments {
            size: record.gso_size,
            count: record.gso_segs,
        }),
        bytes: Cow::Borrowed(bytes),
    })
}

/// The words are in the order of the network, as in memory.
fn end(address: [u32; 4], port: u16) -> SocketAddr {
    let [a, b, c, d] = address.map(u32::from_be);
    let ip = match (a, b, c) {
        // Mapped: RFC 4291, section 2.5.5.2.
        (0, 0, 0xffff) => IpAddr::V4(Ipv4Addr::from_bits(d)),
        _ => {
            let [a, b, c, d] = [a, b, c, d].map(u128::from);
            IpAddr::V6(Ipv6Addr::from_bits(a << 96 | b << 64 | c << 32 | d))
        }
    };
    SocketAddr::new(ip, port)
}
