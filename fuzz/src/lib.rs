//! Write control messages and attributes, for the fuzz targets and the seeds of their corpora.

use std::borrow::Cow;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use sockstamp::control::{Arrival, Control, ExtendedError, Writer, space};

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::fixture;
use sockstamp_model::message::Message;
use sockstamp_model::packet::{MessageName, Packet, PacketStage, Way};
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_record::{Batch, FileWriter, Packets, Rows};

/// SO_TIMESTAMPING_NEW, SCM_TIMESTAMPING_OPT_STATS and SCM_TIMESTAMPING_PKTINFO of
/// include/uapi/asm-generic/socket.h, v6.18.
const TIMESTAMPING: i32 = 65;
const STATISTICS: i32 = 54;
const PACKET_INFO: i32 = 58;

/// The size of `struct cmsghdr`.
pub const HEADER: usize = size_of::<libc::cmsghdr>();
/// The size of `struct sock_extended_err`.
pub const EXTENDED_ERROR: usize = 16;

/// The bytes that are read as these messages.
pub fn written(messages: &[Control<'_>]) -> Vec<u8> {
    let raw: Vec<_> = messages.iter().map(raw).collect();
    let mut bytes = vec![0xa5; raw.iter().map(|(_, _, data)| space(data.len())).sum()];
    let mut writer = Writer::new(&mut bytes);
    for (level, kind, data) in &raw {
        writer
            .push(*level, *kind, data)
            .expect("there is room for all");
    }
    assert_eq!(writer.written().len(), bytes.len());
    bytes
}

/// Level, type and data.
fn raw(message: &Control<'_>) -> (i32, i32, Vec<u8>) {
    match *message {
        Control::Timestamping(stamps) => {
            let software = stamps.software.map_or(0, |stamp| stamp.as_nanos());
            let hardware = stamps.hardware.map_or(0, |stamp| stamp.as_nanos());
            let words =
                [software, 0, hardware].map(|nanos| [nanos / 1_000_000_000, nanos % 1_000_000_000]);
            (
                libc::SOL_SOCKET,
                TIMESTAMPING,
                words
                    .concat()
                    .iter()
                    .flat_map(|word| word.to_ne_bytes())
                    .collect(),
            )
        }
        Control::TimestampingPacketInfo(info) => {
            let words = [info.interface, info.length, 0, 0];
            (
                libc::SOL_SOCKET,
                PACKET_INFO,
                words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
            )
        }
        Control::TimestampingStatistics(attributes) => {
            (libc::SOL_SOCKET, STATISTICS, attributes.to_vec())
        }
        Control::Arrival(Arrival {
            interface,
            destination: IpAddr::V4(address),
        }) => (
            libc::IPPROTO_IP,
            libc::IP_PKTINFO,
            [interface.to_ne_bytes(), [0; 4], address.octets()].concat(),
        ),
        Control::Arrival(Arrival {
            interface,
            destination: IpAddr::V6(address),
        }) => (
            libc::IPPROTO_IPV6,
            libc::IPV6_PKTINFO,
            [&address.octets()[..], &interface.to_ne_bytes()].concat(),
        ),
        Control::TrafficClass(class) => (libc::IPPROTO_IP, libc::IP_TOS, vec![class]),
        Control::Segment(bytes) => (
            libc::SOL_UDP,
            libc::UDP_GRO,
            u32::from(bytes).to_ne_bytes().to_vec(),
        ),
        Control::HopLimit(hops) => (
            libc::IPPROTO_IP,
            libc::IP_TTL,
            u32::from(hops).to_ne_bytes().to_vec(),
        ),
        Control::ExtendedError(error) => {
            (libc::IPPROTO_IP, libc::IP_RECVERR, extended_error(&error))
        }
        Control::Other { level, kind, data } => (level, kind, data.to_vec()),
        _ => unreachable!("all that there are"),
    }
}

/// `struct sock_extended_err` and the address of the offender.
fn extended_error(error: &ExtendedError) -> Vec<u8> {
    let mut bytes = error.errno.to_ne_bytes().to_vec();
    bytes.extend([error.origin.number(), error.kind, error.code, 0]);
    bytes.extend(error.info.to_ne_bytes());
    bytes.extend(error.data.to_ne_bytes());
    let (family, before, octets) = match error.offender {
        None => (libc::AF_UNSPEC, 2, vec![0; 12]),
        Some(IpAddr::V4(address)) => (libc::AF_INET, 2, address.octets().to_vec()),
        Some(IpAddr::V6(address)) => (libc::AF_INET6, 6, address.octets().to_vec()),
    };
    bytes.extend(
        u16::try_from(family)
            .expect("families are small")
            .to_ne_bytes(),
    );
    bytes.extend(vec![0; before]);
    bytes.extend(octets);
    bytes.extend([0; 8]);
    bytes
}

/// Netlink attributes: a length, a kind, a value, up to the next multiple of four bytes.
pub fn attributes<'a>(values: impl IntoIterator<Item = (u16, &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in values {
        let length = u16::try_from(4 + value.len()).expect("it was read from an attribute");
        bytes.extend(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// Return true if `part` lies within `whole`.
pub fn lies_within(part: &[u8], whole: &[u8]) -> bool {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}

/// Messages of each direction, so that row groups have some of both.
const MESSAGES: u64 = 5;

/// Return the bytes of a recording of messages and of one of packets, of two row groups each. They
/// are written to this path.
///
/// # Panics
///
/// If there is no room for them.
pub fn recordings(path: &Path) -> [Vec<u8>; 2] {
    let mut batch = Batch::new();
    let mut writer = FileWriter::create(path, &[]).expect("room for a file");
    for _ in 0..2 {
        messages().for_each(|message| batch.push(&message));
        writer.write(&batch).expect("room for a row group");
        batch.clear();
    }
    writer.finish().expect("room for the end");
    let messages_file = fs::read(path).expect("it was written");
    fs::remove_file(path).expect("it was written");

    let mut packets = Packets::default();
    let mut writer = FileWriter::create(path, &[]).expect("room for a file");
    for _ in 0..2 {
        messages().map(way).for_each(|way| packets.push(way));
        writer.write(&packets).expect("room for a row group");
        packets.clear();
    }
    writer.finish().expect("room for the end");
    [messages_file, fs::read(path).expect("it was written")]
}

fn messages() -> impl Iterator<Item = Message> {
    let messages = Direction::ALL.map(|direction| {
        (0..MESSAGES).map(move |number| {
            let mut message = fixture::message(direction);
            message.bytes += number;
            message.time = message.time + Nanos(number);
            message.stamps.sched_last = Some(Timestamp::from_nanos(number));
            message.stages[Stage::TxQdisc] = (number % 2 == 0).then_some(Nanos(number));
            message
        })
    });
    messages.into_iter().flatten()
}

fn way(message: Message) -> Way {
    let stamp = Timestamp::from_nanos(message.bytes);
    let mut way = Way::new(
        message.bytes,
        Packet {
            stage: PacketStage::Sched,
            direction: message.direction,
            time: message.time,
            stamp,
            address: 0,
            flow: message.flow,
            cgroup: Some(message.cgroup),
            cgroup_path: Some(Cow::Owned("/system.slice/nginx.service".into())),
            pid: Some(message.pid),
            comm: message.comm,
            interface: sockstamp_model::interface::Interface {
                name: "eth0".into(),
                index: 2,
                netns: message.flow.netns,
            },
            length: 1500,
            segments: None,
            bytes: vec![0x45; 40].into(),
        },
    );
    way.stamps[PacketStage::Driver as usize] = Some(stamp + Nanos(7));
    way.message = Some(MessageName {
        cookie: message.flow.cookie,
        time: message.time,
        seq_end: Some(message.seq_end),
    });
    way
}
