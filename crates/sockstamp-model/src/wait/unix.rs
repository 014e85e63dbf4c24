//! Waits at Unix sockets: their services have paths, not addresses.

use serde::Serialize;

use crate::clock::{Monotonic, Nanos, Timestamp};
use crate::flow::{CgroupId, NetnsInode, SocketCookie};
use crate::name::Name;

use super::{End, Kind};

/// A wait for a service behind a Unix socket, or one of that service for its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixWait {
    /// The thing that it waits for. What programs follow are answers; looks at sockets show room,
    /// connects, and connections that are not accepted, too.
    pub kind: Kind,
    /// The path at which the service listens, or an abstract name after `@`.
    pub service: Name,
    /// The process that answered, or else the one that began to listen, and its name; `None` where
    /// it is not known.
    pub server: Option<(u32, Name)>,
    /// The namespace of the socket that asks.
    pub netns: NetnsInode,
    /// The kernel's number for that socket.
    pub cookie: SocketCookie,
    /// The socket's inode, as /proc/PID/fd has it.
    pub inode: u64,
    /// Its cgroup.
    pub cgroup: CgroupId,
    /// The process that waits.
    pub pid: u32,
    /// The name of that process.
    pub comm: Name,
    /// The connection was opened during the measurement.
    pub is_new: bool,
    /// When the last part of the question was sent.
    pub since: Timestamp<Monotonic>,
    /// Its length, until the end, or until the look at one that is [open](End::Open). One that was
    /// [given up](End::GivenUp) lasted at least as long.
    pub lasted: Nanos,
    /// The part of that inside the measurement.
    pub inside: Nanos,
    /// How it ended.
    pub end: End,
    /// Bytes of the question.
    pub bytes: u64,
}

impl UnixWait {
    /// Return true if it goes on.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.end == End::Open
    }
}

/// The number of all questions of a program to such a service that have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnixAttempts {
    /// See [`UnixWait::service`].
    pub service: Name,
    /// See [`UnixWait::comm`].
    pub comm: Name,
    /// Their number, as far as order proves their answers.
    pub count: u64,
    /// Those of them that ended by a [failure](End::is_failure).
    pub failed: u64,
    /// The sum of the times of those that were answered.
    pub sum_ns: u128,
}
