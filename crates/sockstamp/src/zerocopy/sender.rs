use std::error;
use std::fmt;

use nix::errno::Errno;

use crate::Error;
use crate::sys::zerocopy::StableBuffer;
use crate::zerocopy::held::{Held, Returned, Slot};
use crate::zerocopy::options::{How, Options};
use crate::zerocopy::transport::{Taken, Transport};

/// Sends buffers without copying them, and owns each until the kernel is done with it.
///
/// Made as a [`ZeroCopySender`](super::ZeroCopySender) (sendmsg(2)), or as a `RingSender`
/// (io_uring, by the feature of that name).
#[derive(Debug)]
pub struct Sender<T, B: StableBuffer> {
    pub(super) transport: T,
    pub(super) ledger: Ledger<B>,
    rest: Option<Rest>,
}

/// A sender's account of its buffers, for any transport.
#[derive(Debug)]
pub(super) struct Ledger<B: StableBuffer> {
    held: Held<B>,
    options: Options,
    copied_in_a_row: u32,
    stopped: bool,
    pub(super) counters: Counters,
}

impl<B: StableBuffer> Ledger<B> {
    /// A send of the buffer at `slot` is complete.
    pub(super) fn complete(&mut self, slot: Slot, copied: bool) {
        self.held.complete(slot, copied);
        self.counters.completed += 1;
        self.counters.completed_copied += u64::from(copied);
        self.copied_in_a_row = if copied {
            self.copied_in_a_row.saturating_add(1)
        } else {
            0
        };
        let limit = self.options.stop_when_copied;
        self.stopped |= limit.is_some_and(|limit| self.copied_in_a_row >= limit.get());
    }
}

/// A buffer of which a stream socket has taken a part.
#[derive(Debug, Clone, Copy)]
struct Rest {
    slot: Slot,
    sent: usize,
    how: How,
}

/// Counters of a sender. They never decrease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Send calls that the kernel took without a copy, or so it said.
    pub lent: u64,
    /// Of these, the completed ones.
    pub completed: u64,
    /// Of these, the copied ones. If the kernel merges completions, the first one decides for all
    /// (`skb_zerocopy_notify_extend()` in net/core/skbuff.c, v6.18).
    pub completed_copied: u64,
    /// Send calls below the threshold, which were copied.
    pub below_threshold: u64,
    /// Send calls that were copied since the socket cannot do otherwise, since all was copied
    /// lately ([`Options::stop_when_copied`]), or since ids are in doubt after a failed send.
    pub not_asked: u64,
    /// Send calls that were copied since the kernel had no memory for one without a copy (ENOBUFS:
    /// net.core.optmem_max, RLIMIT_MEMLOCK), or since a datagram lies in more pages than a packet
    /// can refer to (EMSGSIZE: CONFIG_MAX_SKB_FRAGS, 17).
    pub refused: u64,
    /// Ids that were reported again.
    pub repeated: u64,
    /// Ids that no send of ours has: someone else sends with MSG_ZEROCOPY by the same socket. Sends
    /// are copied from then on.
    pub foreign: u64,
}

/// The result for a sent buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a buffer that was copied is in it"]
pub enum Sent<B> {
    /// The kernel has taken all of it and reads it where it is. It comes back by
    /// [`Sender::next_returned`].
    InFlight,
    /// The kernel has taken all of it as a copy.
    Copied(B),
    /// A stream socket took a part. The rest is sent before anything else, by [`Sender::flush`].
    Partly {
        /// Bytes of it that are not sent yet.
        left: usize,
    },
}

/// The reason why a buffer was not sent.
#[derive(Debug)]
pub enum NotSent<B> {
    /// The socket has no room, for this buffer or for the rest of an earlier one. Wait for POLLOUT.
    WouldBlock(B),
    /// The kernel refused.
    Failed {
        /// `None` if parts of it were sent before and are in flight: it comes back when they are
        /// complete.
        buffer: Option<B>,
        /// The kernel's error.
        error: Error,
    },
}

impl<B> fmt::Display for NotSent<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock(_) => f.pad("the socket's send buffer is full"),
            Self::Failed { error, .. } => error.fmt(f),
        }
    }
}

impl<B: fmt::Debug> error::Error for NotSent<B> {}

/// The most parts that a call takes: include/uapi/linux/uio.h, v6.18. A stream takes further ones
/// by another call.
const UIO_MAXIOV: usize = 1024;

impl<T: Transport, B: StableBuffer> Sender<T, B> {
    pub(super) fn over(transport: T, options: Options) -> Self {
        Self {
            transport,
            ledger: Ledger {
                held: Held::default(),
                options,
                copied_in_a_row: 0,
                stopped: false,
                counters: Counters::default(),
            },
            rest: None,
        }
    }

    /// Send `buffer` to where the socket is connected. Arrays, Vecs and pairs of buffers are sent
    /// as one message:
    ///
    /// ```
    /// # use sockstamp::zerocopy::{Options, ZeroCopySender};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.connect(socket.local_addr()?)?;
    /// # let mut sender = ZeroCopySender::new(socket, Options::default())?;
    /// let (header, body) = (b"200 ".to_vec(), vec![7; 40_000]);
    /// let _ = sender.send([header, body])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Blocks as the socket does.
    ///
    /// # Errors
    ///
    /// [`NotSent`], with the buffer.
    pub fn send(&mut self, buffer: B) -> Result<Sent<B>, NotSent<B>> {
        self.send_by(buffer, How::default())
    }

    /// Send `buffer` to an address, in segments, or as a part of a datagram.
    ///
    /// # Errors
    ///
    /// [`NotSent`], with the buffer.
    pub fn send_by(&mut self, buffer: B, how: How) -> Result<Sent<B>, NotSent<B>> {
        match self.flush() {
            Ok(true) => {}
            Ok(false) => return Err(NotSent::WouldBlock(buffer)),
            Err(error) => {
                return Err(NotSent::Failed {
                    buffer: Some(buffer),
                    error,
                });
            }
        }
        let slot = self.ledger.held.put(buffer);
        let mut rest = Rest { slot, sent: 0, how };
        match self.push(&mut rest) {
            Ok(()) => Ok(match self.ledger.held.take_idle(slot) {
                Some(buffer) => Sent::Copied(buffer),
                None => {
                    self.ledger.held.close(slot);
                    Sent::InFlight
                }
            }),
            Err(Errno::EAGAIN) if rest.sent > 0 => {
                self.rest = Some(rest);
                Ok(Sent::Partly {
                    left: self.unsent(),
                })
            }
            Err(errno) => Err(self.give_up(slot, errno)),
        }
    }

    /// Send bytes that a stream socket has not taken yet. Return `true` if all of them are taken.
    ///
    /// # Errors
    ///
    /// The kernel's error for the send. The remaining bytes are then not sent; the buffer is
    /// returned like others.
    pub fn flush(&mut self) -> crate::Result<bool> {
        let Some(mut rest) = self.rest.take() else {
            return Ok(true);
        };
        match self.push(&mut rest) {
            Err(Errno::EAGAIN) => {
                self.rest = Some(rest);
                Ok(false)
            }
            result => {
                self.ledger.held.close(rest.slot);
                result.map_err(Self::error)?;
                Ok(true)
            }
        }
    }

    /// Return the number of bytes that a stream socket has not taken yet, which
    /// [`flush`](Self::flush) sends.
    pub fn unsent(&self) -> usize {
        self.rest
            .map_or(0, |rest| self.ledger.held.length(rest.slot) - rest.sent)
    }

    /// The next buffer that the kernel is done with, in the order of completion. `None`: no more
    /// are known by now.
    pub fn next_returned(&mut self) -> Option<Returned<B>> {
        self.ledger.held.next_returned()
    }

    /// Return the number of buffers that the sender owns: in flight, or not sent completely.
    pub fn in_flight(&self) -> usize {
        self.ledger.held.in_flight()
    }

    /// Return the counters so far.
    pub fn counters(&self) -> Counters {
        self.ledger.counters
    }

    /// Return true if a send of this many bytes would be without a copy now.
    pub fn lends(&self, bytes: usize) -> bool {
        bytes > 0
            && bytes >= self.ledger.options.threshold
            && !self.ledger.stopped
            && self.transport.lends()
    }

    /// Send without copies again, after [`Options::stop_when_copied`] ended it: the route may have
    /// changed.
    pub fn ask_again(&mut self) {
        self.ledger.stopped = false;
        self.ledger.copied_in_a_row = 0;
    }

    /// Return true if [`next_returned`](Self::next_returned) has one.
    pub(super) fn has_returned(&self) -> bool {
        self.ledger.held.has_returned()
    }

    /// Return true if no send is in flight.
    pub(super) fn all_complete(&self) -> bool {
        self.ledger.counters.lent == self.ledger.counters.completed
    }

    /// Send the rest of a buffer; `rest` tells how far it came.
    fn push(&mut self, rest: &mut Rest) -> nix::Result<()> {
        loop {
            rest.sent += self.send_once(*rest)?;
            if !self.transport.is_stream() || rest.sent >= self.ledger.held.length(rest.slot) {
                return Ok(());
            }
        }
    }

    fn send_once(&mut self, rest: Rest) -> nix::Result<usize> {
        let pieces = self.ledger.held.rest(rest.slot, rest.sent);
        let mut parts = pieces.as_slice();
        if self.transport.is_stream() {
            parts = &parts[..parts.len().min(UIO_MAXIOV)];
        }
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let counters = &mut self.ledger.counters;
        let copies = if length == 0 || length < self.ledger.options.threshold {
            &mut counters.below_threshold
        } else if self.ledger.stopped || !self.transport.lends() {
            &mut counters.not_asked
        } else {
            match self.transport.lend(parts, &rest.how, rest.slot) {
                Ok(Taken { bytes, in_flight }) => {
                    if in_flight {
                        counters.lent += 1;
                        self.ledger.held.lend(rest.slot);
                    }
                    return Ok(bytes);
                }
                Err(Errno::ENOBUFS | Errno::ENOMEM) => &mut counters.refused,
                Err(Errno::EMSGSIZE) if parts.len() > 1 => &mut counters.refused,
                Err(Errno::EOPNOTSUPP) => &mut counters.not_asked,
                Err(errno) => return Err(errno),
            }
        };
        let sent = self.transport.copy(parts, &rest.how)?;
        *copies += 1;
        Ok(sent)
    }

    fn give_up(&mut self, slot: Slot, errno: Errno) -> NotSent<B> {
        let buffer = self.ledger.held.take_idle(slot);
        match buffer {
            Some(buffer) if errno == Errno::EAGAIN => NotSent::WouldBlock(buffer),
            None => {
                self.ledger.held.close(slot);
                NotSent::Failed {
                    buffer: None,
                    error: Self::error(errno),
                }
            }
            buffer => NotSent::Failed {
                buffer,
                error: Self::error(errno),
            },
        }
    }

    fn error(errno: Errno) -> Error {
        Error::call(T::CALL, "a socket")(errno)
    }
}
