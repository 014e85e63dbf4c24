//! Sending and receiving without a copy.
//!
//! A [`ZeroCopySender`] gives the kernel buffers to read where they are (MSG_ZEROCOPY), and gives
//! each back when the kernel is done with it. A [`ZeroCopyReceiver`] shows the pages that payload
//! arrived in (TCP_ZEROCOPY_RECEIVE).
//!
//! ```
//! use std::net::UdpSocket;
//! use std::time::Duration;
//! use sockstamp::error_queue::ErrorQueue;
//! use sockstamp::zerocopy::{Options, Sent, ZeroCopySender};
//!
//! let receiver = UdpSocket::bind("127.0.0.1:0")?;
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! socket.connect(receiver.local_addr()?)?;
//!
//! let mut sender = ZeroCopySender::new(socket, Options::default())?;
//! match sender.send(vec![7; 40_000])? {
//!     Sent::InFlight => {}
//!     Sent::Copied(buffer) => drop(buffer),
//!     Sent::Partly { .. } => unreachable!("a datagram goes as a whole"),
//! }
//! let mut queue = ErrorQueue::new();
//! sender.wait_idle(&mut queue, Duration::from_secs(1), |_| {})?;
//! while let Some(returned) = sender.next_returned() {
//!     println!("{} bytes to use again", returned.buffer.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a sender promises
//!
//! The peer gets the contents of the buffer at the time of transmission. A buffer is moved into the
//! sender and returned when the kernel has reported that it no longer reads it: for UDP when the
//! device is done with the packet, for TCP when the peer has acknowledged the bytes. Using it
//! before that does not compile:
//!
//! ```compile_fail,E0382
//! # use sockstamp::zerocopy::{Options, ZeroCopySender};
//! # let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
//! # let mut sender = ZeroCopySender::new(socket, Options::default()).unwrap();
//! let mut buffer = vec![0; 40_000];
//! let _ = sender.send(buffer);
//! buffer[0] = 1;
//! ```
//!
//! **Dropping a sender leaks the buffers in flight** and frees all others. The kernel holds the
//! pages of a buffer, so freeing it would be memory safe, but the allocator would reuse the memory,
//! and the kernel would send its new contents: TCP retransmissions read the pages again. Waiting
//! instead would block a drop for as long as the peer likes. Therefore wait before, for as long as
//! is suitable: [`wait_idle`](ZeroCopySender::wait_idle). The same holds for a forgotten sender,
//! and for one dropped by a panic.
//!
//! # When it pays
//!
//! - From about 32 KiB per send on. Smaller sends are copied ([`Options::threshold`]).
//! - Not to receivers on the same host, nor over devices that cannot gather: the kernel copies
//!   there after all, later, and reports it ([`Returned::copied`]). [`Options::stop_when_copied`]
//!   then ends such requests.
//! - Memory that is in flight is locked (RLIMIT_MEMLOCK for users without CAP_IPC_LOCK), and each
//!   completion that waits to be read counts against net.core.optmem_max. Beyond these the kernel
//!   returns ENOBUFS, and the send is copied ([`Counters::refused`]).

#[cfg(feature = "tokio")]
mod asynchronous;
mod calls;
mod copy_back;
mod held;
mod memory;
mod options;
mod ranges;
mod receive;
mod receive_buffer;
#[cfg(feature = "io-uring")]
mod ring;
mod sender;
mod transport;

pub use crate::sys::zerocopy::StableBuffer;
#[cfg(feature = "tokio")]
pub use asynchronous::AsyncZeroCopySender;
pub use calls::{Support, ZeroCopySender};
pub use copy_back::copies_back;
pub use held::Returned;
pub use memory::{CompletionCounters, CompletionsBy};
pub use options::{How, Options};
pub use receive::{Receive, ReceiveCounters, Received, ZeroCopyReceiver};
#[cfg(feature = "io-uring")]
pub use ring::{DeferredRingSender, RingSender};
pub use sender::{Counters, NotSent, Sender, Sent};
