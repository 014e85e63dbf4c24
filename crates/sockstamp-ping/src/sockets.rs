//! Name the kinds of sockets.

use std::fmt;

/// The kind of sockets that probes a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sockets {
    /// Ping sockets: no privilege.
    Ping,
    /// Raw sockets of ICMP.
    RawIcmp,
    /// UDP.
    Udp,
    /// A raw socket that sends SYNs.
    RawTcp,
    /// connect(2), timed by user space.
    Connect,
}

impl fmt::Display for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ping => "ping sockets",
            Self::RawIcmp => "raw ICMP sockets",
            Self::Udp => "UDP sockets",
            Self::RawTcp => "raw TCP sockets",
            Self::Connect => "connections",
        })
    }
}
