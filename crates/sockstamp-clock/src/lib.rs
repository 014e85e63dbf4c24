//! What every program with stamped sockets of Linux shares: the clocks of stamps as types, the
//! flags of SO_TIMESTAMPING, and control messages as bytes.
//!
//! | item | holds |
//! |---|---|
//! | [`time`] | durations and points in time that cannot be mixed up |
//! | [`Flag`] | which stamps a socket takes, and how it gives them out |
//! | [`MessageOptions`] | what one sent message requests, written to a control buffer |
//! | [`Received`] | what one received message says of itself, read from a control buffer |
//! | [`Report`] | an entry of the error queue, read from a control buffer: a stamp, above all |
//! | [`matcher`] | which message a stamp is of |
//! | [`control`] | control messages: read from bytes, written to bytes |
//! | [`digits`] | numbers as text, put together in place |
//!
//! Nothing here calls the kernel, and all of it compiles on other systems than Linux: a program
//! that has a sendmsg(2) and a recvmsg(2) of its own can use all of it. The library `sockstamp` has
//! these calls, and shows the items here as its own.

#![forbid(unsafe_code)]

pub mod control;
mod departure;
pub mod digits;
mod flag;
mod linux;
pub mod matcher;
mod message;
mod received;
mod report;
mod stamp;
mod statistics;
pub mod time;

pub use departure::{DepartureError, DepartureReason};
pub use flag::Flag;
pub use message::{MessageOptions, Version};
pub use received::Received;
#[doc(hidden)]
pub use report::CODE_ZEROCOPY_COPIED;
pub use report::{NetworkError, Report, Unreported, ZeroCopyRange};
pub use stamp::{RxStamp, TxKind, TxStamp, TxTime};
pub use statistics::TcpStatistics;
pub use time::{Clock, ClockOffset, Delta, Monotonic, Nanos, Of, Phc, Realtime, Tai, Timestamp};

/// Examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
