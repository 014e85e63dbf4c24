//! What a program waits for, and how that ends.

use std::str::FromStr;

use crate::named::named;
use crate::unknown_name::{UnknownName, find};

named! {
    /// The thing that a program waits for.
    enum Kind {
        /// connect() → established, or failed.
        Connect = "connect";
        /// Established → accept(), on a listener.
        Accept = "accept";
        /// Established → the first byte, where the peer speaks first.
        Greeting = "greeting";
        /// A question's first byte → the first byte of its answer, on the side that asks.
        Answer = "answer";
        /// The first byte of an answer → its last, on the side that asks.
        Rest = "rest";
        /// A request's first part → its last, on an accepted connection, and where it is asked.
        Request = "request";
        /// A request's last byte → the answer's first, on an accepted connection.
        Service = "service";
        /// A send that finds no room → room.
        Room = "room";
        /// Data that was sent → its acknowledgement, where nothing else of the flow goes on.
        Acknowledgement = "acknowledgement";
        /// Bytes that can be read → the read.
        Read = "read";
    }
}

named! {
    /// How a wait ended.
    enum End {
        /// Not yet.
        Open = "open";
        /// What was waited for came.
        Data = "data";
        /// The same was asked once more.
        AskedAgain = "asked-again";
        /// The program waits no longer: it closed, exited, or asked somebody else.
        GivenUp = "given-up";
        /// The peer closed the connection (FIN).
        ClosedByPeer = "closed-by-peer";
        /// The connection was reset.
        Reset = "reset";
        /// A connection was refused.
        Refused = "refused";
        /// A router or the last hop has no way there (ICMP), or a neighbour does not answer.
        Unreachable = "unreachable";
        /// This host would not: a firewall or a policy of its own.
        Denied = "denied";
        /// This host knows no route there; nothing was sent.
        NoRoute = "no-route";
        /// This host has no free port for it; nothing was sent.
        NoPort = "no-port";
        /// The kernel's own timers gave up.
        TimedOut = "timed-out";
        /// The service closed a new connection at once: it read nothing, or answered with an error.
        TurnedAway = "turned-away";
        /// The client ended a handshake of TLS by an alert, after the service's part of it.
        Rejected = "rejected";
        /// An ICMP message that the port is closed ended a connect: only firewalls say so of TCP.
        Prohibited = "prohibited";
    }
}

impl End {
    /// Return true if what was waited for never came. A question that was asked again goes on.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Open | Self::Data | Self::AskedAgain)
    }
}

impl Kind {
    /// Return true if a stage of a message or of a connection is the wait, once data has ended it.
    #[must_use]
    pub const fn has_stage(self) -> bool {
        match self {
            Self::Connect
            | Self::Accept
            | Self::Answer
            | Self::Rest
            | Self::Service
            | Self::Room
            | Self::Read => true,
            Self::Greeting | Self::Request | Self::Acknowledgement => false,
        }
    }
}

impl FromStr for Kind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("kind of wait", Self::ALL, Self::name, name)
    }
}

impl FromStr for End {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("end of a wait", Self::ALL, Self::name, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        for end in End::ALL {
            assert_eq!(end.name().parse(), Ok(end));
        }
        assert!("sleep".parse::<Kind>().is_err());
    }
}
