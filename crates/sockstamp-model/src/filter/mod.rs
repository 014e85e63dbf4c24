//! Filter flows by expressions in the syntax of pcap-filter(7): `tcp port 443 and net 10.0.0.0/8`.
//!
//! An expression selects messages: the source is the end that sends the message. It may thus hold
//! for one direction of a flow only: `src port 443` is what a server sends and what its client
//! reads. docs/filter.md defines the syntax and its differences from pcap's.
//!
//! [`Filter`] is parsed once and turned into a [`Table`] of bounded length, which the kernel
//! evaluates.

mod error;
mod net;
mod parse;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

pub use error::{FilterError, Problem};
pub use table::{Condition, End, MAX_TESTS, Next, Table, Test};

use crate::flow::{Flow, Protocol};
use crate::stage::Direction;
use net::Net;

/// A filter expression whose table has at most [`MAX_TESTS`] tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    expression: Expression,
}

impl Filter {
    /// Return true if messages of the flow in this direction are selected.
    #[must_use]
    pub fn selects(&self, flow: &Flow, direction: Direction) -> bool {
        self.expression.holds(&Ends::of(flow, direction))
    }

    /// Return true if any flow of this protocol can be selected. It may return true without such a
    /// flow, but never false with one.
    #[must_use]
    pub fn wants(&self, protocol: Protocol) -> bool {
        self.expression.can(protocol).hold
    }

    /// Return the table for the kernel.
    #[must_use]
    pub fn table(&self) -> Table {
        Table::of(&self.expression)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Ok(Self {
            expression: parse::expression(text)?,
        })
    }
}

/// Print all qualifiers and parentheses, so that the text parses to the same filter.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Expression {
    Primitive(Primitive),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Primitive {
    Protocol(Protocol),
    Version(Version),
    Match(Which, Pattern),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

/// The ends of a message to which a pattern applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Source,
    Destination,
    Either,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Net(Net),
    Ports { first: u16, last: u16 },
}

/// A condition of an expression; v4-mapped addresses are IPv4.
#[derive(Debug, Clone, Copy)]
struct Ends {
    protocol: Protocol,
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
}

impl Ends {
    fn of(flow: &Flow, direction: Direction) -> Self {
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
struct Can {
    hold: bool,
    fail: bool,
}

impl Expression {
    fn holds(&self, ends: &Ends) -> bool {
        match self {
            Self::Primitive(primitive) => primitive.holds(ends),
            Self::Not(inner) => !inner.holds(ends),
            Self::And(left, right) => left.holds(ends) && right.holds(ends),
            Self::Or(left, right) => left.holds(ends) || right.holds(ends),
        }
    }

    /// Return the possible values for messages of a protocol.
    fn can(&self, protocol: Protocol) -> Can {
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
            // A socket that is bound to no address has only the other one to tell by.
            Self::Version(version) => {
                let is_v4 = ends.source.0.is_ipv4() || ends.destination.0.is_ipv4();
                is_v4 == (*version == Version::V4)
            }
            Self::Match(which, pattern) => {
                let [source, destination] = [ends.source, ends.destination].map(|end| pattern.holds(end));
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
        // They associate to the left.
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
