use std::net::SocketAddr;
use std::num::NonZeroU32;

use crate::control::{self, Address, Writer};

/// The conditions under which a sender requests a send without a copy.
///
/// The default is [`THRESHOLD`](Self::THRESHOLD), and to continue even if the kernel copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub(super) threshold: usize,
    pub(super) stop_when_copied: Option<NonZeroU32>,
}

impl Options {
    /// Sends with fewer bytes are copied. Pinning pages and reporting the completion cost as much
    /// as copying this many bytes, as the benchmark `threshold` found on a virtual machine;
    /// docs/benchmarks.md has its run. The kernel's documentation gives about 10 kB
    /// (Documentation/networking/msg_zerocopy.rst, v6.18): measure on the target machine.
    pub const THRESHOLD: usize = 32 * 1024;

    /// Copies sends of fewer than `bytes`, and gives their buffers back at once.
    #[must_use]
    pub fn threshold(self, bytes: usize) -> Self {
        Self {
            threshold: bytes,
            ..self
        }
    }

    /// Stop when the kernel has copied `sends` in a row after all, as it does for receivers on this
    /// host and for devices that cannot gather: that costs more than copying at once.
    #[must_use]
    pub fn stop_when_copied(self, sends: NonZeroU32) -> Self {
        Self {
            stop_when_copied: Some(sends),
            ..self
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threshold: Self::THRESHOLD,
            stop_when_copied: None,
        }
    }
}

/// Options of one buffer's send. By default all of it goes to the connected peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct How {
    pub(super) to: Option<SocketAddr>,
    pub(super) segment: Option<u16>,
    pub(super) more: bool,
}

impl How {
    /// Send a datagram to `address`.
    #[must_use]
    pub fn to(self, address: SocketAddr) -> Self {
        Self {
            to: Some(address),
            ..self
        }
    }

    /// Send datagrams of `bytes` each, and the rest as the last one: UDP_SEGMENT. The kernel
    /// accepts 64 of them (128 since Linux 6.9), within one IP packet's length.
    #[must_use]
    pub fn segments(self, bytes: u16) -> Self {
        Self {
            segment: Some(bytes),
            ..self
        }
    }

    /// Announce that more follows: MSG_MORE. A datagram is sent with the first buffer without it;
    /// its buffers remain in flight until then.
    #[must_use]
    pub fn more(self) -> Self {
        Self { more: true, ..self }
    }

    /// Encode the options for the kernel.
    pub(super) fn encode(self) -> Encoded {
        let mut control = [0; SEGMENT_SPACE];
        let mut writer = Writer::new(&mut control);
        if let Some(bytes) = self.segment {
            writer
                .push(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes())
                .expect("SEGMENT_SPACE is what it takes");
        }
        let control_length = writer.written().len();
        Encoded {
            to: self.to.map(Address::from),
            control,
            control_length,
            flags: libc::MSG_NOSIGNAL | if self.more { libc::MSG_MORE } else { 0 },
        }
    }
}

/// Bytes of a control message with the segment size.
pub(super) const SEGMENT_SPACE: usize = control::space(size_of::<u16>());

/// A [`How`] as sendmsg(2) takes it.
pub(super) struct Encoded {
    to: Option<Address>,
    control: [u8; SEGMENT_SPACE],
    control_length: usize,
    /// A broken connection is an error, as in the standard library, and no signal.
    pub(super) flags: i32,
}

impl Encoded {
    /// Empty for where the socket is connected.
    pub(super) fn to(&self) -> &[u8] {
        self.to.as_ref().map_or(&[], Address::as_bytes)
    }

    pub(super) fn control(&self) -> &[u8] {
        &self.control[..self.control_length]
    }
}
