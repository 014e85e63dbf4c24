//! One wait that was slow, or that failed, as the engine sees it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::Serialize;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::descriptors::Descriptors;
use sockstamp_model::flow::{Flow, NetnsInode, Protocol, SocketCookie, canonical};
use sockstamp_model::name::Name;
use sockstamp_model::service::DNS;
use sockstamp_model::wait::End;

use super::evidence::backlog::Backlog;
use super::evidence::drop_reason::Drops;
use super::evidence::full_queue::FullQueue;
use super::evidence::link::Link;
use super::evidence::neighbour::{Flips, Neighbour, NextHop};
use super::evidence::sleep::{Ran, Sleep, Slept};
use super::evidence::there::There;
use super::tree::Node;
use super::words::service;

/// The part that a program of this host has in a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It asks the peer.
    Asks,
    /// The peer asks it.
    Serves,
}

/// What the tally counts together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) root: Node,
    pub(super) program: Name,
    pub(super) role: Role,
    /// The peer's address and port where the program asks; its own port, of any address, where it
    /// serves.
    pub(super) service: SocketAddr,
}

impl Key {
    pub(super) fn new(root: Node, program: Name, role: Role, flow: &Flow) -> Self {
        let service = match role {
            Role::Asks => flow.remote,
            Role::Serves => flow.local,
        };
        Self::of_service(root, program, role, service)
    }

    pub(super) fn of_service(root: Node, program: Name, role: Role, service: SocketAddr) -> Self {
        let service = match role {
            Role::Asks => canonical(service),
            Role::Serves => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), service.port()),
        };
        Self {
            root,
            program,
            role,
            service,
        }
    }
}

/// A socket; a cookie alone does not tell the two ends of one connection apart from others'.
pub(super) type Socket = (NetnsInode, SocketCookie);

pub(super) const fn socket(flow: &Flow) -> Socket {
    (flow.netns, flow.cookie)
}

/// Workers of a service, and the most questions that it had at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Few {
    pub(super) workers: usize,
    pub(super) questions: usize,
}

/// A moment, in nanoseconds of CLOCK_MONOTONIC.
pub(super) type Moment = u64;

/// A wait that was slow, or that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slow {
    pub(super) key: Key,
    pub(super) flow: Flow,
    pub(super) pid: u32,
    /// The connection was opened during the measurement.
    pub(super) is_new: bool,
    pub(super) begin: Moment,
    pub(super) end: Moment,
    /// The number of waits that it stands for where only shares matter; counts are one by one.
    pub(super) weight: u32,
    /// Its time by node. Adds up to the whole.
    pub(super) parts: Parts,
    pub(super) how: End,
    pub(super) seen: Seen,
}

/// What else was seen of it, for the sentence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// The smallest round trip of the connection.
    pub(super) rtt: Option<u64>,
    /// The smoothed round trip of the connection at the end.
    pub(super) smoothed_rtt: Option<u64>,
    /// Segments sent again that no DSACK took back.
    pub(super) resent: u32,
    /// DSACKs said of some segments of its connection, or of others, that they had come before.
    pub(super) some_in_vain: bool,
    /// It was acknowledged, or something else came from the peer.
    pub(super) heard: bool,
    /// Something came from the peer since it began, whatever it was.
    pub(super) heard_since: bool,
    /// The peer sends about as often as this end does.
    pub(super) is_answered: bool,
    /// The service had a question of the connection and closed it, or the peer closed it before
    /// there was one.
    pub(super) is_dismissed: bool,
    /// The peer said its first words at most, and then wanted no question of its connection.
    pub(super) is_untaken: bool,
    /// The time of a connect after its last SYN.
    pub(super) since_syn: Option<u64>,
    /// The service answers some connects by ICMP.
    pub(super) is_rejected: bool,
    /// A reset ended its connection.
    pub(super) is_reset: bool,
    /// The peer ended its connection right after the answer to a login.
    pub(super) is_refused_login: bool,
    /// Something was sent on its connection before.
    pub(super) has_answered: bool,
    /// Something was sent on its connection after the last data that came.
    pub(super) has_sent_since: bool,
    /// The program watches its connection for more: it may push, or owe no answer.
    pub(super) may_push: bool,
    /// The pause of the connection before it.
    pub(super) pause: Option<u64>,
    /// Its bytes do not fit into a segment.
    pub(super) is_large: bool,
    /// The size of a segment of its connection, 0 where that is not known.
    pub(super) segment: u32,
    /// The bytes that are unread, waiting or unacknowledged.
    pub(super) bytes: u64,
    /// Bytes of the peer's that this end has not read, where it has no window for more.
    pub(super) unread: Option<u64>,
    /// The device that it left by.
    pub(super) device: Option<Name>,
    /// The queue of a device on the way there.
    pub(super) backlog: Option<Backlog>,
    /// The next hop on the way there, which does not answer to its address.
    pub(super) neighbour: Option<Neighbour>,
    /// The next hop on the way there, whose link address it waited for.
    pub(super) next_hop: Option<NextHop>,
    /// The next hop on the way there, whose link address was set and may be wrong.
    pub(super) set_neighbour: Option<Neighbour>,
    /// The next hop on the way there, whose link address changed back and forth.
    pub(super) flips: Option<Flips>,
    /// Packets of its connection that the kernel of this host dropped.
    pub(super) dropped: Option<Drops>,
    /// The accept queue of the service, which is on this host, and had no room.
    pub(super) full_queue: Option<FullQueue>,
    /// The program at the other end, if that is on this host.
    pub(super) there: Option<There>,
    /// The path of the service, if that is behind a Unix socket: its addresses only stand for it.
    pub(super) path: Option<Name>,
    /// Those of the program that accepts, if it has no room for more.
    pub(super) descriptors: Option<Descriptors>,
    /// The link by which the way there begins, which went down meanwhile.
    pub(super) link: Option<Link>,
    /// The program set the size of the send buffer.
    pub(super) buffer_set: bool,
    /// TCP's own clocks of the connection tell what limits it, and its messages another thing.
    pub(super) by_clocks: bool,
    /// Bytes a second that the program allows.
    pub(super) paced: Option<u64>,
    /// Its age, where that is more than its time in the measurement.
    pub(super) age: u64,
    /// The age of the wait is a lower bound.
    pub(super) may_be_older: bool,
    /// Questions of a chain.
    pub(super) members: u32,
    /// Questions of a look-up, one after the other; 0 for any other wait.
    pub(super) questions: u32,
    /// The round trip of a transfer to the same host, which fills a queue on the path.
    pub(super) queued: Option<u64>,
    /// Datagrams of its namespace that lack a fragment at the end.
    pub(super) fragments: u64,
    /// The peer goes on sending to this connection without a question.
    pub(super) is_streamed: bool,
    /// Others wait for it: on connections to other peers.
    pub(super) is_waited_for: bool,
    /// No request of another was open at its program meanwhile.
    pub(super) is_alone: bool,
    /// The peer sets the pace, by what it reads.
    pub(super) sets_pace: bool,
    /// What others sent to the same peer arrived, and none of it was sent again.
    pub(super) others_arrive: bool,
    /// Segments of its size arrived meanwhile on other connections to the same peer.
    pub(super) large_arrive: bool,
    /// Other connections of the service whose peers have room.
    pub(super) others: usize,
    /// It is a part of a wait whose rest somebody else has.
    pub(super) is_part: bool,
    /// It was asked again, long after its answer was due.
    pub(super) in_vain: bool,
    /// The least time of the measurement for which tasks of this host waited for disks.
    pub(super) disks: u64,
    /// A service, which had nothing to do, answered it when it answered others.
    pub(super) for_news: bool,
    /// More of an answer was read, whose first byte had been read before.
    pub(super) is_more: bool,
    /// Its program's tasks had nothing to do meanwhile.
    pub(super) idle: bool,
    /// Tasks of its program waited for what clients send meanwhile, and asked nobody.
    pub(super) for_clients: bool,
    /// The tasks of its service, where questions are more.
    pub(super) few: Option<Few>,
    /// No timer of the program's own was due when such waits ended.
    pub(super) has_no_timer: bool,
    /// Tasks of the program worked, or slept, and not for want of something to do.
    pub(super) held_up: bool,
    /// The program that traces its own.
    pub(super) tracer: Option<Name>,
    /// What its program's tasks slept in.
    pub(super) slept: Option<Slept>,
    /// All that its program's tasks slept in, at most looks.
    pub(super) asleep_in: Vec<Sleep>,
    /// Tasks of its program that ran meanwhile, and not otherwise.
    pub(super) ran: Option<Ran>,
    /// The most requests of the service that were read and not answered at one moment.
    pub(super) workers: usize,
    /// The most questions of its process to others that were under way at once.
    pub(super) questions_at_once: u64,
    /// The service that most of them were for, and the usual time of its answers.
    pub(super) asked: Option<(SocketAddr, u64)>,
}

impl Slow {
    pub(super) fn time(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }

    /// The address at the other end.
    pub(super) fn peer(&self) -> IpAddr {
        canonical(self.flow.remote).ip()
    }

    /// Return true if it is a wait on a Unix socket, whose addresses stand for paths.
    pub(super) const fn is_unix(&self) -> bool {
        self.seen.path.is_some()
    }

    /// Name its service, or the port of one of this host.
    pub(super) fn place(&self) -> String {
        match &self.seen.path {
            Some(path) => path.to_string(),
            None => service(self.key.service),
        }
    }

    /// Return true if what it waited for never came.
    pub(super) const fn is_failure(&self) -> bool {
        self.how.is_failure() || self.seen.in_vain
    }

    /// Return true for bytes that a service has read and not answered, and that may be no request:
    /// other waits are held against those that are.
    pub(super) fn may_be_no_request(&self) -> bool {
        self.key.root == Node::Service && self.how != End::Data && self.seen.may_push
    }

    /// Return true if TCP has sent it again and nothing shows that it arrived.
    pub(super) const fn is_unacknowledged(&self) -> bool {
        !self.seen.heard && self.seen.resent > 0
    }

    /// Return true for a question to a name server.
    pub(super) fn asks_name(&self) -> bool {
        self.flow.protocol == Protocol::Udp && self.flow.remote.port() == DNS
    }

    /// Return the socket that it waits on.
    pub(super) fn socket(&self) -> Socket {
        socket(&self.flow)
    }

    /// Return true if it goes on at some time from a moment to another, up to which something of
    /// this host was seen.
    pub(super) fn meets(&self, (begin, end): (Timestamp<Monotonic>, Timestamp<Monotonic>)) -> bool {
        self.begin <= end.as_nanos() && begin.as_nanos() <= self.end
    }

    /// Return the time for which both go on.
    pub(super) fn overlap(&self, other: &Self) -> u64 {
        let (begin, end) = (self.begin.max(other.begin), self.end.min(other.end));
        end.saturating_sub(begin)
    }

    /// Return true if the other is the other end of its connection.
    pub(super) fn faces(&self, other: &Self) -> bool {
        canonical(self.flow.local) == canonical(other.flow.remote)
            && canonical(self.flow.remote) == canonical(other.flow.local)
    }

    /// Give the time of a queue to its device. The smallest round trip has it, too, if the queue
    /// never was empty.
    pub(super) fn give_queue(&mut self, backlog: &Backlog) {
        let mut left = backlog.time.0;
        for from in [Node::AnswerPeer, Node::AnswerPath] {
            let part = self.parts.of(from).min(left);
            self.parts.shift(from, Node::AnswerDevice, part);
            left -= part;
        }
        if self.parts.of(Node::AnswerDevice) > 0 {
            self.seen.backlog = Some(backlog.clone());
        }
    }

    /// Forget the time after that of a node, which is its first.
    pub(super) fn keep_only(&mut self, node: Node) {
        let time = self.parts.of(node);
        self.parts = Parts::divide(time, [], node);
        self.end = self.begin + time;
    }

    /// Return true if at least half of its time is a node's.
    pub(super) fn is_mostly(&self, node: Node) -> bool {
        self.parts.of(node) * 2 >= self.time()
    }

    /// Return the lost time by node. What is not lost is taken from the path first, then from the
    /// others in proportion: the parts add up.
    pub(super) fn lost(&self, slow: Nanos, rtt: u64) -> Parts {
        let due = match self.key.root.has_round_trip() {
            true => slow.0.max(rtt),
            false => slow.0,
        };
        self.parts.without_free().less(due)
    }
}

/// Times by node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Parts(Vec<(Node, u64)>);

impl Parts {
    /// Divide a time: each part has at most what the earlier ones left, and the last node has the
    /// rest.
    pub(super) fn divide(
        whole: u64,
        parts: impl IntoIterator<Item = (Node, u64)>,
        rest: Node,
    ) -> Self {
        let mut divided = Self::default();
        let mut left = whole;
        for (node, time) in parts {
            let time = time.min(left);
            divided.add(node, time);
            left -= time;
        }
        divided.add(rest, left);
        divided
    }

    pub(super) fn add(&mut self, node: Node, time: u64) {
        if time == 0 {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == node) {
            Some((_, sum)) => *sum += time,
            None => self.0.push((node, time)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Node, u64)> {
        self.0.iter().copied()
    }

    pub(super) fn whole(&self) -> u64 {
        self.iter().map(|(_, time)| time).sum()
    }

    /// Return the time of a node, its children included.
    pub(super) fn of(&self, node: Node) -> u64 {
        let below = |mut leaf: Node| loop {
            if leaf == node {
                return true;
            }
            match leaf.parent() {
                Some(parent) => leaf = parent,
                None => return false,
            }
        };
        let times = self.iter().filter(|(leaf, _)| below(*leaf));
        times.map(|(_, time)| time).sum()
    }

    /// Give the time of some nodes to another.
    pub(super) fn give(&mut self, from: impl Fn(Node) -> bool, to: Node) {
        let parts = std::mem::take(&mut self.0);
        for (node, time) in parts {
            self.add(if from(node) { to } else { node }, time);
        }
    }

    /// Give some of the time of a node to another.
    pub(super) fn shift(&mut self, from: Node, to: Node, time: u64) {
        if let Some((_, of)) = self.0.iter_mut().find(|(node, _)| *node == from) {
            *of = of.saturating_sub(time);
            self.add(to, time);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (node, time) in other.iter() {
            self.add(node, time);
        }
    }

    fn without_free(&self) -> Self {
        Self(self.iter().filter(|(node, _)| !node.is_free()).collect())
    }

    /// Take this much away, from the path first.
    fn less(&self, due: u64) -> Self {
        let mut left = due.min(self.whole());
        let mut parts = self.0.clone();
        for (_, time) in parts.iter_mut().filter(|(node, _)| node.is_path()) {
            let taken = left.min(*time);
            *time -= taken;
            left -= taken;
        }
        let mut whole: u64 = parts.iter().map(|(_, time)| time).sum();
        for (_, time) in &mut parts {
            // What is left is taken from what is left, so that nothing is lost by rounding.
            let share = u128::from(left) * u128::from(*time);
            let taken = share.checked_div(u128::from(whole)).unwrap_or(0);
            let taken = u64::try_from(taken).unwrap_or(u64::MAX).min(*time);
            whole -= *time;
            left -= taken;
            *time -= taken;
        }
        parts.retain(|(_, time)| *time > 0);
        Self(parts)
    }
}
