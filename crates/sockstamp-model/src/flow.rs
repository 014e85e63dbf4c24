//! The connected socket a message went over.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::unknown_name::{UnknownName, find};

/// The inode number of a network namespace, as in `/proc/PID/ns/net` and namespaces(7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct NetnsInode(pub u32);

impl fmt::Display for NetnsInode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a cgroup (version 2): the inode of its directory. The kernel gives none twice since
/// boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CgroupId(pub u64);

impl fmt::Display for CgroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A socket's number in the kernel, unique since boot: SO_COOKIE of socket(7).
///
/// 0 means that the kernel has given the socket no cookie yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SocketCookie(pub u64);

impl fmt::Display for SocketCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A transport protocol that sockstamp measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP, IP protocol 6.
    Tcp,
    /// UDP, IP protocol 17.
    Udp,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// `"tcp"` or `"udp"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// The number in the IP header, `IPPROTO_TCP` or `IPPROTO_UDP`.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    /// The protocol with this number in the IP header, `None` for those that are not measured.
    #[must_use]
    #[inline]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.number() == number)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Protocol {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("protocol", Self::ALL, Self::name, name)
    }
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The end that opened a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opened {
    /// The socket connected to the peer.
    Connected,
    /// The socket was accepted.
    Accepted,
}

impl Opened {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Connected, Self::Accepted];

    /// `"connected"` or `"accepted"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Accepted => "accepted",
        }
    }
}

impl fmt::Display for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Opened {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("end that opened a connection", Self::ALL, Self::name, name)
    }
}

impl Serialize for Opened {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A connected socket and its two ends.
///
/// An IPv6 socket with an IPv4 peer has v4-mapped addresses (`::ffff:10.0.0.1`). They are stored as
/// the socket has them and **printed as IPv4**, in text and in JSON, because the packets are IPv4
/// and other tools print the flow that way. [`canonical`] does that for a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// The network namespace of the socket.
    pub netns: NetnsInode,
    /// The transport protocol.
    pub protocol: Protocol,
    /// This host's end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// The kernel's number for the socket.
    pub cookie: SocketCookie,
}

/// Print `tcp 10.0.0.1:443 > 10.0.0.2:50000`: the local end, then the remote end, for either
/// direction.
impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} > {}",
            self.protocol,
            canonical(self.local),
            canonical(self.remote)
        )
    }
}

/// The address with a v4-mapped IPv6 address turned into the IPv4 address it stands for.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        // Building the address again would lose the scope and flow label of IPv6.
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_print_as_ipv4() {
        let flow = Flow {
            netns: NetnsInode(4_026_531_840),
            protocol: Protocol::Tcp,
            local: "[::ffff:10.0.0.1]:443".parse().unwrap(),
            remote: "[2001:db8::1]:50000".parse().unwrap(),
            cookie: SocketCookie(1),
        };
        assert_eq!(flow.to_string(), "tcp 10.0.0.1:443 > [2001:db8::1]:50000");
        let scoped: SocketAddr = "[fe80::1%3]:7".parse().unwrap();
        assert_eq!(canonical(scoped).to_string(), "[fe80::1%3]:7");
    }

    #[test]
    fn protocols_round_trip() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.name().parse(), Ok(protocol));
            assert_eq!(Protocol::from_number(protocol.number()), Some(protocol));
        }
        assert_eq!(Protocol::from_number(1), None);
    }
}
