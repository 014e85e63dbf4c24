//! Socket timestamping of Linux: what an application needs around its stamped sockets.
//!
//! | item | gives |
//! |---|---|
//! | [`ReceiveStamping`] | makes the kernel stamp received packets for as long as it is held |
//! | [`interface`] | which stamps a network interface can give |
//! | [`clock`] | the offset between the clocks that stamps come from, and a watch for steps of CLOCK_REALTIME |
//!
//! Nothing here needs root or a capability, and nothing uses BPF.

#![deny(unsafe_code)]

pub mod clock;
mod error;
pub mod interface;
mod receive_stamping;
#[expect(
    unsafe_code,
    reason = "the one place for system calls that have no safe wrapper"
)]
mod sys;

pub use error::Error;
pub use receive_stamping::ReceiveStamping;

/// The result of everything here that calls the kernel.
pub type Result<T> = std::result::Result<T, Error>;
