//! Define expressions, their values for a message, and their text.

use std::fmt;
use std::net::IpAddr;

use super::net::Net;
use crate::flow::{Flow, Protocol};
use crate::stage::Direction;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Primitive(Primitive),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Primitive {
    Protocol(Protocol),
    Version(Version),
    Match(Which, Pattern),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V4,
    V6,
}

/// The ends of a message to which a pattern applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Source,
    Destination,
    Either,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    Net(Net),
    Ports { first: u16, last: u16 },
}

/// A condition of an expression; v4-mapped addresses are IPv4.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) protocol: Protocol,
    pub(super) source: (IpAddr, u16),
    pub(super) destination: (IpAddr, u16),
}

impl Ends {
    pub(super) fn of(flow: &Flow, direction: Direction) -> Self {
        let [local, remote] =
            [flow.local, flow.remote].map(|address| (address.ip().to_canonical(), address.port()));
        let (source, destination) = match direction {
            Direction::Tx => (local, remote),
            Direction::Rx => (remote, local),
        };
        Self {
            protocol: flow.protocol,
            source,
            destination,
        }
    }
}

/// The possible values of an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Can {
    pub(super) hold: bool,
    fail: bool,
}

impl Expression {
    pub(super) fn holds(&self, ends: &Ends) -> bool {
        match self {
            Self::Primitive(primitive) => primitive.holds(ends),
            Self::Not(inner) => !inner.holds(ends),
            Self::And(left, right) => left.holds(ends) && right.holds(ends),
            Self::Or(left, right) => left.holds(ends) || right.holds(ends),
        }
    }

    /// Return the possible values for messages of a protocol.
    pub(super) fn can(&self, protocol: Protocol) -> Can {
        match self {
            Self::Primitive(Primitive::Protocol(wanted)) => Can {
                hold: *wanted == protocol,
                fail: *wanted != protocol,
            },
            Self::Primitive(_) => Can {
                hold: true,
                fail: true,
            },
            Self::Not(inner) => {
                let Can { hold, fail } = inner.can(protocol);
                Can {
                    hold: fail,
                    fail: hold,
                }
            }
            Self::And(left, right) => {
                let (left, right) = (left.can(protocol), right.can(protocol));
                Can {
                    hold: left.hold && right.hold,
                    fail: left.fail || right.fail,
                }
            }
            Self::Or(left, right) => {
                let (left, right) = (left.can(protocol), right.can(protocol));
                Can {
                    hold: left.hold || right.hold,
                    fail: left.fail && right.fail,
                }
            }
        }
    }

    fn is_binary(&self) -> bool {
        matches!(self, Self::And(..) | Self::Or(..))
    }
}

impl Primitive {
    fn holds(&self, ends: &Ends) -> bool {
        match self {
            Self::Protocol(protocol) => ends.protocol == *protocol,
            // A socket that is bound to no address shows only its other address.
            Self::Version(version) => {
                let is_v4 = ends.source.0.is_ipv4() || ends.destination.0.is_ipv4();
                is_v4 == (*version == Version::V4)
            }
            Self::Match(which, pattern) => {
                let [source, destination] =
                    [ends.source, ends.destination].map(|end| pattern.holds(end));
                match which {
                    Which::Source => source,
                    Which::Destination => destination,
                    Which::Either => source || destination,
                    Which::Both => source && destination,
                }
            }
        }
    }
}

impl Pattern {
    fn holds(&self, (address, port): (IpAddr, u16)) -> bool {
        match self {
            Self::Net(net) => net.contains(address),
            Self::Ports { first, last } => (first..=last).contains(&&port),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, word, right) = match self {
            Self::Primitive(primitive) => return primitive.fmt(f),
            Self::Not(inner) if inner.is_binary() => return write!(f, "not ({inner})"),
            Self::Not(inner) => return write!(f, "not {inner}"),
            Self::And(left, right) => (left, "and", right),
            Self::Or(left, right) => (left, "or", right),
        };
        // The two operators associate to the left.
        if right.is_binary() {
            write!(f, "{left} {word} ({right})")
        } else {
            write!(f, "{left} {word} {right}")
        }
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (which, pattern) = match self {
            Self::Protocol(protocol) => return protocol.fmt(f),
            Self::Version(Version::V4) => return f.write_str("ip"),
            Self::Version(Version::V6) => return f.write_str("ip6"),
            Self::Match(which, pattern) => (which, pattern),
        };
        f.write_str(match which {
            Which::Source => "src ",
            Which::Destination => "dst ",
            Which::Either => "",
            Which::Both => "src and dst ",
        })?;
        match pattern {
            Pattern::Net(net) if net.is_host() => write!(f, "host {}", net.address()),
            Pattern::Net(net) => write!(f, "net {net}"),
            Pattern::Ports { first, last } if first == last => write!(f, "port {first}"),
            Pattern::Ports { first, last } => write!(f, "portrange {first}-{last}"),
        }
    }
}
