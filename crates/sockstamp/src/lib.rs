//! Socket timestamping of Linux, for applications with stamped sockets.
//!
//! | item | gives |
//! |---|---|
//! | [`ReceiveStamping`] | makes the kernel stamp received packets for as long as it is held |
//! | [`interface`] | which stamps a network interface can give |
//! | [`stamped`] | sockets whose sends and stamps belong together: begin here |
//! | [`timestamping`] | stamps of sent and received messages, of any socket |
//! | [`zerocopy`] | sends that own their buffers until the kernel is done with them, receives that borrow its pages |
//! | [`error_queue`] | stamps, completions of zerocopy sends and network errors: drained many at a time |
//! | [`completions`] | the same from memory, where `sockstamp notifications` runs: no system call for each |
//! | [`control`] | control messages: read from bytes, written to bytes |
//! | [`socket_options`] | what programs need that make packets of their own |
//! | [`departure`] | messages that the packet scheduler holds until a given time: SO_TXTIME |
//! | [`phc`] | the clock of a NIC: how far it is from CLOCK_REALTIME, and within which bound |
//! | [`clock`] | the offset between the clocks that stamps come from, and a watch for steps of CLOCK_REALTIME |
//!
//! On other systems than Linux a program compiles as it is, as far as it uses [`stamped`],
//! [`timestamping`], the types of [`error_queue`], [`control`] and [`clock`]: making a stamped
//! socket fails there with [`ErrorKind::Unsupported`](std::io::ErrorKind::Unsupported).
//!
//! Nothing here uses BPF, and nothing needs root or a capability, but for two that change or read
//! what belongs to the host: [`interface::HardwareStampingGuard`] needs CAP_NET_ADMIN, and [`phc`]
//! the permission to open the clock's device. The service that [`completions`] talks to needs more.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod completions;
#[cfg(target_os = "linux")]
pub mod control;
#[cfg(target_os = "linux")]
pub mod departure;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod error;
#[cfg(target_os = "linux")]
pub mod error_queue;
#[cfg(target_os = "linux")]
mod hardware_stamping;
#[cfg(all(test, target_os = "linux"))]
mod headers;
#[cfg(target_os = "linux")]
pub mod interface;
#[cfg(target_os = "linux")]
pub mod phc;
#[cfg(target_os = "linux")]
mod receive_stamping;
mod refusal;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
pub mod socket_options;
#[cfg(target_os = "linux")]
pub mod stamped;
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "the one place for system calls that have no safe wrapper"
)]
mod sys;
#[cfg(target_os = "linux")]
pub mod timestamping;
#[cfg(target_os = "linux")]
pub mod zerocopy;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{clock, control, error_queue, stamped, timestamping};
pub use error::{Error, Result};
#[cfg(target_os = "linux")]
pub use receive_stamping::ReceiveStamping;

/// Examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
