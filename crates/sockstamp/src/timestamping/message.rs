use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use crate::control::{Address, SO_TIMESTAMPING, Writer, space};
use crate::sys::message;

use super::Flag;

/// The stamps requested for one message, and its id. Without any, the socket's options apply.
///
/// Stamps are reported only if the socket has [`Options::software`](super::Options::software) or
/// [`Options::hardware`](super::Options::hardware).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[must_use]
pub struct MessageOptions {
    flags: Option<u32>,
    id: Option<u32>,
    dont_wait: bool,
}

impl MessageOptions {
    /// Use the socket's options.
    pub const fn new() -> Self {
        Self {
            flags: None,
            id: None,
            dont_wait: false,
        }
    }

    /// No stamps, whatever the socket has.
    pub const fn unstamped(self) -> Self {
        Self {
            flags: Some(0),
            ..self
        }
    }

    /// Before the packet scheduler; as [`Options::tx_sched`](super::Options::tx_sched).
    pub const fn tx_sched(self) -> Self {
        self.with(Flag::TxSched)
    }

    /// Request the driver's stamp, like [`Options::tx_software`](super::Options::tx_software).
    pub const fn tx_software(self) -> Self {
        self.with(Flag::TxSoftware)
    }

    /// Request the network interface's stamp, like
    /// [`Options::tx_hardware`](super::Options::tx_hardware).
    pub const fn tx_hardware(self) -> Self {
        self.with(Flag::TxHardware)
    }

    /// Request the stamp of the acknowledgement, like [`Options::tx_ack`](super::Options::tx_ack).
    pub const fn tx_ack(self) -> Self {
        self.with(Flag::TxAck)
    }

    /// Request the stamp of the hardware's completion, like
    /// [`Options::tx_completion`](super::Options::tx_completion).
    pub const fn tx_completion(self) -> Self {
        self.with(Flag::TxCompletion)
    }

    /// The id of this message's stamps, in the place of a counted one: SCM_TS_OPT_ID, since v6.13.
    /// The socket must have [`Options::id`](super::Options::id), and must not be TCP. The kernel
    /// does not count this message.
    pub const fn id(self, id: u32) -> Self {
        Self {
            id: Some(id),
            ..self
        }
    }

    /// Do not block (MSG_DONTWAIT).
    pub const fn dont_wait(self) -> Self {
        Self {
            dont_wait: true,
            ..self
        }
    }

    pub(crate) const fn without_id(self) -> Self {
        Self { id: None, ..self }
    }

    /// Return true if the message requests a stamp, on a socket with these options.
    pub(crate) fn requests_stamps(self, socket: super::Options) -> bool {
        let requested = self.flags.unwrap_or(socket.bits());
        Flag::all_in(requested).any(Flag::stamps_sends)
    }

    const fn with(self, flag: Flag) -> Self {
        let flags = match self.flags {
            Some(flags) => flags,
            None => 0,
        };
        Self {
            flags: Some(flags | flag.bit()),
            ..self
        }
    }

    pub(super) fn encode(self) -> Encoded {
        let mut encoded = Encoded {
            bytes: [0; 2 * WORD],
            length: 0,
        };
        let mut writer = Writer::new(&mut encoded.bytes);
        for (kind, value) in [(SO_TIMESTAMPING, self.flags), (SCM_TS_OPT_ID, self.id)] {
            if let Some(value) = value {
                writer
                    .push(libc::SOL_SOCKET, kind, &value.to_ne_bytes())
                    .expect("the buffer has room for both");
            }
        }
        encoded.length = writer.written().len();
        encoded
    }
}

/// include/uapi/asm-generic/socket.h, since v6.13.
pub(crate) const SCM_TS_OPT_ID: i32 = 81;
const WORD: usize = space(size_of::<u32>());

/// The control messages of one message.
#[derive(Debug)]
pub(super) struct Encoded {
    bytes: [u8; 2 * WORD],
    length: usize,
}

impl Encoded {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The destination of a message.
#[derive(Debug, Clone, Copy)]
pub struct Destination(Address);

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Self(address.into())
    }
}

impl Destination {
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
    let control = options.encode();
    let flags = match options.dont_wait {
        true => libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        false => libc::MSG_NOSIGNAL,
    };
    Ok(message::send(socket, parts, to, control.as_bytes(), flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Control, parse};

    #[test]
    fn unrequested_options_are_not_in_the_control_messages() {
        assert_eq!(MessageOptions::new().encode().as_bytes(), []);
        let encoded = MessageOptions::new().id(7).encode();
        let messages: Vec<_> = parse(encoded.as_bytes()).map(Result::unwrap).collect();
        let id = Control::Other {
            level: libc::SOL_SOCKET,
            kind: SCM_TS_OPT_ID,
            data: &7_u32.to_ne_bytes(),
        };
        assert_eq!(messages, [id]);
    }

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

    #[test]
    fn a_request_of_no_stamps_replaces_the_sockets_stamps() {
        assert_ne!(
            MessageOptions::new().unstamped().encode().as_bytes(),
            MessageOptions::new().encode().as_bytes()
        );
    }
}
