//! Sockets whose sends and stamps belong together, which Linux has.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

#[path = "../stamped/settings.rs"]
mod settings;
#[path = "../stamped/token.rs"]
mod token;

pub use settings::Settings;
pub use token::{Counters, Sent, Stamped, Token};

use super::timestamping::{
    Destination, MessageOptions, Options, Outgoing, Received, TxKind, TxStamp,
};
use super::unsupported;
use crate::Result;
use crate::error_queue::{DepartureError, NetworkError};

/// A socket whose sends have tokens. There is none on this system.
#[derive(Debug)]
pub struct StampedSocket<S>(Infallible, PhantomData<S>);

/// One for tasks of tokio. There is none on this system.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub struct AsyncStampedSocket<S>(Infallible, PhantomData<S>);

/// The methods of a type without values, which are never called.
macro_rules! methods {
    ($(($($kind:tt)*) $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// No code calls this, since there is no such socket.
            ///
            /// # Errors
            ///
            /// None.
            pub $($kind)* $name(&self $(, $argument: $type)*) -> $result {
                $(let _ = $argument;)*
                match self.0 {}
            }
        )*
    };
}

impl<S> StampedSocket<S> {
    methods! {
        (fn) get_ref() -> &S;
        (fn) send(bytes: &[u8]) -> io::Result<Sent>;
        (fn) send_to(bytes: &[u8], to: SocketAddr) -> io::Result<Sent>;
        (fn) send_message(
            parts: &[IoSlice<'_>], to: Option<Destination>, options: MessageOptions
        ) -> io::Result<Sent>;
        (fn) send_batch(messages: &[Outgoing<'_>]) -> io::Result<Vec<Sent>>;
        (fn) send_stamped(
            bytes: &[u8], kind: TxKind, timeout: Duration
        ) -> io::Result<(Sent, Option<TxStamp>)>;
        (fn) send_message_stamped(
            parts: &[IoSlice<'_>],
            to: Option<Destination>,
            options: MessageOptions,
            kind: TxKind,
            timeout: Duration
        ) -> io::Result<(Sent, Option<TxStamp>)>;
        (fn) stamps() -> io::Result<Vec<Stamped>>;
        (fn) wait_stamps(timeout: Duration) -> io::Result<Vec<Stamped>>;
        (fn) network_errors() -> Vec<NetworkError>;
        (fn) departure_errors() -> Vec<DepartureError>;
        (fn) receive(payload: &mut [u8]) -> io::Result<Received>;
        (fn) counters() -> Counters;
    }

    /// Fail.
    ///
    /// # Errors
    ///
    /// Always [`ErrorKind::Unsupported`](io::ErrorKind::Unsupported).
    pub fn new(_socket: S, _options: Options) -> Result<Self> {
        Err(unsupported("setsockopt(SO_TIMESTAMPING)"))
    }

    /// Fail.
    ///
    /// # Errors
    ///
    /// Always [`ErrorKind::Unsupported`](io::ErrorKind::Unsupported).
    pub fn with(_socket: S, _options: Options, _settings: Settings) -> Result<Self> {
        Err(unsupported("setsockopt(SO_TIMESTAMPING)"))
    }

    /// Return the socket.
    pub fn into_inner(self) -> S {
        match self.0 {}
    }
}

#[cfg(feature = "tokio")]
impl<S> AsyncStampedSocket<S> {
    methods! {
        (fn) get_ref() -> &S;
        (async fn) send(bytes: &[u8]) -> io::Result<Sent>;
        (async fn) send_to(bytes: &[u8], to: SocketAddr) -> io::Result<Sent>;
        (async fn) send_message(
            parts: &[IoSlice<'_>], to: Option<Destination>, options: MessageOptions
        ) -> io::Result<Sent>;
        (async fn) send_batch(messages: &[Outgoing<'_>]) -> io::Result<Vec<Sent>>;
        (async fn) send_stamped(bytes: &[u8], kind: TxKind) -> io::Result<(Sent, TxStamp)>;
        (async fn) send_message_stamped(
            parts: &[IoSlice<'_>], to: Option<Destination>, options: MessageOptions, kind: TxKind
        ) -> io::Result<(Sent, TxStamp)>;
        (async fn) stamps() -> io::Result<Vec<Stamped>>;
        (fn) network_errors() -> Vec<NetworkError>;
        (fn) departure_errors() -> Vec<DepartureError>;
        (async fn) receive(payload: &mut [u8]) -> io::Result<Received>;
        (fn) counters() -> Counters;
    }

    /// Fail.
    ///
    /// # Errors
    ///
    /// Always [`ErrorKind::Unsupported`](io::ErrorKind::Unsupported).
    pub fn new(_socket: S, _options: Options) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Fail.
    ///
    /// # Errors
    ///
    /// Always [`ErrorKind::Unsupported`](io::ErrorKind::Unsupported).
    pub fn with(_socket: S, _options: Options, _settings: Settings) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Return the socket.
    pub fn into_inner(self) -> S {
        match self.0 {}
    }
}
