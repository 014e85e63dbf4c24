//! Sockets whose sends are known by a [`Token`], and their stamps with them.
//!
//! A [`StampedSocket`] puts together what is easily put together wrongly: it sets the options,
//! gives each datagram an id of its own where the kernel has them (v6.13), keeps count under a lock
//! elsewhere, begins the count anew after a failed send, and joins stamps to sends. Any thread may
//! send, receive and take stamps at any time, by `&self`.
//!
//! ```
//! use std::net::UdpSocket;
//! use std::time::Duration;
//! use sockstamp::stamped::StampedSocket;
//! use sockstamp::timestamping::{Options, TxKind};
//!
//! let peer = UdpSocket::bind("127.0.0.1:0")?;
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! socket.connect(peer.local_addr()?)?;
//!
//! let socket = StampedSocket::new(socket, Options::new().tx_software())?;
//! let ping = socket.send(b"ping")?;
//! for stamped in socket.wait_stamps(Duration::from_secs(1))? {
//!     assert_eq!(stamped.token, ping.token);
//! }
//! // Or both at once:
//! let (_, left) = socket.send_stamped(b"ping", TxKind::Snd, Duration::from_secs(1))?;
//! assert!(left.is_some());
//! # std::io::Result::Ok(())
//! ```
//!
//! With the feature `tokio`, `AsyncStampedSocket` does the same for tasks. Its readiness comes from
//! an epoll of its own, so a writer that waits for room sleeps: with tokio's own sockets it does
//! not, once a stamp has come (mio takes EPOLLERR for a closed peer).

#[cfg(feature = "tokio")]
mod asynchronous;
mod batch;
mod ids;
mod settings;
mod socket;
mod state;
mod token;
mod watch;

#[cfg(feature = "tokio")]
pub use asynchronous::AsyncStampedSocket;
pub use settings::Settings;
pub use socket::StampedSocket;
pub use token::{Counters, Sent, Stamped, Token};
