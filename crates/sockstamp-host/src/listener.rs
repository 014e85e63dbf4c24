//! Listening TCP sockets, their accept queues and what they dropped: sock_diag(7).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use sockstamp_model::flow::NetnsInode;

use crate::netns;

/// A listening socket, as the kernel has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its own address.
    pub local: SocketAddr,
    /// Connections that wait for accept().
    pub queue: u32,
    /// The most that may wait, less one.
    pub limit: u32,
    /// SYNs and ends of handshakes dropped since it listens (`sk_drops`); the kernel wraps it.
    pub drops: u32,
    /// The inode of the socket, as in /proc/PID/fd.
    pub inode: u32,
    /// The cgroup (version 2) that it was made in; 0 if unknown.
    pub cgroup: u64,
}

/// A socket for as long as it lives: its network namespace, and its cookie.
pub type Key = (NetnsInode, u64);

// include/uapi/linux/netlink.h, sock_diag.h, inet_diag.h
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_CGROUP_ID: u16 = 21;
/// Position of `SK_MEMINFO_DROPS` among the words of `INET_DIAG_SKMEMINFO`.
const DROPS: usize = 8;
const TCP_LISTEN: u32 = 10;
/// Bytes of `struct nlmsghdr` and of `struct inet_diag_msg`.
const HEADER: usize = 16;
const MESSAGE: usize = 72;

/// Return the listeners of this network namespace and of all others that can be entered, or of one.
/// Best effort: a namespace or a family that cannot be asked has none.
#[must_use]
pub fn all(only: Option<NetnsInode>) -> BTreeMap<Key, Listener> {
    let found = netns::in_each(only, || {
        let families = [libc::AF_INET, libc::AF_INET6].map(|family| of_family(family).unwrap_or_default());
        families.into_iter().flatten().collect::<Vec<_>>()
    });
    let keyed = found.into_iter().flat_map(|(netns, listeners)| {
        let keyed = listeners.into_iter();
        keyed.map(move |(cookie, listener)| ((netns, cookie), listener))
    });
    keyed.collect()
}

fn of_family(family: i32) -> io::Result<Vec<(u64, Listener)>> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &request(family), &kernel, MsgFlags::empty())?;
    answers(&socket)
}

/// A `struct inet_diag_req_v2` for all listeners of a family.
fn request(family: i32) -> [u8; 72] {
    let mut request = [0; 72];
    request[..4].copy_from_slice(&72_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    let family = u8::try_from(family).unwrap_or(0);
    let protocol = u8::try_from(libc::IPPROTO_TCP).unwrap_or(0);
    request[HEADER..HEADER + 3].copy_from_slice(&[family, protocol, 1 << (INET_DIAG_SKMEMINFO - 1)]);
    request[HEADER + 4..HEADER + 8].copy_from_slice(&(1_u32 << TCP_LISTEN).to_ne_bytes());
    request
}

fn answers(socket: &OwnedFd) -> io::Result<Vec<(u64, Listener)>> {
    let mut found = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = &buffer[..length];
        while let Some((kind, body, next)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(found),
                NLMSG_ERROR => return Err(io::Error::other("the kernel refuses the request")),
                _ => found.extend(listener(body)),
            }
            rest = next;
        }
        if length == 0 {
            return Ok(found);
        }
    }
}

/// Split the first message off: its type, what follows its header, and the next ones.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(word(bytes, 0)?).ok()?;
    let body = bytes.get(HEADER..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((half(bytes, 4)?, body, next))
}

/// Read a `struct inet_diag_msg` and its attributes; return the cookie as well.
fn listener(body: &[u8]) -> Option<(u64, Listener)> {
    let port = u16::from_be_bytes(body.get(4..6)?.try_into().ok()?);
    let address = body.get(8..24)?;
    let ip = if i32::from(*body.first()?) == libc::AF_INET {
        IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(&address[..4]).ok()?))
    } else {
        IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?))
    };
    let cookie = u64::from(word(body, 44)?) | u64::from(word(body, 48)?) << 32;
    let mut listener = Listener {
        local: SocketAddr::new(ip, port),
        queue: word(body, 56)?,
        limit: word(body, 60)?,
        drops: 0,
        inode: word(body, 68)?,
        cgroup: 0,
    };
    let mut rest = body.get(MESSAGE..).unwrap_or_default();
    while let Some((kind, value, next)) = attribute(rest) {
        match kind {
            INET_DIAG_SKMEMINFO => listener.drops = word(value, 4 * DROPS).unwrap_or(0),
            INET_DIAG_CGROUP_ID => {
                let id = value.first_chunk();
                listener.cgroup = id.map_or(0, |id| u64::from_ne_bytes(*id));
            }
            _ => {}
        }
        rest = next;
    }
    Some((cookie, listener))
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
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// The witness is the caller of listen() and connect().
    #[test]
    fn a_listener_tells_its_accept_queue() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listening.local_addr().unwrap();
        let of = || {
            let mut found = all(Some(netns::own().unwrap())).into_values();
            found.find(|listener| listener.local == address).unwrap()
        };
        let before = of();
        assert_eq!((before.queue, before.drops), (0, 0));
        // listen() of the standard library asks for 128, or for what the kernel allows.
        assert!(before.limit > 0);
        let _waiting = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        assert_eq!(of().queue, 2);
        listening.accept().unwrap();
        assert_eq!(of().queue, 1);
    }

    #[test]
    fn both_families_have_their_addresses() {
        let listening = TcpListener::bind("[::1]:0").unwrap();
        let address = listening.local_addr().unwrap();
        let found = all(None);
        assert!(
            found.values().any(|listener| listener.local == address),
            "{found:?}"
        );
    }

    #[test]
    fn what_is_cut_short_is_no_listener() {
        assert_eq!(message(&[]), None);
        assert_eq!(message(&[200, 0, 0, 0, 20, 0, 0, 0]), None);
        assert_eq!(listener(&[2; 40]), None);
        assert_eq!(attribute(&[9, 0, 7, 0, 1]), None);
        // One that says it is shorter than its own header would never end.
        assert_eq!(attribute(&[0, 0, 7, 0, 1, 2, 3, 4]), None);
        assert_eq!(message(&[0; 32]), None);
    }
}
