use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::MessageOptions;
use crate::control::{Address, Writer};
use crate::sys::message::{self, BATCH};

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

/// One message of a batch.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Outgoing<'a> {
    parts: &'a [IoSlice<'a>],
    to: Option<Destination>,
    options: MessageOptions,
}

impl<'a> Outgoing<'a> {
    /// Make one of `parts`, to the peer of the socket, by the socket's options.
    pub const fn new(parts: &'a [IoSlice<'a>]) -> Self {
        Self {
            parts,
            to: None,
            options: MessageOptions::new(),
        }
    }

    /// Send it to `destination`.
    pub fn to(self, destination: impl Into<Destination>) -> Self {
        Self {
            to: Some(destination.into()),
            ..self
        }
    }

    /// Send it with these options. No message of a batch waits for room if one has
    /// [`dont_wait`](MessageOptions::dont_wait).
    pub const fn with(self, options: MessageOptions) -> Self {
        Self { options, ..self }
    }

    pub(crate) fn options(&self) -> MessageOptions {
        self.options
    }

    fn length(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

/// Send `messages` in order, up to 32 in one system call, and return how many were sent. Give the
/// bytes of each to `sent`.
///
/// It ends with the first message that fails, or of which a stream took a part: that one counts
/// as sent. To send the rest again gives the error, unless that has passed.
///
/// Never raises SIGPIPE.
///
/// Source: sendmmsg(2); `__sys_sendmmsg()` in net/socket.c, v6.18.
///
/// # Errors
///
/// Those of [`send`], of the first message.
pub fn send_batch(
    socket: impl AsFd,
    messages: &[Outgoing<'_>],
    mut sent: impl FnMut(usize),
) -> io::Result<usize> {
    let mut count = 0;
    for messages in messages.chunks(BATCH) {
        let mut lengths = [0; BATCH];
        match send_some(&socket, messages, &mut lengths) {
            Err(_) if count > 0 => break,
            Err(error) => return Err(error),
            Ok(taken) => {
                let lengths = &lengths[..taken];
                lengths.iter().copied().for_each(&mut sent);
                count += taken;
                let whole = messages.iter().map(Outgoing::length);
                if taken < messages.len() || whole.ne(lengths.iter().copied()) {
                    break;
                }
            }
        }
    }
    Ok(count)
}

fn send_some(
    socket: impl AsFd,
    messages: &[Outgoing<'_>],
    lengths: &mut [usize; BATCH],
) -> io::Result<usize> {
    let mut controls = [[0; MessageOptions::SPACE]; BATCH];
    let outgoing = messages
        .iter()
        .zip(&mut controls)
        .map(|(message, control)| {
            let mut control = Writer::new(control);
            let written = message.options.write(&mut control);
            written.expect("SPACE is room for all");
            message::Outgoing {
                parts: message.parts,
                to: message.to.as_ref().map_or(&[][..], |to| to.0.as_bytes()),
                control: control.into_written(),
            }
        });
    let dont_wait = messages
        .iter()
        .any(|message| message.options.is_dont_wait());
    let flags = libc::MSG_NOSIGNAL | if dont_wait { libc::MSG_DONTWAIT } else { 0 };
    Ok(message::send_many(socket, outgoing, lengths, flags)?)
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
