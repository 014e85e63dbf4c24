//! The time of slow requests of a service, and whom it asked meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;
use sockstamp_model::clock::Nanos;
use sockstamp_model::name::Name;
use sockstamp_model::service::Service;

use super::tree::Node;

/// Slow requests of a service, together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServiceTime {
    /// The program that serves.
    pub program: Name,
    /// The port of the service.
    pub service: SocketAddr,
    /// The number of requests.
    pub count: u64,
    /// The sum of their times.
    #[serde(rename = "time_ns")]
    pub time: Nanos,
    /// The same by node. Adds up to the whole.
    pub parts: BTreeMap<Node, u64>,
    /// The peers that it asked meanwhile, the longest wait first.
    pub asked: Vec<Asked>,
}

/// Slow questions of a service to one peer, each while a slow request of its own was open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The peer.
    pub peer: Peer,
    /// Their number; 0 if only looks at tasks show that they were asked.
    pub questions: u64,
    /// The sum of their times, also where some went on at once.
    #[serde(rename = "time_ns")]
    pub time: Nanos,
}

/// A service that is asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Peer {
    /// Over TCP or UDP.
    Address(SocketAddr),
    /// Behind a Unix socket.
    Path(Name),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => Service(*address).fmt(f),
            Self::Path(path) => path.fmt(f),
        }
    }
}

impl ServiceTime {
    /// Return the share of a node in percent.
    #[must_use]
    pub fn percent(&self, node: Node) -> u64 {
        let time = self.parts.get(&node).copied().unwrap_or(0);
        (u128::from(time) * 100)
            .checked_div(self.time.0.into())
            .and_then(|percent| u64::try_from(percent).ok())
            .unwrap_or(0)
    }
}
