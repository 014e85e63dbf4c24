//! The kernel's list of TCP sockets: sock_diag(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

// include/uapi/linux/netlink.h, sock_diag.h, inet_diag.h
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
pub(crate) const INET_DIAG_INFO: u16 = 2;
pub(crate) const INET_DIAG_SKMEMINFO: u16 = 7;
pub(crate) const INET_DIAG_CGROUP_ID: u16 = 21;
pub(crate) const TCP_ESTABLISHED: u8 = 1;
pub(crate) const TCP_LISTEN: u8 = 10;
/// Bytes of `struct nlmsghdr` and of `struct inet_diag_msg`.
const HEADER: usize = 16;
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
        let mut rest = self.0.get(MESSAGE..)?;
        while let Some((kind, value, next)) = attribute(rest) {
            if kind == wanted {
                return Some(value);
            }
            rest = next;
        }
        None
    }

    fn word(self, at: usize) -> Option<u32> {
        word(self.0, at)
    }
}

/// Pass the sockets of this network namespace in these states, IPv4's and IPv6's, with one of the
/// kernel's attributes.
pub(crate) fn each(states: &[u8], attribute: u16, found: &mut impl FnMut(Entry<'_>)) -> Result<()> {
    for family in [libc::AF_INET, libc::AF_INET6] {
        of_family(family, states, attribute, found)
            .context("the kernel does not list TCP sockets (sock_diag)")?;
    }
    Ok(())
}

fn of_family(
    family: i32,
    states: &[u8],
    attribute: u16,
    found: &mut impl FnMut(Entry<'_>),
) -> io::Result<()> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    let kernel = NetlinkAddr::new(0, 0);
    let request = request(family, states, attribute);
    sendto(socket.as_raw_fd(), &request, &kernel, MsgFlags::empty())?;
    answers(&socket, found)
}

/// A `struct inet_diag_req_v2` for all sockets of a family in these states.
fn request(family: i32, states: &[u8], attribute: u16) -> [u8; 72] {
    let mut request = [0; 72];
    request[..4].copy_from_slice(&72_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    let family = u8::try_from(family).unwrap_or(0);
    let protocol = u8::try_from(libc::IPPROTO_TCP).unwrap_or(0);
    request[HEADER..HEADER + 3].copy_from_slice(&[family, protocol, 1 << (attribute - 1)]);
    let states = states
        .iter()
        .fold(0, |states, state| states | 1_u32 << state);
    request[HEADER + 4..HEADER + 8].copy_from_slice(&states.to_ne_bytes());
    request
}

fn answers(socket: &OwnedFd, found: &mut impl FnMut(Entry<'_>)) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = &buffer[..length];
        while let Some((kind, body, next)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => return Err(refusal(body)),
                _ => found(Entry(body)),
            }
            rest = next;
        }
        if length == 0 {
            return Ok(());
        }
    }
}

/// Return the error of a `struct nlmsgerr`, which begins with a negative errno.
fn refusal(body: &[u8]) -> io::Error {
    let errno = word(body, 0).map_or(0, |errno| errno.cast_signed().wrapping_neg());
    io::Error::from_raw_os_error(errno)
}

/// Split the first message off: its type, what follows its header, and the next ones.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(word(bytes, 0)?).ok()?;
    let body = bytes.get(HEADER..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((half(bytes, 4)?, body, next))
}

/// Split the first attribute off: its type, its value, and the next ones.
fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(half(bytes, 0)?);
    let value = bytes.get(4..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((half(bytes, 2)?, value, next))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_is_no_socket() {
        assert_eq!(message(&[]), None);
        assert_eq!(message(&[200, 0, 0, 0, 20, 0, 0, 0]), None);
        assert_eq!(Entry(&[2; 40]).cookie(), None);
        assert_eq!(Entry(&[2; 7]).local(), None);
        assert_eq!(attribute(&[9, 0, 7, 0, 1]), None);
        // A message shorter than its own header would never end.
        assert_eq!(attribute(&[0, 0, 7, 0, 1, 2, 3, 4]), None);
        assert_eq!(message(&[0; 32]), None);
    }

    /// As of a kernel without tcp_diag: -ENOENT, and the request.
    #[test]
    fn a_refused_request_has_the_kernels_errno() {
        let answer = (-libc::ENOENT).to_ne_bytes();
        assert_eq!(refusal(&answer).raw_os_error(), Some(libc::ENOENT));
        // Of no state: the kernel lists nothing, but answers.
        let mut found = 0;
        each(&[], INET_DIAG_INFO, &mut |_| found += 1).unwrap();
        assert_eq!(found, 0);
    }
}
