//! The clocks of both hosts, as types: a stamp of one is never subtracted from one of the other.
//!
//! A message has a sender and a reader, with stamps of [`Sender`] and [`Reader`]. These roles
//! differ by message, while the offset between the clocks is one of [`First`] and [`Second`].
//! [`Offset`] converts between them.

use std::net::SocketAddr;

use sockstamp_model::clock::{ClockOffset, Monotonic, Of, Realtime, Timestamp};

/// The host that a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// The one whose recordings are given first.
    First,
    /// The other one.
    Second,
}

impl Host {
    /// Both hosts.
    pub const ALL: [Self; 2] = [Self::First, Self::Second];

    /// The host at the other end.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// A direction of a connection: the sender's address, then the reader's.
pub(crate) type Key = (Host, SocketAddr, SocketAddr);

macro_rules! sides {
    ($($(#[$doc:meta])* $side:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub enum $side {}
        )*
    };
}

sides! {
    /// The host whose recordings are given first.
    First;
    /// The other one.
    Second;
    /// The host that sent a message.
    Sender;
    /// The host that read it.
    Reader;
}

/// A reading of a host's CLOCK_MONOTONIC.
pub type Stamp<H> = Timestamp<Of<H, Monotonic>>;

/// A reading of a host's CLOCK_REALTIME.
pub(crate) type Wall<H> = Timestamp<Of<H, Realtime>>;

/// The CLOCK_MONOTONIC of a second host less that of the first.
pub type Offset<A, B> = ClockOffset<Of<A, Monotonic>, Of<B, Monotonic>>;

/// Return the reading of the first host's clock, of those of a message from a host.
pub(crate) fn of_first(from: Host, sender: Stamp<Sender>, reader: Stamp<Reader>) -> Stamp<First> {
    Timestamp::from_nanos(match from {
        Host::First => sender.as_nanos(),
        Host::Second => reader.as_nanos(),
    })
}

/// Return the reader's clock less the sender's, of a message from a host.
pub(crate) fn to_reader(from: Host, offset: Offset<First, Second>) -> Offset<Sender, Reader> {
    ClockOffset::new(match from {
        Host::First => offset.delta(),
        Host::Second => -offset.delta(),
    })
}

/// Return the second host's clock less the first's, of a message from a host.
pub(crate) fn to_second(from: Host, offset: Offset<Sender, Reader>) -> Offset<First, Second> {
    ClockOffset::new(match from {
        Host::First => offset.delta(),
        Host::Second => -offset.delta(),
    })
}
