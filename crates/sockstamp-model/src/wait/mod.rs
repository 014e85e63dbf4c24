//! Stretches in which a program cannot go on because of one thing.
//!
//! A message exists once its data has come; a wait exists from its beginning, also if nothing ever
//! ends it. [`Wait`] is one of them, [`Attempts`] counts all of the same kind, and [`Waits`] is
//! what a measurement knows of both.

mod evidence;
mod kind;
mod unix;

use std::net::SocketAddr;

use serde::Serialize;

use crate::clock::{Monotonic, Nanos, Timestamp};
use crate::flow::{CgroupId, Flow, NetnsInode, Opened, Protocol, SocketCookie, canonical};
use crate::name::Name;

pub use evidence::{Connection, Evidence, Tasks};
pub use kind::{End, Kind};
pub use unix::{UnixAttempts, UnixWait};

/// A stretch in which a program could not go on because of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The thing that it waits for.
    pub kind: Kind,
    /// Its socket. A listener has no remote end: the unspecified address and port 0.
    pub flow: Flow,
    /// The end that opened the connection, where known.
    pub opened: Option<Opened>,
    /// The cgroup of the socket; 0 where unknown.
    pub cgroup: CgroupId,
    /// The process that waits; 0 where unknown.
    pub pid: u32,
    /// The name of that process; empty where unknown.
    pub comm: Name,
    /// When it began, which may be before the measurement.
    pub since: Timestamp<Monotonic>,
    /// Its length until its end, or until the look at one that is [open](End::Open).
    pub lasted: Nanos,
    /// The part of that inside the measurement.
    pub inside: Nanos,
    /// How it ended.
    pub end: End,
    /// What it is a chain of: 1, or more questions (connects, …) one after the other.
    pub members: u32,
    /// Bytes that it is about: of the question, unread, unacknowledged, or waiting for room.
    pub bytes: u64,
    /// What was seen of it.
    pub evidence: Evidence,
}

impl Wait {
    /// The service that it is about: the remote end where this host asks, else the local one.
    #[must_use]
    pub fn service(&self) -> SocketAddr {
        let end = match self.is_served() {
            true => self.flow.local,
            false => self.flow.remote,
        };
        canonical(end)
    }

    /// Return true if somebody else waits for a program of this host: the local end is the service.
    #[must_use]
    pub fn is_served(&self) -> bool {
        match self.kind {
            Kind::Accept | Kind::Service => true,
            Kind::Connect | Kind::Greeting | Kind::Answer | Kind::Rest => false,
            Kind::Request => self.opened != Some(Opened::Connected),
            Kind::Room | Kind::Acknowledgement | Kind::Read => {
                self.opened == Some(Opened::Accepted)
            }
        }
    }

    /// The row of [`Attempts`] that counts it.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            kind: self.kind,
            netns: self.flow.netns,
            protocol: self.flow.protocol,
            service: self.service(),
            pid: self.pid,
        }
    }
}

/// Waits that are counted together: of one process, for one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Key {
    /// What they wait for.
    pub kind: Kind,
    /// The network namespace of their sockets.
    pub netns: NetnsInode,
    /// Their protocol.
    pub protocol: Protocol,
    /// See [`Wait::service`].
    pub service: SocketAddr,
    /// See [`Wait::pid`].
    pub pid: u32,
}

/// The number of all waits of a key that have ended, short ones included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempts {
    /// Whose.
    #[serde(flatten)]
    pub key: Key,
    /// The name of the process.
    pub comm: Name,
    /// Their number.
    pub count: u64,
    /// Those of them that ended by a [failure](End::is_failure).
    pub failed: u64,
    /// The sum of their times.
    pub sum_ns: u128,
    /// The shortest.
    pub min_ns: Nanos,
    /// Answers of a service that were slow, and came when another client's message was read: they
    /// may be no answers. Questions that a task asked at once on a connection on which another one
    /// had got its answer.
    pub prompted: u64,
}

/// What a measurement knows of waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waits {
    /// Those longer than what counts as slow, those that failed, and those that are open.
    pub list: Vec<Wait>,
    /// All, by key.
    pub attempts: Vec<Attempts>,
    /// Waits that should be in `list` and found no room.
    pub lost: u64,
    /// Attempts of keys that found no room.
    pub untold: u64,
    /// Dropped packets of connections that found no room.
    pub untold_drops: u64,
    /// Connections that sent data since the first look, or have a rate of their own.
    pub sending: Vec<Sending>,
    /// Packets that the kernel of this host dropped.
    pub dropped: Vec<Dropped>,
    /// Sockets whose open wait for an answer may as well be one to be pushed to, and those of
    /// services that may as well push.
    pub pushed: Vec<SocketCookie>,
    /// Sockets of connections that are known to be older than the measurement.
    pub older: Vec<SocketCookie>,
    /// Sockets with a request that was read, which their program watches for nothing more: it owes
    /// an answer.
    pub owed: Vec<SocketCookie>,
    /// Questions over Unix sockets that were slow, that failed, or that are open, and all else that
    /// waits there now.
    pub unix: Vec<UnixWait>,
    /// All questions over Unix sockets, by program and service.
    pub unix_attempts: Vec<UnixAttempts>,
}

/// Packets of one connection, in one direction, that the kernel of this host dropped for one
/// reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The namespace in which a firewall dropped them; 0 for other reasons.
    pub netns: NetnsInode,
    /// Their protocol.
    pub protocol: Protocol,
    /// The end that they come from.
    pub from: SocketAddr,
    /// The end that they were for.
    pub to: SocketAddr,
    /// The kernel's name of the reason, as `TCP_CSUM`.
    pub reason: Box<str>,
    /// Their number.
    pub packets: u64,
    /// Those of them that ask for a connection.
    pub syns: u64,
    /// The first drop.
    pub first: Timestamp<Monotonic>,
    /// The last drop.
    pub last: Timestamp<Monotonic>,
    /// The connection was opened all the same, later.
    pub came: bool,
}

/// What TCP's own clocks show of a connection that sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// Its socket.
    pub flow: Flow,
    /// The end that opened the connection.
    pub opened: Opened,
    /// Time between the first look at it and the last.
    pub seen_for: Nanos,
    /// Part of that in which the peer's window held data back.
    pub window: Nanos,
    /// Part of that in which the send buffer was full, and all of it in flight.
    pub buffer: Nanos,
    /// Segments that it sent again meanwhile.
    pub resent: u32,
    /// Segments of which a DSACK said meanwhile that they had come before.
    pub in_vain: u32,
    /// Reorderings that TCP saw meanwhile.
    pub reordered: u32,
    /// Segments with data that it sent meanwhile.
    pub sends: u32,
    /// Segments with data that it received meanwhile.
    pub receives: u32,
    /// Bytes of it that were acknowledged meanwhile.
    pub acknowledged: u64,
    /// The connection at the last look.
    pub connection: Connection,
}

impl Dropped {
    /// Add more of the same connection and reason.
    pub fn add(&mut self, more: &Self) {
        self.packets = self.packets.saturating_add(more.packets);
        self.syns = self.syns.saturating_add(more.syns);
        self.first = self.first.min(more.first);
        self.last = self.last.max(more.last);
        self.came |= more.came;
    }
}

impl Sending {
    /// Return true if it has data under way, or a rate of its own.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        let connection = &self.connection;
        connection.unacknowledged > 0 || connection.unsent > 0 || connection.paced.is_some()
    }
}

impl Waits {
    /// Return those that have not ended, the oldest first.
    #[must_use]
    pub fn open(&self) -> Vec<&Wait> {
        let mut open: Vec<_> = self.list.iter().filter(|wait| wait.is_open()).collect();
        open.sort_by_key(|wait| (wait.since, wait.flow));
        open
    }
}

impl Wait {
    /// Return true if it goes on.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.end == End::Open
    }

    /// Return true if nothing tells when it began, so that it may be older: no field of a socket
    /// has the time of the first unread byte, nor of the first one that has not left.
    #[must_use]
    pub fn may_be_older(&self) -> bool {
        match self.kind {
            Kind::Read => true,
            Kind::Acknowledgement => self.is_open() && self.bytes == 0,
            _ => false,
        }
    }

    /// Return true if no message shows it whole: no data ended it, or it is no stage of one. The
    /// rest of an answer is one where a message brings it, and no wait where only a close ends it.
    #[must_use]
    pub fn is_without_message(&self) -> bool {
        self.end != End::Data || !self.kind.has_stage() || self.kind == Kind::Rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(kind: Kind, end: End, since: u64) -> Wait {
        Wait {
            kind,
            flow: Flow {
                netns: NetnsInode(1),
                protocol: Protocol::Tcp,
                local: "[::ffff:10.0.0.1]:40000".parse().unwrap(),
                remote: "10.0.0.2:5432".parse().unwrap(),
                cookie: SocketCookie(since),
            },
            opened: None,
            cgroup: CgroupId(0),
            pid: 7,
            comm: Name::from("psql"),
            since: Timestamp::from_nanos(since),
            lasted: Nanos(1),
            inside: Nanos(1),
            end,
            members: 1,
            bytes: 0,
            evidence: Evidence::default(),
        }
    }

    #[test]
    fn the_service_is_the_end_that_answers() {
        let answer = wait(Kind::Answer, End::Data, 1);
        assert_eq!(answer.service().to_string(), "10.0.0.2:5432");
        let mut served = wait(Kind::Service, End::Data, 1);
        assert_eq!(served.service().to_string(), "10.0.0.1:40000");
        served.kind = Kind::Room;
        assert_eq!(served.service().to_string(), "10.0.0.2:5432");
        served.opened = Some(Opened::Accepted);
        assert_eq!(served.service().to_string(), "10.0.0.1:40000");
        served.kind = Kind::Request;
        assert!(served.is_served());
        served.opened = Some(Opened::Connected);
        assert!(!served.is_served());
    }

    #[test]
    fn open_waits_come_oldest_first() {
        let list = vec![
            wait(Kind::Answer, End::Open, 9),
            wait(Kind::Answer, End::Data, 1),
            wait(Kind::Connect, End::Open, 3),
        ];
        let waits = Waits {
            list,
            ..Waits::default()
        };
        let since: Vec<_> = waits.open().iter().map(|wait| wait.flow.cookie.0).collect();
        assert_eq!(since, [3, 9]);
    }

    #[test]
    fn a_question_asked_again_has_not_failed() {
        let failures = End::ALL.into_iter().filter(|end| end.is_failure());
        assert!(failures.eq(End::ALL.into_iter().skip(3)));
    }
}
