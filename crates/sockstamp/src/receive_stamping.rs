use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};

use crate::{Error, Result, socket};

/// Makes the kernel stamp received packets as long as this exists.
///
/// Stamping every packet costs a clock read, so the kernel does it only while some socket of the
/// host requests receive stamps; then it stamps the packets of all sockets, in all network
/// namespaces. This holds such a socket: UDP and unbound, so it receives nothing.
///
/// The kernel enables stamping from a work queue: packets may be unstamped for some milliseconds
/// after [`enable`](Self::enable) returns, on a busy host for some hundred;
/// [`settle`](Self::settle) waits. Stamping also continues for some time after the last such socket
/// is closed.
///
/// Source: `net_enable_timestamp()` and `netstamp_needed_key` in net/core/dev.c,
/// `sock_enable_timestamp()` in net/core/sock.c, v6.18; SO_TIMESTAMPNS in
/// Documentation/networking/timestamping.rst.
#[derive(Debug)]
pub struct ReceiveStamping {
    _socket: OwnedFd,
}

impl ReceiveStamping {
    /// Open the socket and request stamps on it. It needs no privilege.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the process has no file descriptor left (EMFILE, ENFILE), no memory, or
    /// may not create sockets (a seccomp filter: EPERM, EACCES).
    pub fn enable() -> Result<Self> {
        let stamped = socket::unbound()?;
        setsockopt(&stamped, sockopt::ReceiveTimestampns, &true)
            .map_err(Error::call("setsockopt(SO_TIMESTAMPNS)", "IPv4 UDP"))?;
        Ok(Self { _socket: stamped })
    }

    /// Wait until packets are stamped, at most for `patience` and the time of one probe; whether
    /// they are.
    ///
    /// # Errors
    ///
    /// Those of [`is_on`](Self::is_on): the state is then unknown.
    pub fn settle(&self, patience: Duration) -> Result<bool> {
        let start = Instant::now();
        loop {
            let on = Self::is_on()?;
            if on || start.elapsed() >= patience {
                return Ok(on);
            }
        }
    }

    /// Return true if the kernel stamps received packets at present, for any socket's request.
    ///
    /// A packet on the loopback interface shows it: its socket requests the stamp only after the
    /// packet has arrived, and a packet that was not stamped on arrival is stamped when it is read
    /// (`__sock_recv_timestamp()` in net/socket.c, v6.18). This test itself switches stamping on
    /// for a moment, so another result within some 100 ms may be wrong. Needs no privilege.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the process may not use UDP on the loopback interface, or it is down.
    pub fn is_on() -> Result<bool> {
        /// Far more than a clock's resolution.
        const APART: Duration = Duration::from_micros(500);
        const SOCKET: &str = "IPv4 loopback UDP";
        let failed = |call| move |error: std::io::Error| call_failed(call, SOCKET, &error);
        let probe = UdpSocket::bind("127.0.0.1:0").map_err(failed("bind"))?;
        let address = probe.local_addr().map_err(failed("getsockname"))?;
        probe
            .set_read_timeout(Some(Duration::from_secs(1)))
            .map_err(failed("setsockopt(SO_RCVTIMEO)"))?;
        probe.send_to(b"x", address).map_err(failed("sendto"))?;
        // Return when the packet has arrived, and leave it in the queue.
        probe.peek(&mut [0]).map_err(failed("recv(MSG_PEEK)"))?;
        let arrived = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        sleep(APART);
        setsockopt(&probe, sockopt::ReceiveTimestampns, &true)
            .map_err(Error::call("setsockopt(SO_TIMESTAMPNS)", SOCKET))?;
        let stamp = receive_stamp(&probe).map_err(Error::call("recvmsg", SOCKET))?;
        Ok(stamp <= arrived)
    }
}

fn receive_stamp(socket: &UdpSocket) -> nix::Result<Duration> {
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let mut control = nix::cmsg_space!(libc::timespec);
    let message = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::empty(),
    )?;
    message
        .cmsgs()?
        .find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
            _ => None,
        })
        .ok_or(Errno::ENODATA)
}

fn call_failed(call: &'static str, on: &str, error: &std::io::Error) -> Error {
    Error::call(call, on)(Errno::from_raw(error.raw_os_error().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::getsockopt;

    use super::*;

    #[test]
    fn the_held_socket_asks_for_stamps() {
        let stamping = ReceiveStamping::enable().unwrap();
        assert!(getsockopt(&stamping._socket, sockopt::ReceiveTimestampns).unwrap());
    }

    #[test]
    fn packets_of_sockets_that_did_not_ask_are_stamped() {
        let stamping = ReceiveStamping::enable().unwrap();
        assert!(stamping.settle(Duration::from_secs(5)).unwrap());
        // The probe's own socket requested stamps: wait until that has no effect on the next probe.
        sleep(Duration::from_millis(100));
        assert!(ReceiveStamping::is_on().unwrap());
    }
}
