use std::io::IoSlice;

use crate::zerocopy::held::Slot;
use crate::zerocopy::options::How;

/// The way from a sender to the kernel. Implemented here alone.
pub trait Transport: Sized {
    /// The system call, for messages of errors.
    #[doc(hidden)]
    const CALL: &'static str;

    /// Return true if the kernel may take a part of a send.
    #[doc(hidden)]
    fn is_stream(&self) -> bool;

    /// Return true if a send without a copy makes sense.
    #[doc(hidden)]
    fn lends(&self) -> bool;

    /// Send without a copy. Where that succeeds with [`Taken::in_flight`], `slot` is handed out
    /// once, on completion.
    #[doc(hidden)]
    fn lend(&mut self, parts: &[IoSlice<'_>], how: &How, slot: Slot) -> nix::Result<Taken>;

    /// Send a copy, and return how many bytes were taken.
    #[doc(hidden)]
    fn copy(&mut self, parts: &[IoSlice<'_>], how: &How) -> nix::Result<usize>;
}

/// The part that the kernel took.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The number of bytes.
    pub bytes: usize,
    /// The kernel will report when it is done with them.
    pub in_flight: bool,
}
