//! Stamps of sent and received messages, which Linux has.

use std::io::{self, IoSlice};
use std::net::SocketAddr;

#[path = "../timestamping/options.rs"]
mod options;

pub use options::Options;
pub use sockstamp_clock::matcher::{Coverage, Match, Matcher, MatcherCounters, Origin, Outcome};
pub use sockstamp_clock::{
    Flag, MessageOptions, Received, RxStamp, TcpStatistics, TxKind, TxStamp, TxTime, Version,
};

use super::unsupported;
use crate::Result;

impl Options {
    /// Fail.
    ///
    /// # Errors
    ///
    /// Always [`ErrorKind::Unsupported`](io::ErrorKind::Unsupported).
    pub fn apply<S>(self, _socket: S) -> Result<()> {
        Err(unsupported("setsockopt(SO_TIMESTAMPING)"))
    }

    /// Fail.
    ///
    /// # Errors
    ///
    /// Always [`ErrorKind::Unsupported`](io::ErrorKind::Unsupported).
    pub fn of<S>(_socket: S) -> Result<Self> {
        Err(unsupported("getsockopt(SO_TIMESTAMPING)"))
    }
}

/// What this system supports: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Support {
    /// False.
    pub wide: bool,
    /// False.
    pub own_id: bool,
}

impl Support {
    /// Return that nothing is supported.
    ///
    /// # Errors
    ///
    /// None.
    pub fn probe() -> Result<Self> {
        Ok(Self::default())
    }

    /// Return false.
    #[must_use]
    pub const fn has(&self, _flag: Flag) -> bool {
        false
    }

    /// Return all `options`.
    pub fn missing(&self, options: Options) -> impl Iterator<Item = Flag> {
        options.flags()
    }
}

impl Options {
    /// Return the options that this system supports: none.
    pub fn where_supported(self, support: &Support) -> Self {
        self.limited(|flag| support.has(flag), support.wide)
    }
}

/// The destination of a message.
#[derive(Debug, Clone, Copy)]
pub struct Destination(#[expect(dead_code, reason = "nothing is sent")] SocketAddr);

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Self(address)
    }
}

/// One message of a batch.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Outgoing<'a>(&'a [IoSlice<'a>], Option<Destination>, MessageOptions);

impl<'a> Outgoing<'a> {
    /// Make one of `parts`, to the peer of the socket.
    pub const fn new(parts: &'a [IoSlice<'a>]) -> Self {
        Self(parts, None, MessageOptions::new())
    }

    /// Send it to `destination`.
    pub fn to(self, destination: impl Into<Destination>) -> Self {
        Self(self.0, Some(destination.into()), self.2)
    }

    /// Send it with these options.
    pub const fn with(self, options: MessageOptions) -> Self {
        Self(self.0, self.1, options)
    }
}

/// Fail.
///
/// # Errors
///
/// Always [`ErrorKind::Unsupported`](io::ErrorKind::Unsupported).
pub fn send<S>(
    _socket: S,
    _parts: &[IoSlice<'_>],
    _to: Option<Destination>,
    _options: MessageOptions,
) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fail.
///
/// # Errors
///
/// Always [`ErrorKind::Unsupported`](io::ErrorKind::Unsupported).
pub fn receive<S>(_socket: S, _payload: &mut [u8]) -> io::Result<Received> {
    Err(io::ErrorKind::Unsupported.into())
}
