use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::MessageOptions;
use crate::control::{Address, Writer};
use crate::sys::message;

/// The destination of a message.
#[derive(Debug, Clone, Copy)]
pub struct Destination(Address);

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Self(address.into())
    }
}

impl Destination {
    /// The address in a `struct sockaddr_…`, for programs that have it as bytes; `None` if they are
    /// more than those of `struct sockaddr_in6`.
    #[must_use]
    pub fn from_raw(address: &[u8]) -> Option<Self> {
        Address::from_raw(address).map(Self)
    }

    /// For packet sockets (AF_PACKET): the interface index, the Ethernet protocol (ETH_P_*), and
    /// the hardware address, which SOCK_DGRAM sockets put into the link header.
    #[must_use]
    pub fn link(interface: u32, protocol: u16, hardware: [u8; 6]) -> Self {
        Self(Address::link(interface, protocol, hardware))
    }
}

/// Send `parts` as one message, to the peer of the socket or, unconnected, to `to`. How many bytes
/// were sent.
///
/// Never raises SIGPIPE.
///
/// Source: sendmsg(2).
///
/// # Errors
///
/// A plain OS error, as from the standard library's `send`; EINVAL if the kernel lacks what
/// `options` request (see [`Support`](super::Support)), or cannot do it for this socket.
pub fn send(
    socket: impl AsFd,
    parts: &[IoSlice<'_>],
    to: Option<Destination>,
    options: MessageOptions,
) -> io::Result<usize> {
    let to = to.as_ref().map_or(&[][..], |to| to.0.as_bytes());
    let mut control = [0; MessageOptions::SPACE];
    let mut control = Writer::new(&mut control);
    options.write(&mut control).expect("SPACE is room for all");
    let flags = match options.is_dont_wait() {
        true => libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        false => libc::MSG_NOSIGNAL,
    };
    Ok(message::send(socket, parts, to, control.written(), flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_does_not_block_a_send_that_does_not_wait() {
        let (sender, _receiver) = std::os::unix::net::UnixStream::pair().unwrap();
        let payload = [0; 65_536];
        let error = loop {
            let parts = [IoSlice::new(&payload)];
            match send(&sender, &parts, None, MessageOptions::default().dont_wait()) {
                Ok(sent) => assert!(sent > 0),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
