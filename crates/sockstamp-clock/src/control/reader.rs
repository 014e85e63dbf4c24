use std::error::Error;
use std::fmt;
use std::net::IpAddr;

use super::bytes::{array_at, i32_at, i64_at, u8_at, u32_at, usize_at};
use super::extended_error::ExtendedError;
use crate::linux::{
    IP_PKTINFO, IP_RECVERR, IP_TOS, IP_TTL, IPPROTO_IP, IPPROTO_IPV6, IPV6_HOPLIMIT, IPV6_PKTINFO,
    IPV6_RECVERR, IPV6_TCLASS, SOL_PACKET, SOL_SOCKET, SOL_UDP, UDP_GRO, c_long, cmsghdr,
};
use crate::time::{Clock, Phc, Realtime, Timestamp};

/// SO_TIMESTAMPING_OLD, which is SCM_TIMESTAMPING_OLD as well: include/uapi/asm-generic/socket.h.
/// Its times are a pair of longs.
pub const SO_TIMESTAMPING: i32 = crate::linux::SO_TIMESTAMPING;
/// SO_TIMESTAMPING_NEW, which is SCM_TIMESTAMPING_NEW as well: its times are a pair of 64 bits on
/// every machine. Since v5.1.
pub const SO_TIMESTAMPING_NEW: i32 = 65;
/// SCM_TIMESTAMPING_OPT_STATS, since v4.14.
pub const SCM_TIMESTAMPING_OPT_STATS: i32 = 54;
/// SCM_TIMESTAMPING_PKTINFO, since v4.13.
pub const SCM_TIMESTAMPING_PKTINFO: i32 = 58;
/// The sender's own id for the stamps of a message: include/uapi/asm-generic/socket.h, since v6.13.
pub const SCM_TS_OPT_ID: i32 = 81;
/// SO_TXTIME, which is SCM_TXTIME as well: include/uapi/asm-generic/socket.h, since v4.19.
pub const SO_TXTIME: i32 = 61;
/// PACKET_TX_TIMESTAMP of include/uapi/linux/if_packet.h.
pub const PACKET_TX_TIMESTAMP: i32 = 16;

/// A control message, as a type of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control<'a> {
    /// SCM_TIMESTAMPING.
    Timestamping(Stamps),
    /// SCM_TIMESTAMPING_PKTINFO: where a packet with a hardware stamp came in.
    TimestampingPacketInfo(PacketInfo),
    /// SCM_TIMESTAMPING_OPT_STATS: netlink attributes TCP_NLA_*.
    TimestampingStatistics(&'a [u8]),
    /// IP_PKTINFO or IPV6_PKTINFO: where the packet came in, and to which address.
    Arrival(Arrival),
    /// IP_TOS or IPV6_TCLASS: the traffic class that the packet came with; ECN is its lower two
    /// bits.
    TrafficClass(u8),
    /// UDP_GRO: the bytes of each of the datagrams that were received as one.
    Segment(u16),
    /// IP_TTL or IPV6_HOPLIMIT: the TTL or hop limit that the packet came with.
    HopLimit(u8),
    /// IP_RECVERR, IPV6_RECVERR or PACKET_TX_TIMESTAMP.
    ExtendedError(ExtendedError),
    /// Any other.
    Other {
        /// SOL_SOCKET, IPPROTO_IP and others.
        level: i32,
        /// The type within the level.
        kind: i32,
        /// The bytes after the header.
        data: &'a [u8],
    },
}

/// `struct scm_timestamping`: the times of one packet. The second of its three is unused by Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stamps {
    /// Taken by the kernel.
    pub software: Option<Timestamp<Realtime>>,
    /// Taken by the network interface, on its clock or on the virtual clock that the socket is
    /// bound to.
    pub hardware: Option<Timestamp<Phc>>,
}

/// `struct in_pktinfo` or `struct in6_pktinfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// The index of the interface.
    pub interface: u32,
    /// The destination of the packet.
    pub destination: IpAddr,
}

/// `struct scm_ts_pktinfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketInfo {
    /// The index of the interface that received the packet, 0 where the kernel no longer knows.
    pub interface: u32,
    /// The length of the packet at layer 2, in bytes.
    pub length: u32,
}

/// Bytes that are no control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Malformed {
    /// A header with a length below its own or beyond the rest, or too few bytes for a header. The
    /// position of the next message is unknown, so none follows.
    Header {
        /// Bytes before it.
        at: usize,
    },
    /// Data too short for its type. The next message may be read.
    Data {
        /// SOL_SOCKET, IPPROTO_IP and others.
        level: i32,
        /// The type within the level.
        kind: i32,
        /// Bytes of data.
        length: usize,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { at } => write!(
                f,
                "the header of a control message at byte {at} gives an impossible length"
            ),
            Self::Data {
                level,
                kind,
                length,
            } => write!(
                f,
                "a control message of level {level} and type {kind} has {length} bytes of data, \
                 which is too short"
            ),
        }
    }
}

impl Error for Malformed {}

/// The control messages in `bytes`, which recvmsg(2) has filled.
#[must_use]
pub fn parse(bytes: &[u8]) -> Messages<'_> {
    Messages { bytes, at: 0 }
}

/// The iterator that [`parse`] gives. It ends after a [`Malformed::Header`].
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// `CMSG_ALIGN()`.
pub(super) const fn align(length: usize) -> usize {
    length.next_multiple_of(align_of::<usize>())
}

/// The size of `struct cmsghdr`, which is a multiple of its alignment.
pub(super) const HEADER: usize = size_of::<cmsghdr>();

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Control<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.bytes.get(at..)?;
        if rest.is_empty() {
            return None;
        }
        let Some((level, kind, data)) = first(rest) else {
            self.at = self.bytes.len();
            return Some(Err(Malformed::Header { at }));
        };
        // The length is at most that of the slice, which no allocation lets come near to overflow.
        self.at = at + align(HEADER + data.len());
        Some(typed(level, kind, data).ok_or(Malformed::Data {
            level,
            kind,
            length: data.len(),
        }))
    }
}

/// Take the first message, as `CMSG_OK()`: its length includes the header, and ends within the
/// buffer.
fn first(bytes: &[u8]) -> Option<(i32, i32, &[u8])> {
    let length = usize_at(bytes, 0)?;
    let level = i32_at(bytes, size_of::<usize>())?;
    let kind = i32_at(bytes, size_of::<usize>() + size_of::<i32>())?;
    Some((level, kind, bytes.get(HEADER..length)?))
}

/// `None` where the data are too short for the type.
fn typed(level: i32, kind: i32, data: &[u8]) -> Option<Control<'_>> {
    Some(match (level, kind) {
        (SOL_SOCKET, SO_TIMESTAMPING) => Control::Timestamping(stamps(data, size_of::<c_long>())?),
        (SOL_SOCKET, SO_TIMESTAMPING_NEW) => Control::Timestamping(stamps(data, size_of::<i64>())?),
        (SOL_SOCKET, SCM_TIMESTAMPING_OPT_STATS) => Control::TimestampingStatistics(data),
        (SOL_SOCKET, SCM_TIMESTAMPING_PKTINFO) => Control::TimestampingPacketInfo(PacketInfo {
            interface: u32_at(data, 0)?,
            length: u32_at(data, 4)?,
        }),
        (IPPROTO_IP, IP_RECVERR)
        | (IPPROTO_IPV6, IPV6_RECVERR)
        | (SOL_PACKET, PACKET_TX_TIMESTAMP) => {
            Control::ExtendedError(ExtendedError::from_bytes(data)?)
        }
        // The address between the two is the one that an answer would be from.
        (IPPROTO_IP, IP_PKTINFO) => Control::Arrival(Arrival {
            interface: u32_at(data, 0)?,
            destination: IpAddr::from(array_at::<4>(data, 8)?),
        }),
        (IPPROTO_IP, IP_TOS) => Control::TrafficClass(u8_at(data, 0)?),
        (IPPROTO_IPV6, IPV6_TCLASS) => Control::TrafficClass(u8::try_from(u32_at(data, 0)?).ok()?),
        (SOL_UDP, UDP_GRO) => Control::Segment(u16::try_from(u32_at(data, 0)?).ok()?),
        (IPPROTO_IP, IP_TTL) | (IPPROTO_IPV6, IPV6_HOPLIMIT) => {
            Control::HopLimit(u8::try_from(u32_at(data, 0)?).ok()?)
        }
        (IPPROTO_IPV6, IPV6_PKTINFO) => Control::Arrival(Arrival {
            interface: u32_at(data, 16)?,
            destination: IpAddr::from(array_at::<16>(data, 0)?),
        }),
        _ => Control::Other { level, kind, data },
    })
}

/// Three times of two numbers, `width` bytes each. Zero means "no stamp".
fn stamps(data: &[u8], width: usize) -> Option<Stamps> {
    let number = |at| match width {
        8 => i64_at(data, at),
        _ => i32_at(data, at).map(i64::from),
    };
    let nanos = |index: usize| {
        let (seconds, nanos) = (number(index * 2 * width)?, number((index * 2 + 1) * width)?);
        Some(
            u64::try_from(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)).unwrap_or(0),
        )
    };
    Some(Stamps {
        software: stamp(nanos(0)?),
        hardware: stamp(nanos(2)?),
    })
}

fn stamp<C: Clock>(nanos: u64) -> Option<Timestamp<C>> {
    (nanos != 0).then(|| Timestamp::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use proptest::prelude::*;

    use super::super::{Address, Origin, Writer, space};
    use super::*;

    fn written(messages: &[(i32, i32, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0xa5; messages.iter().map(|(_, _, data)| space(data.len())).sum()];
        let mut writer = Writer::new(&mut bytes);
        for (level, kind, data) in messages {
            writer.push(*level, *kind, data).unwrap();
        }
        let length = writer.written().len();
        bytes.truncate(length);
        bytes
    }

    fn times(numbers: [i64; 6]) -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect()
    }

    /// `struct sock_extended_err` with an offender, field by field.
    fn extended_error(origin: u8, info: u32, data: u32, offender: SocketAddr) -> Vec<u8> {
        let mut bytes = 113_u32.to_ne_bytes().to_vec();
        bytes.extend([origin, 3, 1, 0]);
        bytes.extend(info.to_ne_bytes());
        bytes.extend(data.to_ne_bytes());
        bytes.extend(Address::from(offender).as_bytes());
        bytes
    }

    #[test]
    fn hop_limits_of_both_versions_are_read() {
        for (level, kind) in [(IPPROTO_IP, IP_TTL), (IPPROTO_IPV6, IPV6_HOPLIMIT)] {
            let bytes = written(&[(level, kind, &63_i32.to_ne_bytes())]);
            let read: Vec<_> = parse(&bytes).collect();
            assert_eq!(read, [Ok(Control::HopLimit(63))]);
        }
    }

    #[test]
    fn entries_of_an_error_queue_are_distinguished_by_type() {
        let offender = SocketAddr::from(([192, 0, 2, 1], 0));
        let stamps = times([1, 2, 0, 0, 3, 4]);
        let error = extended_error(2, 7, 9, offender);
        let bytes = written(&[
            (SOL_SOCKET, SO_TIMESTAMPING_NEW, &stamps),
            (SOL_SOCKET, SCM_TIMESTAMPING_PKTINFO, &[1; 16]),
            (IPPROTO_IP, IP_RECVERR, &error),
            (IPPROTO_IP, libc::IP_RECVOPTS, &[64, 0, 0]),
        ]);
        let messages: Vec<_> = parse(&bytes).map(Result::unwrap).collect();
        let expected = [
            Control::Timestamping(Stamps {
                software: Some(Timestamp::from_nanos(1_000_000_002)),
                hardware: Some(Timestamp::from_nanos(3_000_000_004)),
            }),
            Control::TimestampingPacketInfo(PacketInfo {
                interface: 0x0101_0101,
                length: 0x0101_0101,
            }),
            Control::ExtendedError(ExtendedError {
                errno: 113,
                origin: Origin::Icmp,
                kind: 3,
                code: 1,
                info: 7,
                data: 9,
                offender: Some(IpAddr::from([192, 0, 2, 1])),
            }),
            Control::Other {
                level: IPPROTO_IP,
                kind: libc::IP_RECVOPTS,
                data: &[64, 0, 0],
            },
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn no_stamp_is_none_and_not_1970() {
        let bytes = written(&[(SOL_SOCKET, SO_TIMESTAMPING, &times([0; 6]))]);
        assert_eq!(
            parse(&bytes).next(),
            Some(Ok(Control::Timestamping(Stamps::default())))
        );
    }

    #[test]
    fn impossible_lengths_end_the_messages() {
        for length in [0, 1, HEADER - 1, HEADER + 5, usize::MAX, usize::MAX - 7] {
            let mut bytes = written(&[(IPPROTO_IP, IP_TOS, &[64, 0, 0, 0])]);
            let whole = bytes.len();
            bytes.extend(length.to_ne_bytes());
            bytes.extend([0; HEADER - size_of::<usize>() + 4]);
            let messages: Vec<_> = parse(&bytes).skip(1).collect();
            assert_eq!(messages, [Err(Malformed::Header { at: whole })], "{length}");
        }
    }

    #[test]
    fn too_little_data_spoils_one_message_alone() {
        let bytes = written(&[
            (SOL_SOCKET, SO_TIMESTAMPING, &[0; 47]),
            (IPPROTO_IP, IP_RECVERR, &[0; 15]),
            (
                IPPROTO_IP,
                IP_PKTINFO,
                &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
        ]);
        let messages: Vec<_> = parse(&bytes).collect();
        let spoiled = |level, kind, length| {
            Err(Malformed::Data {
                level,
                kind,
                length,
            })
        };
        let expected = [
            spoiled(SOL_SOCKET, SO_TIMESTAMPING, 47),
            spoiled(IPPROTO_IP, IP_RECVERR, 15),
            Ok(Control::Arrival(Arrival {
                interface: u32::from_ne_bytes([5, 0, 0, 0]),
                destination: Ipv4Addr::UNSPECIFIED.into(),
            })),
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn the_last_message_needs_no_padding() {
        let mut bytes = written(&[(IPPROTO_IP, IP_TOS, &[64])]);
        bytes.truncate(HEADER + 1);
        assert_eq!(parse(&bytes).filter(Result::is_ok).count(), 1);
    }

    proptest! {
        #[test]
        fn written_control_messages_are_read_back(
            messages in prop::collection::vec(
                (300..400_i32, any::<i32>(), prop::collection::vec(any::<u8>(), 0..40)),
                0..6,
            ),
        ) {
            let slices: Vec<_> = messages
                .iter()
                .map(|(level, kind, data)| (*level, *kind, &data[..]))
                .collect();
            let bytes = written(&slices);
            let expected: Vec<_> = slices
                .iter()
                .map(|&(level, kind, data)| Ok(Control::Other { level, kind, data }))
                .collect();
            prop_assert_eq!(parse(&bytes).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn parsing_any_bytes_ends(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&bytes).count() <= bytes.len() / HEADER + 1);
        }

        /// Random bytes hardly ever have a valid length, so most of these are right except for a
        /// few bytes.
        #[test]
        fn damaged_messages_end_and_the_undamaged_before_stay(
            at in 0..240_usize,
            damage in prop::collection::vec(any::<u8>(), 1..9),
            cut in 0..240_usize,
        ) {
            let error = extended_error(5, 1, 2, ([0; 16], 0).into());
            let whole = written(&[
                (SOL_SOCKET, SO_TIMESTAMPING, &times([1, 2, 0, 0, 3, 4])),
                (IPPROTO_IPV6, IPV6_RECVERR, &error),
                (SOL_SOCKET, SCM_TIMESTAMPING_PKTINFO, &[1; 16]),
            ]);
            let mut bytes = whole.clone();
            for (byte, damaged) in bytes.iter_mut().skip(at).zip(&damage) {
                *byte = *damaged;
            }
            bytes.truncate(cut);
            let intact = at.min(cut);
            prop_assert!(parse(&bytes).count() <= 240 / HEADER + 1);
            if intact >= space(48) {
                prop_assert_eq!(parse(&bytes).next(), parse(&whole).next());
            }
        }
    }
}
