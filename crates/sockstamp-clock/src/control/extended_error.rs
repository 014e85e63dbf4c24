use std::net::{IpAddr, SocketAddr};

use super::address;
use super::bytes::{u8_at, u32_at};

/// The origin of an error-queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// This host, for instance a datagram larger than the path takes: SO_EE_ORIGIN_LOCAL.
    Local,
    /// An ICMP message of IPv4: SO_EE_ORIGIN_ICMP.
    Icmp,
    /// An ICMP message of IPv6: SO_EE_ORIGIN_ICMP6.
    Icmp6,
    /// A stamp of a sent message: SO_EE_ORIGIN_TIMESTAMPING.
    Timestamping,
    /// Sends whose buffers the kernel no longer needs: SO_EE_ORIGIN_ZEROCOPY.
    ZeroCopy,
    /// A message that missed its departure time (SO_TXTIME): SO_EE_ORIGIN_TXTIME.
    TxTime,
    /// None of these.
    Other(u8),
}

impl Origin {
    /// SO_EE_ORIGIN_* of include/uapi/linux/errqueue.h, v6.18.
    pub const NAMED: [(u8, Self); 6] = [
        (1, Self::Local),
        (2, Self::Icmp),
        (3, Self::Icmp6),
        (4, Self::Timestamping),
        (5, Self::ZeroCopy),
        (6, Self::TxTime),
    ];

    /// The number in the kernel's header.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Other(number) => number,
            named => Self::NAMED
                .into_iter()
                .find_map(|(number, origin)| (origin == named).then_some(number))
                .unwrap_or(0),
        }
    }

    fn from_number(number: u8) -> Self {
        Self::NAMED
            .into_iter()
            .find_map(|(named, origin)| (named == number).then_some(origin))
            .unwrap_or(Self::Other(number))
    }
}

/// `struct sock_extended_err` with the address that follows it: the description of an error-queue
/// entry.
///
/// Comes as IP_RECVERR, IPV6_RECVERR or PACKET_TX_TIMESTAMP. The origin decides the meaning of
/// `info` and `data`.
///
/// Source: include/uapi/linux/errqueue.h, `ip_recv_error()` in net/ipv4/ip_sockglue.c,
/// `ipv6_recv_error()` in net/ipv6/datagram.c, `sock_recv_errqueue()` in net/core/sock.c, v6.18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtendedError {
    /// A number as in errno(3): ENOMSG for stamps, 0 for completions of zerocopy sends.
    pub errno: u32,
    /// The origin of the entry.
    pub origin: Origin,
    /// The type of the ICMP message.
    pub kind: u8,
    /// The code of the ICMP message, or a code of the origin.
    pub code: u8,
    /// The kind of a stamp, the first id of a completed range, the size that would have fitted.
    pub info: u32,
    /// The id of a stamp, or the last id of a completed range.
    pub data: u32,
    /// The host that the ICMP message is from; `None` where no host is.
    pub offender: Option<IpAddr>,
}

impl ExtendedError {
    /// The size of `struct sock_extended_err`.
    const SIZE: usize = 16;

    /// `None` where the bytes are too few.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            errno: u32_at(bytes, 0)?,
            origin: Origin::from_number(u8_at(bytes, 4)?),
            kind: u8_at(bytes, 5)?,
            code: u8_at(bytes, 6)?,
            info: u32_at(bytes, 8)?,
            data: u32_at(bytes, 12)?,
            offender: address::socket_address(&bytes[Self::SIZE..])
                .map(|address: SocketAddr| address.ip()),
        })
    }
}
