use std::error::Error;
use std::fmt;

use super::reader::{HEADER, align};

/// `CMSG_SPACE()`: how many bytes a control message with `length` bytes of data takes.
#[must_use]
pub const fn space(length: usize) -> usize {
    align(HEADER + length)
}

/// The buffer is too small for the message; nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NoSpace {
    /// Bytes of the message.
    pub needed: usize,
    /// Bytes left.
    pub left: usize,
}

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needed, left } = self;
        write!(
            f,
            "a control message of {needed} bytes does not fit into the remaining {left}"
        )
    }
}

impl Error for NoSpace {}

/// Writes control messages into the caller's buffer, one after the other.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl<'a> Writer<'a> {
    /// Begin at the start of `bytes`; [`space`] returns how many a message takes.
    #[must_use]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, length: 0 }
    }

    /// Add a message.
    ///
    /// # Errors
    ///
    /// [`NoSpace`] if it does not fit; earlier messages stay.
    pub fn push(&mut self, level: i32, kind: i32, data: &[u8]) -> Result<(), NoSpace> {
        let free = &mut self.bytes[self.length..];
        let (needed, left) = (space(data.len()), free.len());
        let message = free.get_mut(..needed).ok_or(NoSpace { needed, left })?;
        message.fill(0);
        let length = (HEADER + data.len()).to_ne_bytes();
        let fields = [&length[..], &level.to_ne_bytes(), &kind.to_ne_bytes()];
        let mut at = 0;
        for field in fields {
            message[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        }
        message[HEADER..HEADER + data.len()].copy_from_slice(data);
        self.length += needed;
        Ok(())
    }

    /// Return all messages, for sendmsg(2).
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Return the same, for as long as the buffer is borrowed.
    #[must_use]
    pub fn into_written(self) -> &'a [u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_does_not_fit_is_refused_and_others_stay() {
        let mut bytes = [0xff; 2 * space(4) - 1];
        let mut writer = Writer::new(&mut bytes);
        writer.push(1, 2, &[3, 4, 5]).unwrap();
        let before = writer.written().to_vec();
        let error = writer.push(1, 2, &[6]).unwrap_err();
        assert_eq!(
            error,
            NoSpace {
                needed: space(1),
                left: space(4) - 1
            }
        );
        assert_eq!(writer.written(), before);
    }
}
