//! Addresses of sockets, as C and as Rust have them.

use std::net::{IpAddr, SocketAddr};

use sockstamp::control::socket_address;
use sockstamp::timestamping::Destination;

use crate::boundary::{Errno, Result};
use crate::header::sockstamp_address;

/// Decode `struct sockaddr_in`, `struct sockaddr_in6` or `struct sockaddr_ll`.
pub(crate) fn destination(bytes: &[u8]) -> Result<Destination> {
    let of_ip = socket_address(bytes).map(Destination::from);
    of_ip
        .or_else(|| link(bytes))
        .ok_or(Errno(libc::EAFNOSUPPORT))
}

/// Decode an Ethernet address: hardware addresses have six bytes.
fn link(bytes: &[u8]) -> Option<Destination> {
    let family = u16::from_ne_bytes(at(bytes, 0)?);
    let protocol = u16::from_be_bytes(at(bytes, 2)?);
    let interface = u32::from_ne_bytes(at(bytes, 4)?);
    let hardware: [u8; 6] = at(bytes, 12)?;
    (i32::from(family) == libc::AF_PACKET).then(|| Destination::link(interface, protocol, hardware))
}

fn at<const N: usize>(bytes: &[u8], start: usize) -> Option<[u8; N]> {
    bytes.get(start..)?.first_chunk().copied()
}

pub(crate) fn none() -> sockstamp_address {
    sockstamp_address {
        v6: libc::sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
    }
}

pub(crate) fn of_host(host: IpAddr) -> sockstamp_address {
    of_socket(SocketAddr::new(host, 0))
}

pub(crate) fn of_socket(socket: SocketAddr) -> sockstamp_address {
    let mut address = none();
    match socket {
        SocketAddr::V4(socket) => {
            address.v4 = libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: socket.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(socket.ip().octets()),
                },
                sin_zero: [0; 8],
            };
        }
        SocketAddr::V6(socket) => {
            address.v6 = libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: socket.port().to_be(),
                sin6_flowinfo: socket.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: socket.ip().octets(),
                },
                sin6_scope_id: socket.scope_id(),
            };
        }
    }
    address
}

/// The constants of families are small.
fn family(family: i32) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).unwrap_or(0)
}
