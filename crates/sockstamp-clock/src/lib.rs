//! What every program with stamped sockets of Linux shares: the clocks of stamps as types, the
//! flags of SO_TIMESTAMPING, and control messages as bytes.
//!
//! | item | holds |
//! |---|---|
//! | [`time`] | durations and points in time that cannot be mixed up |
//! | [`Flag`] | which stamps a socket takes, and how it gives them out |
//! | [`control`] | control messages: read from bytes, written to bytes |
//! | [`digits`] | numbers as text, put together in place |
//!
//! Nothing here calls the kernel: a program that has a sendmsg(2) and a recvmsg(2) of its own can
//! use all of it. The library `sockstamp` has these calls, and shows the items here as its own.

#![forbid(unsafe_code)]

pub mod control;
pub mod digits;
mod flag;
pub mod time;

pub use flag::Flag;
pub use time::{Clock, ClockOffset, Delta, Monotonic, Nanos, Of, Phc, Realtime, Tai, Timestamp};
