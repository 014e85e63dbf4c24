//! Receiving without a copy: TCP_ZEROCOPY_RECEIVE.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;

use nix::errno::Errno;

use crate::sys::message::{self, Buffers};
use crate::sys::zerocopy::{ReceiveMapping, Transfer, page_size};
use crate::{Error, Result};

/// Receives from a TCP socket by mapping the pages that hold the payload, where the kernel can, and
/// by copying elsewhere.
///
/// # When pages are mapped
///
/// The kernel maps a page of payload if payload fills it from its first byte to its last, if it is
/// a single page, and if nothing else owns it (`can_map_frag()` in net/ipv4/tcp.c, v6.18). For data
/// from the network that requires
///
/// - a network interface that splits headers from payload, into pages of the size of the system's;
/// - an MSS that is a multiple of that size, hence an MTU of, for instance, 4096 bytes and the
///   headers: 4148 with IPv4 and the timestamps option, 4168 with IPv6;
/// - a sender that begins its writes at multiples of it.
///
/// Payload from the same host has the sender's placement in pages. Ordinary sends fill pages larger
/// than one (refused), and files are in the page cache (refused). A send with MSG_ZEROCOPY is
/// copied for the receiver, into pages that begin with the packet: these are mapped.
///
/// Mapping is faster from some tens of kB on: changing a mapping costs more than copying a few
/// bytes.
#[derive(Debug)]
pub struct ZeroCopyReceiver<S> {
    socket: S,
    mapping: ReceiveMapping,
    copy: Box<[u8]>,
    error: Option<Errno>,
    counters: ReceiveCounters,
}

/// Counters of a receiver, in bytes. They never decrease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveCounters {
    /// Mapped.
    pub mapped: u64,
    /// Copied.
    pub copied: u64,
}

/// The result of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receive<'a> {
    /// The next bytes of the stream.
    Data(Received<'a>),
    /// No data has arrived yet.
    WouldBlock,
    /// The peer sends no more.
    End,
}

/// Bytes of a stream: [`mapped`](Self::mapped), then [`copied`](Self::copied).
///
/// Borrows the receiver, which cannot receive more until this is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// Pages of the packets themselves, which nothing writes. They are whole pages, so the address
    /// is a multiple of their size.
    pub mapped: &'a [u8],
    /// The following bytes, which could not be mapped.
    pub copied: &'a [u8],
}

impl<'a> Received<'a> {
    /// Return the number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.mapped.len() + self.copied.len()
    }

    /// All bytes, in order.
    pub fn parts(&self) -> [&'a [u8]; 2] {
        [self.mapped, self.copied]
    }
}

impl<S: AsFd> ZeroCopyReceiver<S> {
    /// Make room for mapping `window` bytes at a time, rounded up to whole pages, and for copying
    /// `copy` bytes, at least a page.
    ///
    /// The kernel copies `copy` bytes or fewer, and maps none.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the socket cannot be mapped: it is not one of TCP (ENODEV).
    pub fn new(socket: S, window: NonZeroUsize, copy: usize) -> Result<Self> {
        let mapping =
            ReceiveMapping::new(&socket, window).map_err(Error::call("mmap", "a socket"))?;
        Ok(Self {
            socket,
            mapping,
            copy: vec![0; copy.max(page_size())].into(),
            error: None,
            counters: ReceiveCounters::default(),
        })
    }

    /// Receive the available bytes, as far as they fit. Never blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Call`]: the error that ended the connection, after all earlier bytes; or the kernel
    /// lacks TCP_ZEROCOPY_RECEIVE (before Linux 4.18).
    pub fn receive(&mut self) -> Result<Receive<'_>> {
        if let Some(errno) = self.error.take() {
            return Err(Self::refused(errno));
        }
        let mut transfer = match self.mapping.receive(&self.socket, &mut self.copy) {
            // Treat EIO as the end of the stream (`tcp_zerocopy_receive()`); an ordinary receive
            // gives its cause.
            Err(Errno::EIO) => Transfer::default(),
            result => result.map_err(Self::refused)?,
        };
        if transfer.mapped + transfer.copied > 0 {
            self.error = transfer.error;
        } else if let Some(errno) = transfer.error {
            return Err(Self::refused(errno));
        } else {
            transfer.copied = match self.receive_copy(transfer.skip) {
                Ok(0) => return Ok(Receive::End),
                Err(Errno::EAGAIN) => return Ok(Receive::WouldBlock),
                result => result.map_err(Self::refused)?,
            };
        }
        self.counters.mapped += transfer.mapped as u64;
        self.counters.copied += transfer.copied as u64;
        Ok(Receive::Data(Received {
            mapped: self.mapping.bytes(),
            copied: &self.copy[..transfer.copied],
        }))
    }

    /// Give the pages that are mapped back to the kernel. The next [`receive`](Self::receive) does
    /// so as well; until then they stay in memory.
    pub fn release(&mut self) {
        self.mapping.clear();
    }

    /// Return the counters so far.
    pub fn counters(&self) -> ReceiveCounters {
        self.counters
    }

    /// The socket.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Up to `skip` bytes, after which a page can be mapped; 0: nothing was there a moment ago.
    fn receive_copy(&mut self, skip: usize) -> nix::Result<usize> {
        let wanted = if skip == 0 {
            self.copy.len()
        } else {
            skip.min(self.copy.len())
        };
        let mut buffers = Buffers {
            payload: &mut self.copy[..wanted],
            ..Buffers::default()
        };
        let received = message::receive(&self.socket, &mut buffers, libc::MSG_DONTWAIT)?;
        Ok(received.payload)
    }

    fn refused(errno: Errno) -> Error {
        Error::call("getsockopt(TCP_ZEROCOPY_RECEIVE)", "a socket")(errno)
    }
}
