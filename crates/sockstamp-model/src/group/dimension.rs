//! The dimensions that messages are grouped by.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::unknown_name::{UnknownName, find};

/// The dimensions that groups may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// The process that made the send or read call.
    Pid,
    /// Its name.
    Comm,
    /// The cgroup (version 2) of the socket.
    Cgroup,
    /// The container that cgroup belongs to.
    Container,
    /// The port of the service: the local one of accepted connections, the remote one of opened
    /// ones.
    Port,
    /// The remote address.
    Peer,
    /// The network interface that the socket's route leads to.
    Interface,
    /// The transport protocol.
    Proto,
    /// The network namespace of the socket.
    Netns,
    /// The socket.
    Flow,
    /// The CPU on which the send or read call was made.
    Cpu,
    /// The number of bytes, in classes of which each ends at eight times its begin.
    Size,
    /// The end that opened the connection.
    Opened,
    /// Messages of which a part was sent again, apart from others.
    Retransmitted,
}

impl Dimension {
    /// Every dimension, in the order in which a group's values are printed: those of
    /// [`Dimension::MEASURED`] first.
    pub const ALL: [Self; 14] = [
        Self::Pid,
        Self::Comm,
        Self::Cgroup,
        Self::Container,
        Self::Port,
        Self::Peer,
        Self::Interface,
        Self::Proto,
        Self::Netns,
        Self::Flow,
        Self::Cpu,
        Self::Size,
        Self::Opened,
        Self::Retransmitted,
    ];

    /// The dimensions of groups that are measured. The others are known of each message alone: only
    /// those of a recording can be grouped by them.
    pub const MEASURED: [Self; 10] = *Self::ALL.first_chunk().unwrap();

    /// The name used in options and JSON, such as `"port"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Comm => "comm",
            Self::Cgroup => "cgroup",
            Self::Container => "container",
            Self::Port => "port",
            Self::Peer => "peer",
            Self::Interface => "interface",
            Self::Proto => "proto",
            Self::Netns => "netns",
            Self::Flow => "flow",
            Self::Cpu => "cpu",
            Self::Size => "size",
            Self::Opened => "opened",
            Self::Retransmitted => "retransmitted",
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dimension {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("dimension", Self::ALL, Self::name, name)
    }
}

impl Serialize for Dimension {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The dimensions that messages are grouped by; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Grouping(BTreeSet<Dimension>);

impl Grouping {
    /// `None` if there is no dimension.
    #[must_use]
    pub fn new(dimensions: impl IntoIterator<Item = Dimension>) -> Option<Self> {
        let dimensions: BTreeSet<_> = dimensions.into_iter().collect();
        (!dimensions.is_empty()).then_some(Self(dimensions))
    }

    /// Return the grouping by one dimension, and others.
    #[must_use]
    pub fn with(dimension: Dimension, others: impl IntoIterator<Item = Dimension>) -> Self {
        Self(others.into_iter().chain([dimension]).collect())
    }

    /// Return true if groups differ in this dimension.
    #[must_use]
    pub fn contains(&self, dimension: Dimension) -> bool {
        self.0.contains(&dimension)
    }

    /// The dimensions, in the order of [`Dimension::ALL`].
    pub fn dimensions(&self) -> impl Iterator<Item = Dimension> {
        self.0.iter().copied()
    }
}

/// Print `pid,comm`.
impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.dimensions().map(Dimension::name).collect();
        f.pad(&names.join(","))
    }
}

impl FromStr for Grouping {
    type Err = UnknownName;

    fn from_str(names: &str) -> Result<Self, UnknownName> {
        let dimensions: Result<_, _> = names.split(',').map(Dimension::from_str).collect();
        dimensions.map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_and_groupings_round_trip() {
        for dimension in Dimension::ALL {
            assert_eq!(dimension.name().parse(), Ok(dimension));
        }
        let grouping: Grouping = "port,pid,port".parse().unwrap();
        assert_eq!(grouping.to_string(), "pid,port");
        assert!(grouping.contains(Dimension::Pid) && !grouping.contains(Dimension::Comm));
        assert_eq!(
            "pid,ports".parse::<Grouping>().unwrap_err().to_string(),
            r#"no dimension is named "ports""#
        );
        assert_eq!(Grouping::new([]), None);
    }
}
