//! The kernel's list of TCP sockets: sock_diag(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use nix::libc;
use nix::sys::socket::SockProtocol;

use crate::netlink::{self, HEADER, word};

// include/uapi/linux/sock_diag.h, inet_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
pub(crate) const INET_DIAG_INFO: u16 = 2;
pub(crate) const INET_DIAG_SKMEMINFO: u16 = 7;
pub(crate) const INET_DIAG_CGROUP_ID: u16 = 21;
/// Position of `SK_MEMINFO_DROPS`, the ninth word, in `INET_DIAG_SKMEMINFO`.
pub(crate) const DROPS: usize = 32;
pub(crate) const TCP_ESTABLISHED: u8 = 1;
pub(crate) const TCP_SYN_RECV: u8 = 3;
pub(crate) const TCP_LISTEN: u8 = 10;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE: usize = 72;

/// A `struct inet_diag_msg` with its attributes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a>(&'a [u8]);

impl<'a> Entry<'a> {
    pub(crate) fn state(self) -> Option<u8> {
        self.0.get(1).copied()
    }

    pub(crate) fn local(self) -> Option<SocketAddr> {
        self.address(4, 8)
    }

    pub(crate) fn remote(self) -> Option<SocketAddr> {
        self.address(6, 24)
    }

    fn address(self, port: usize, at: usize) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(self.0.get(port..port + 2)?.try_into().ok()?);
        let address = self.0.get(at..at + 16)?;
        let ip = if i32::from(*self.0.first()?) == libc::AF_INET {
            IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(&address[..4]).ok()?))
        } else {
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?))
        };
        Some(SocketAddr::new(ip, port))
    }

    pub(crate) fn cookie(self) -> Option<u64> {
        Some(u64::from(self.word(44)?) | u64::from(self.word(48)?) << 32)
    }

    pub(crate) fn receive_queue(self) -> Option<u32> {
        self.word(56)
    }

    pub(crate) fn send_queue(self) -> Option<u32> {
        self.word(60)
    }

    pub(crate) fn inode(self) -> Option<u32> {
        self.word(68)
    }

    /// Return the cgroup (version 2) that the socket was made in; 0 if unknown.
    pub(crate) fn cgroup(self) -> u64 {
        let id = self
            .attribute(INET_DIAG_CGROUP_ID)
            .and_then(<[u8]>::first_chunk);
        id.map_or(0, |id| u64::from_ne_bytes(*id))
    }

    /// Return a word of an attribute, by its position in bytes.
    pub(crate) fn attribute_word(self, kind: u16, at: usize) -> Option<u32> {
        word(self.attribute(kind)?, at)
    }

    fn attribute(self, wanted: u16) -> Option<&'a [u8]> {
        netlink::value(self.0.get(MESSAGE..)?, wanted)
    }

    fn word(self, at: usize) -> Option<u32> {
        word(self.0, at)
    }
}

/// Pass the sockets of this network namespace in these states, IPv4's and IPv6's, with one of the
/// kernel's attributes.
pub(crate) fn each(states: &[u8], attribute: u16, found: &mut impl FnMut(Entry<'_>)) -> Result<()> {
    let socket = netlink::open(SockProtocol::NetlinkSockDiag);
    socket
        .and_then(|socket| each_by(&socket, states, attribute, found))
        .context("the kernel does not list TCP sockets (sock_diag)")
}

/// Do the same by a socket to the kernel of any network namespace.
pub(crate) fn each_by(
    socket: &OwnedFd,
    states: &[u8],
    attribute: u16,
    found: &mut impl FnMut(Entry<'_>),
) -> io::Result<()> {
    for family in [libc::AF_INET, libc::AF_INET6] {
        let body = request(family, states, attribute);
        netlink::dump(socket, SOCK_DIAG_BY_FAMILY, &body, &mut |body| {
            found(Entry(body));
        })?;
    }
    Ok(())
}

/// A `struct inet_diag_req_v2` for all sockets of a family in these states.
fn request(family: i32, states: &[u8], attribute: u16) -> [u8; 72 - HEADER] {
    let mut request = [0; 72 - HEADER];
    let family = u8::try_from(family).unwrap_or(0);
    let protocol = u8::try_from(libc::IPPROTO_TCP).unwrap_or(0);
    request[..3].copy_from_slice(&[family, protocol, 1 << (attribute - 1)]);
    let states = states
        .iter()
        .fold(0, |states, state| states | 1_u32 << state);
    request[4..8].copy_from_slice(&states.to_ne_bytes());
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_is_no_socket() {
        assert_eq!(Entry(&[2; 40]).cookie(), None);
        assert_eq!(Entry(&[2; 7]).local(), None);
    }

    #[test]
    fn of_no_state_the_kernel_lists_nothing_but_answers() {
        let mut found = 0;
        each(&[], INET_DIAG_INFO, &mut |_| found += 1).unwrap();
        assert_eq!(found, 0);
    }
}
