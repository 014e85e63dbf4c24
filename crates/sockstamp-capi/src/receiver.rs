//! Receives without a copy.

use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, OwnedFd};

use sockstamp::zerocopy::{Receive, ZeroCopyReceiver};

use crate::boundary::{Errno, Result};
use crate::header::sockstamp_view;

/// `struct sockstamp_receiver`.
pub struct Receiver {
    receiver: ZeroCopyReceiver<OwnedFd>,
}

impl Receiver {
    pub(crate) fn new(socket: BorrowedFd<'_>, window: usize, copy: usize) -> Result<Self> {
        let window = NonZeroUsize::new(window).ok_or(Errno::INVALID)?;
        let socket = socket.try_clone_to_owned().map_err(Errno::from)?;
        Ok(Self {
            receiver: ZeroCopyReceiver::new(socket, window, copy)?,
        })
    }

    /// Receive the available bytes; return their number and place. They stay until the receiver is
    /// used again.
    pub(crate) fn receive(&mut self) -> Result<(usize, sockstamp_view)> {
        let (mapped, copied): (&[u8], &[u8]) = match self.receiver.receive()? {
            Receive::Data(received) => (received.mapped, received.copied),
            Receive::WouldBlock => return Err(Errno(libc::EAGAIN)),
            Receive::End => (&[], &[]),
        };
        let view = sockstamp_view {
            mapped: mapped.as_ptr().cast(),
            mapped_length: mapped.len(),
            copied: copied.as_ptr().cast(),
            copied_length: copied.len(),
        };
        Ok((mapped.len() + copied.len(), view))
    }

    pub(crate) fn release(&mut self) {
        self.receiver.release();
    }
}
