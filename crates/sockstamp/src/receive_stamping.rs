use std::os::fd::OwnedFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

use crate::{Error, Result};

/// Makes the kernel stamp received packets for as long as this is held.
///
/// To stamp every packet costs a clock read, so the kernel does it only while some socket on the host has asked
/// for receive stamps; the packets of all sockets, in all network namespaces, are stamped then. This holds such a
/// socket: UDP, not bound, so it can receive nothing.
///
/// The kernel enables stamping from a work queue: packets may be unstamped for some milliseconds after
/// [`enable`](Self::enable) returns. It likewise goes on for some time after the last such socket is closed.
///
/// Source: `net_enable_timestamp()` and `netstamp_needed_key` in net/core/dev.c, `sock_enable_timestamp()` in
/// net/core/sock.c, v6.18; SO_TIMESTAMPNS in Documentation/networking/timestamping.rst.
#[derive(Debug)]
pub struct ReceiveStamping {
    _socket: OwnedFd,
}

impl ReceiveStamping {
    /// Opens the socket and asks for stamps on it. Needs no privilege.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the process has no file descriptor left (EMFILE, ENFILE), no memory, or may not create
    /// sockets (a seccomp filter: EPERM, EACCES).
    pub fn enable() -> Result<Self> {
        let stamped = socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .map_err(Error::call("socket(SOCK_DGRAM)", "IPv4 UDP"))?;
        setsockopt(&stamped, sockopt::ReceiveTimestampns, &true)
            .map_err(Error::call("setsockopt(SO_TIMESTAMPNS)", "IPv4 UDP"))?;
        Ok(Self { _socket: stamped })
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::thread::sleep;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    use nix::sys::socket::{ControlMessageOwned, MsgFlags, getsockopt, recvmsg};

    use super::*;

    #[test]
    fn the_held_socket_asks_for_stamps() {
        let stamping = ReceiveStamping::enable().unwrap();
        assert!(getsockopt(&stamping._socket, sockopt::ReceiveTimestampns).unwrap());
    }

    /// Whether a packet was stamped on arrival, at a socket that asks for its stamp only later. A packet without
    /// one is stamped when it is read (`__sock_recv_timestamp()` in net/socket.c), which is 5 ms later here.
    fn is_stamped_on_arrival() -> bool {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        let sent = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        sleep(Duration::from_millis(5));
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        let mut control = nix::cmsg_space!(libc::timespec);
        let message = recvmsg::<()>(
            socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::empty(),
        )
        .unwrap();
        match message.cmsgs().unwrap().next() {
            Some(ControlMessageOwned::ScmTimestampns(stamp)) => Duration::from(stamp) <= sent,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn packets_of_sockets_that_did_not_ask_are_stamped() {
        let _stamping = ReceiveStamping::enable().unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while !is_stamped_on_arrival() {
            assert!(
                Instant::now() < deadline,
                "no packet was stamped on arrival for 5 s"
            );
            // The probe's own socket asked for stamps: let that wear off, lest the next probe sees its effect.
            sleep(Duration::from_millis(100));
        }
    }
}
