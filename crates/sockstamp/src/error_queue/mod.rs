//! The error queue of a socket: time stamps, completions of zerocopy sends, and network errors.
//!
//! The kernel reports a program's sent messages by the socket's error queue, which has three kinds
//! of entries. An [`ErrorQueue`] reads many in one system call, never blocks and allocates nothing,
//! and passes each on as a [`Report`].
//!
//! ```
//! use std::net::UdpSocket;
//! use sockstamp::error_queue::{ErrorQueue, Report};
//!
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! let mut queue = ErrorQueue::new();
//! queue.drain(&socket, |report| match report {
//!     Report::Stamp { stamp, .. } => println!("{stamp:?}"),
//!     Report::ZeroCopy(sends) => println!("{sends:?}"),
//!     Report::Network(error) => println!("{error:?}"),
//!     _ => {}
//! })?;
//! assert_eq!(queue.counters().lost(), 0);
//! # std::io::Result::Ok(())
//! ```
//!
//! # What surprises
//!
//! - **Entries wake `poll`**: a socket with a filled error queue has POLLERR (EPOLLERR), which no
//!   poll can exclude. A loop that does not drain the queue spins. With EPOLLET it wakes once per
//!   entry.
//! - **Entries count against the receive buffer** (SO_RCVBUF), together with received data that
//!   nobody has read. Entries that do not fit are dropped silently (`sock_queue_err_skb()` in
//!   net/core/skbuff.c, v6.18): missing ids are the only sign. A program that sends and never reads
//!   what comes back gets no stamps any more. Drain often, and request stamps without their packets
//!   ([`only_stamps`](crate::timestamping::Options::only_stamps)).
//! - **One queue, one reader.** Stamps, completions and errors come mixed, so a part of a program
//!   that reads the queue for itself takes the others' entries away.
//! - An ICMP error is reported by the next system call on the socket as well (ECONNREFUSED and the
//!   like), if it has not been drained before.

#[cfg(feature = "tokio")]
mod asynchronous;
mod counters;
mod original;
mod queue;
#[cfg(feature = "io-uring")]
mod ring;

#[cfg(feature = "tokio")]
pub use asynchronous::AsyncErrorQueue;
pub use counters::Counters;
pub use original::{Original, Originals};
pub use queue::ErrorQueue;
#[cfg(all(test, feature = "io-uring"))]
pub(crate) use ring::{HARDWARE, KIND_SHIFT};
#[cfg(feature = "io-uring")]
pub use ring::{RingReport, StampRing};
#[cfg(test)]
pub(crate) use sockstamp_clock::CODE_ZEROCOPY_COPIED;
pub use sockstamp_clock::{
    DepartureError, DepartureReason, NetworkError, Report, Unreported, ZeroCopyRange,
};
