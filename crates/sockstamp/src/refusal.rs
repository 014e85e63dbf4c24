//! Why the service of completions refuses a request.

use std::error::Error;
use std::fmt;

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Another version, another length, an unknown request, or one out of order.
    Malformed,
    /// Its limit of applications is reached, in all or of this user.
    TooManyApplications,
    /// Its limit of sockets per application is reached.
    TooManySockets,
    /// The descriptor is not a socket, or none came.
    NotASocket,
    /// Neither TCP nor UDP, of IPv4 or IPv6.
    WrongSocket,
    /// This application or another has done so.
    AlreadyRegistered,
    /// Memory or privileges are missing; see its log.
    Failed,
    /// Applications, including former ones, keep as much memory as it may give, in all or to this
    /// user.
    MemoryInUse,
}

impl Refusal {
    #[cfg(target_os = "linux")]
    pub(crate) const ALL: [Self; 8] = [
        Self::Malformed,
        Self::TooManyApplications,
        Self::TooManySockets,
        Self::NotASocket,
        Self::WrongSocket,
        Self::AlreadyRegistered,
        Self::Failed,
        Self::MemoryInUse,
    ];
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Malformed => "it does not understand this version of the library",
            Self::TooManyApplications => "its limit of applications is reached",
            Self::TooManySockets => "its limit of sockets per application is reached",
            Self::NotASocket => "the descriptor is not a socket",
            Self::WrongSocket => "it is neither a TCP nor a UDP socket",
            Self::AlreadyRegistered => "the socket is registered already",
            Self::Failed => "it failed; see its log",
            Self::MemoryInUse => "its limit of memory areas is reached, including those of applications that have left",
        })
    }
}

impl Error for Refusal {}
