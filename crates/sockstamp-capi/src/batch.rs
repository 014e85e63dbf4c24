//! Many messages in one call.

use std::os::fd::BorrowedFd;

use sockstamp::timestamping::ReceiveBatch;

use crate::boundary::{Errno, Result};
use crate::header::sockstamp_message;
use crate::message;

/// `struct sockstamp_batch`.
pub struct Batch {
    receiver: ReceiveBatch,
    messages: Vec<sockstamp_message>,
}

impl Batch {
    pub(crate) fn new(size: usize) -> Result<Self> {
        if size == 0 {
            return Err(Errno::INVALID);
        }
        Ok(Self {
            receiver: ReceiveBatch::new(size),
            messages: Vec::with_capacity(ReceiveBatch::MESSAGES),
        })
    }

    /// The messages point into the receiver's memory, which stays until it receives again.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<&[sockstamp_message]> {
        self.messages.clear();
        self.receiver.receive(socket, |received, payload| {
            self.messages.push(sockstamp_message {
                data: payload.as_ptr().cast(),
                length: payload.len(),
                received: message::in_c(&received),
            });
        })?;
        Ok(&self.messages)
    }
}
