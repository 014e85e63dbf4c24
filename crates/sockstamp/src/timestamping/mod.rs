//! Stamps of sent and received messages, of any socket: SO_TIMESTAMPING.
//!
//! | item | gives |
//! |---|---|
//! | [`Options`] | which stamps a socket takes and gives out |
//! | [`Support`] | what this kernel accepts |
//! | [`send`], [`send_batch`] | send messages, each with stamps and an id of its own |
//! | [`ErrorQueue`](crate::error_queue::ErrorQueue) | brings the stamps of sent messages |
//! | [`Matcher`] | which message a stamp is of |
//! | [`receive`], [`ReceiveBatch`] | received messages with their stamps |
//!
//! A stamp has the type of its clock: the kernel's stamps are CLOCK_REALTIME, a network interface's
//! are on its own clock, and the two cannot be subtracted.
//! [`clock::measure`](crate::clock::measure) gives the offset to CLOCK_MONOTONIC.
//!
//! # What surprises
//!
//! - **A stamp of TCP belongs to a byte**, the last of its send call. A call that leaves as several
//!   packets has the stamp of the last, and an ACK stamp means that everything up to that byte has
//!   arrived.
//! - **TCP merges stamps**: of sends that share a packet, only the last one's stamp comes. A stamp
//!   therefore covers all sends before it; the [`Matcher`] handles that.
//! - **Ids of TCP count bytes**, from the next one written with [`tcp_id`](Options::tcp_id), from
//!   the oldest that is not acknowledged with [`id`](Options::id). Ids of datagrams count sends
//!   that requested a stamp. Both begin when the option is set on a socket without it, and wrap at
//!   2^32: to set it again changes nothing, to clear and set it begins anew ([`restart_ids`]).
//! - **A datagram that fails may keep its id**: a firewall, a full queue or a wrong segment size
//!   refuses it after the kernel has counted it, other errors come before. So the ids of later
//!   datagrams are in doubt, unless each has [its own](MessageOptions::id)
//!   ([`Matcher::restarted`]).
//! - **A datagram put together of several sends** (MSG_MORE) has the id of its first.
//! - **Stamps of sent messages come by the error queue**, which always wakes poll(2), and silently
//!   drops stamps when the receive buffer is full, be it of received data that nobody has read
//!   ([`error_queue`](crate::error_queue)).
//! - **A datagram that is cut** has the stamps of its first packet, be it fragments of IP or
//!   segments of UDP GSO.
//! - **Virtual devices stamp as well**: SCHED and SND come again on each device that the packet
//!   crosses while it belongs to the socket.
//! - **Without CAP_NET_RAW and [`only_stamps`](Options::only_stamps)** no stamp comes if the sysctl
//!   net.core.tstamp_allow_data is 0.
//! - **The first RX stamps may be missing**: the kernel switches stamping on for the host with some
//!   delay.

mod apply;
mod message;
mod options;
mod receive;
mod support;

pub use apply::restart_ids;
pub use message::{Destination, Outgoing, send, send_batch};
pub use options::Options;
#[cfg(feature = "tokio")]
pub(crate) use receive::receive_now;
pub use receive::{ReceiveBatch, receive};
pub use support::Support;

pub use sockstamp_clock::matcher::{Coverage, Match, Matcher, MatcherCounters, Origin, Outcome};
pub use sockstamp_clock::{
    Flag, MessageOptions, Received, RxStamp, TcpStatistics, TxKind, TxStamp, TxTime, Version,
};
