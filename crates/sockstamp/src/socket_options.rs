//! Options of sockets that have no safe wrapper elsewhere, for programs that make packets of their
//! own.

use std::os::fd::AsFd;

use crate::sys::options::{get, set};
use crate::{Error, Result};

pub use sockstamp_clock::Version;

/// When packets may be fragmented, by Path MTU Discovery: IP_MTU_DISCOVER of ip(7), and
/// IPV6_MTU_DISCOVER of ipv6(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PathMtu {
    /// Never: sets the DF bit of IPv4, and refuses packets above the known path MTU with EMSGSIZE.
    Do,
    /// As [`Do`](Self::Do), but the known path MTU is not minded: packets are refused with EMSGSIZE
    /// above the interface's MTU alone.
    Probe,
    /// This host fragments what exceeds the known path MTU, and sets the DF bit of all else.
    Want,
    /// Routers may fragment, too: no DF bit. Of IPv6, where no router does, this host fragments to
    /// the interface's MTU.
    Dont,
}

/// Set when the socket's packets may be fragmented.
///
/// # Errors
///
/// [`Error::Call`] if `socket` is none of that version.
pub fn set_path_mtu(socket: impl AsFd, version: Version, discovery: PathMtu) -> Result<()> {
    let (level, name) = match version {
        Version::V4 => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
        Version::V6 => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    };
    // IPv6 has the same values: include/uapi/linux/in6.h, v6.18.
    let value = match discovery {
        PathMtu::Do => libc::IP_PMTUDISC_DO,
        PathMtu::Probe => libc::IP_PMTUDISC_PROBE,
        PathMtu::Want => libc::IP_PMTUDISC_WANT,
        PathMtu::Dont => libc::IP_PMTUDISC_DONT,
    };
    set(socket, level, name, &value).map_err(Error::call("setsockopt(IP_MTU_DISCOVER)", "a socket"))
}

/// Have the kernel fill in the checksum, with its pseudo-header, at this offset of a raw IPv6
/// socket's packets; it drops received packets with a wrong one.
///
/// Source: IPV6_CHECKSUM in RFC 3542, section 3.1; `rawv6_push_pending_frames()` in net/ipv6/raw.c,
/// v6.18.
///
/// # Errors
///
/// [`Error::Call`] if `socket` is no raw socket of IPv6, or the offset is odd.
pub fn checksum_at(socket: impl AsFd, offset: u16) -> Result<()> {
    set(
        socket,
        libc::IPPROTO_IPV6,
        libc::IPV6_CHECKSUM,
        &i32::from(offset),
    )
    .map_err(Error::call("setsockopt(IPV6_CHECKSUM)", "a socket"))
}

/// Have a raw socket of ICMP receive these types of messages alone. The others are rejected before
/// they are copied for the socket. Errors about the socket's own packets are in its error queue as
/// before.
///
/// Source: ICMP_FILTER of raw(7), which knows the types up to 31, and ICMP6_FILTER in RFC 3542,
/// section 3.2; `icmp_filter()` in net/ipv4/raw.c, v6.18.
///
/// # Errors
///
/// [`Error::Call`] if `socket` is no raw socket of that version's ICMP.
pub fn accept_icmp(socket: impl AsFd, version: Version, types: &[u8]) -> Result<()> {
    // include/uapi/linux/icmp.h and icmpv6.h
    const ICMP_FILTER: i32 = 1;
    const ICMPV6_FILTER: i32 = 1;
    let mut rejected = [u32::MAX; 8];
    for kind in types {
        rejected[usize::from(kind / 32)] &= !(1 << (kind % 32));
    }
    let done = match version {
        Version::V4 => set(socket, libc::SOL_RAW, ICMP_FILTER, &rejected[0]),
        Version::V6 => set(socket, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &rejected),
    };
    done.map_err(Error::call("setsockopt(ICMP_FILTER)", "a socket"))
}

/// Return the number of packets for `socket` dropped because its receive buffer was full, modulo
/// 2^32. Packets that its own filter rejects do not count, nor do entries of its error queue.
///
/// Source: SO_MEMINFO and SK_MEMINFO_DROPS in include/uapi/linux/sock_diag.h;
/// `__sock_queue_rcv_skb()` and `sock_queue_err_skb()`, v6.18.
///
/// # Errors
///
/// [`Error::Call`] if it is no socket.
pub fn receive_drops(socket: impl AsFd) -> Result<u32> {
    const SK_MEMINFO_DROPS: usize = 8;
    let (numbers, _) = get(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MEMINFO,
        [0_u32; SK_MEMINFO_DROPS + 1],
    )
    .map_err(Error::call("getsockopt(SO_MEMINFO)", "a socket"))?;
    Ok(numbers[SK_MEMINFO_DROPS])
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use socket2::SockRef;

    use super::*;

    #[test]
    fn a_full_receive_buffer_drops_and_counts() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        SockRef::from(&receiver).set_recv_buffer_size(1).unwrap();
        assert_eq!(receive_drops(&receiver).unwrap(), 0);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..20 {
            sender
                .send_to(&[0; 1_000], receiver.local_addr().unwrap())
                .unwrap();
        }
        receiver.set_nonblocking(true).unwrap();
        let mut read = 0;
        while receiver.recv(&mut [0; 1_000]).is_ok() {
            read += 1;
        }
        assert!(read < 20);
        assert_eq!(receive_drops(&receiver).unwrap(), 20 - read);
    }

    #[test]
    fn each_version_has_its_option() {
        let (v4, v6) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("[::1]:0").unwrap(),
        );
        set_path_mtu(&v4, Version::V4, PathMtu::Do).unwrap();
        set_path_mtu(&v6, Version::V6, PathMtu::Do).unwrap();
        let set = |socket, level, name| get(socket, level, name, 0_i32).unwrap().0;
        assert_eq!(
            set(&v4, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            libc::IP_PMTUDISC_DO
        );
        assert_eq!(
            set(&v6, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
            libc::IPV6_PMTUDISC_DO
        );
        assert!(set_path_mtu(&v4, Version::V6, PathMtu::Do).is_err());
    }

    #[test]
    fn types_of_icmp_are_for_raw_sockets() {
        for (address, version) in [("127.0.0.1:0", Version::V4), ("[::1]:0", Version::V6)] {
            let error = accept_icmp(UdpSocket::bind(address).unwrap(), version, &[0]).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("setsockopt(ICMP_FILTER)"), "{error}");
        }
    }

    #[test]
    fn a_checksum_is_for_raw_sockets() {
        let error = checksum_at(UdpSocket::bind("[::1]:0").unwrap(), 16).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("setsockopt(IPV6_CHECKSUM) on a socket: "),
            "{error}"
        );
    }
}
