use crate::zerocopy::held::Place;
use crate::zerocopy::options::How;

/// The way from a sender to the kernel. Implemented here alone.
pub trait Transport: Sized {
    /// The system call, for messages of errors.
    #[doc(hidden)]
    const CALL: &'static str;

    /// Whether the kernel may take a part of what is sent.
    #[doc(hidden)]
    fn is_stream(&self) -> bool;

    /// Whether it makes sense to ask for a send without a copy.
    #[doc(hidden)]
    fn lends(&self) -> bool;

    /// Sends without a copy. Where that succeeds with [`Lent::in_flight`], `place` is handed out once, on completion.
    #[doc(hidden)]
    fn lend(&mut self, bytes: &[u8], how: &How, place: Place) -> nix::Result<Lent>;

    /// Sends a copy; how many bytes of it.
    #[doc(hidden)]
    fn copy(&mut self, bytes: &[u8], how: &How) -> nix::Result<usize>;
}

/// What the kernel took.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lent {
    /// How many bytes.
    pub bytes: usize,
    /// Whether it will say when it is done with them.
    pub in_flight: bool,
}
