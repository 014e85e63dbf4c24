//! Questions over Unix sockets: their services have paths, not addresses.

use crate::clock::{Monotonic, Nanos, Timestamp};
use crate::flow::{CgroupId, NetnsInode, SocketCookie};
use crate::name::Name;

use super::End;

/// A question to a service behind a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixWait {
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
    /// How it ended.
    pub end: End,
    /// Bytes of the question.
    pub bytes: u64,
}

/// The number of all questions of a program to such a service that have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
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
