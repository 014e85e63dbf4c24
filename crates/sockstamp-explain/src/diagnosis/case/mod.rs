//! Collects the waits of a measurement, and finds where time is lost.

mod counting;
mod limits;
mod merging;
mod passes;
mod unseen;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::descriptors::Descriptors;
use sockstamp_model::flow::{Flow, NetnsInode, Protocol, SocketCookie, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::stage::Stage;
use sockstamp_model::wait::{Attempts, Dropped, End, Kind, Sending, UnixWait, Wait, Waits};

use crate::diagnosis::evidence::backlog::Backlog;
use crate::diagnosis::evidence::full_queue::FullQueue;
use crate::diagnosis::evidence::link::Link;
use crate::diagnosis::evidence::neighbour::{Flips, Neighbour, NextHop};
use crate::diagnosis::evidence::sleep::SleepLook;
use crate::diagnosis::evidence::there::There;
use crate::diagnosis::host::cpu::Cpu;
use crate::diagnosis::host::flips;
use crate::diagnosis::host::fragments;
use crate::diagnosis::host::full;
use crate::diagnosis::host::lossy::{self, Links};
use crate::diagnosis::host::resolving::{self, NextHops};
use crate::diagnosis::host::theirs;
use crate::diagnosis::host::unheard::{self, Neighbours};
use crate::diagnosis::request::asking::Sends;
use crate::diagnosis::request::pushes::Questions;
use crate::diagnosis::request::steps;
use crate::diagnosis::request::tries::Tries;
use crate::diagnosis::scope::Scope;
use crate::diagnosis::slow::{self, Key, Role, Slow, Socket};
use crate::diagnosis::source::unix::{Services, of_unix};
use crate::diagnosis::source::{of_message, of_wait};
use crate::diagnosis::tally::Tried;
use crate::diagnosis::tree::Node;

pub use self::unseen::Unseen;

/// Room for this many waits: 16 MB.
const MOST: usize = 1 << 15;

/// Room for as many services and programs that ask them.
const MOST_TRIED: usize = 1 << 14;

/// The key of dropped packets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DroppedEnds {
    netns: NetnsInode,
    protocol: Protocol,
    from: SocketAddr,
    to: SocketAddr,
    reason: Box<str>,
}

impl DroppedEnds {
    fn of(one: &Dropped) -> Self {
        let Dropped {
            netns,
            protocol,
            from,
            to,
            ref reason,
            ..
        } = *one;
        Self {
            netns,
            protocol,
            from,
            to,
            reason: reason.clone(),
        }
    }
}

/// Collects slow waits.
#[derive(Debug, Clone)]
pub struct Case {
    scope: Scope,
    waits: Vec<Slow>,
    /// Room for as many of them.
    most: usize,
    /// Slow waits that found no room.
    left_out: u64,
    /// Attempts at other services, and dropped packets of other connections, that found no room.
    untold: u64,
    tried: BTreeMap<Key, Tried>,
    /// The time of the requests that each process has answered.
    served: BTreeMap<u32, u128>,
    /// The smallest round trip of each address.
    round_trips: BTreeMap<IpAddr, u64>,
    /// Connections that send, as TCP's own clocks have them.
    sending: BTreeMap<Socket, Sending>,
    /// Queues of this host on the way to an address.
    backlogs: BTreeMap<(NetnsInode, IpAddr), Backlog>,
    /// Next hops on the way to an address that do not answer.
    neighbours: Neighbours,
    next_hops: NextHops,
    /// Next hops on the way to an address whose link addresses change back and forth.
    flips: flips::Changes,
    /// Links on the way to an address that went down.
    links: Links,
    /// Packets that the kernel of this host dropped.
    dropped: Vec<Dropped>,
    /// The last place of each connection and reason there.
    dropped_at: BTreeMap<DroppedEnds, usize>,
    /// Accept queues of services on this host that had no room.
    full_queues: full::Queues,
    /// Services on this host, in whatever namespace.
    theirs: theirs::Known,
    /// Connections by which a program wakes its own tasks: the ends of each.
    own_pairs: BTreeSet<(NetnsInode, SocketAddr, SocketAddr)>,
    /// Services behind Unix sockets.
    unix: Services,
    /// CPU times by process.
    cpus: BTreeMap<u32, Cpu>,
    /// Descriptors of processes that have no room for more.
    descriptors: BTreeMap<u32, Descriptors>,
    /// The least time for which tasks of this host waited for disks.
    disks: Nanos,
    /// Looks at tasks of this host's programs.
    sleeps: Vec<SleepLook>,
    /// Processes whose tasks may not be looked at.
    hidden: BTreeSet<u32>,
    /// Counts of what looks at this host left out.
    unseen: Unseen,
    /// The sends of a command.
    sends: Sends,
    /// The exchanges of a command.
    tries: Tries,
    /// Questions that were not asked at once.
    questions: Questions,
    /// Transfers in steps, of which each takes a round trip.
    transfers: Vec<Slow>,
    /// Datagrams of a namespace that lack a fragment.
    fragments: BTreeMap<NetnsInode, u64>,
    /// Sockets of connections that are older than the measurement.
    older: BTreeSet<SocketCookie>,
    /// When the measurement ended, where that is known.
    end: Option<slow::Moment>,
}

impl Case {
    /// A case without waits.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            waits: Vec::new(),
            most: MOST,
            left_out: 0,
            untold: 0,
            tried: BTreeMap::new(),
            served: BTreeMap::new(),
            round_trips: BTreeMap::new(),
            sending: BTreeMap::new(),
            backlogs: BTreeMap::new(),
            neighbours: Neighbours::new(),
            next_hops: NextHops::new(),
            flips: flips::Changes::new(),
            links: Links::new(),
            dropped: Vec::new(),
            dropped_at: BTreeMap::new(),
            full_queues: full::Queues::new(),
            theirs: theirs::Known::new(),
            own_pairs: BTreeSet::new(),
            unix: Services::default(),
            cpus: BTreeMap::new(),
            descriptors: BTreeMap::new(),
            disks: Nanos::ZERO,
            sleeps: Vec::new(),
            hidden: BTreeSet::new(),
            unseen: Unseen::default(),
            sends: Sends::default(),
            tries: Tries::default(),
            questions: Questions::default(),
            transfers: Vec::new(),
            fragments: BTreeMap::new(),
            older: BTreeSet::new(),
            end: None,
        }
    }

    /// The same with room for fewer waits.
    #[must_use]
    pub fn of_at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Return true for a message that shows something: a slow wait, or a question that its program
    /// did not ask at once.
    #[must_use]
    pub fn concerns(&self, message: &Message) -> bool {
        message.is_slow(self.scope.slow) || Questions::are_of(message, self.scope.slow)
    }

    /// Add the waits that a message shows, if they are slow. Its name should be the process'.
    pub fn message(&mut self, message: &Message) {
        if self.scope.is_command {
            self.sends.see(message, self.scope.slow);
            self.tries.see(message);
        }
        self.questions.see(message, self.scope.slow);
        for mut wait in of_message(message) {
            self.see_round_trip(&wait);
            wait.seen.is_more =
                wait.key.root == Node::Read && message.unpaired.is_none() && is_more(message);
            if !self.counts(message, &wait) {
                wait.keep_only(Node::ReadMissing);
            }
            if wait.time() >= self.scope.slow.0 {
                self.keep(wait);
            }
        }
    }

    /// Unread bytes count at a service, or before the first byte of an answer is read: who reads
    /// an answer slowly waits for itself, and is asked about or not. Missing segments always count.
    fn counts(&self, message: &Message, wait: &Slow) -> bool {
        wait.key.root != Node::Read
            || wait.key.role == Role::Serves
            || self.scope.is_program
            || !is_more(message)
    }

    /// Add waits of the model. They come after messages: a wait that a message showed, too, is
    /// known better by it where parts of a send or a read are concerned.
    pub fn waits(&mut self, waits: &Waits) {
        let owed: BTreeSet<_> = waits.owed.iter().collect();
        for wait in &waits.list {
            if steps::is_series(wait) {
                self.transfer(wait);
                continue;
            }
            let mut slow = of_wait(wait);
            slow.seen.may_push = !owed.contains(&wait.flow.cookie);
            self.see_round_trip(&slow);
            let is_short = slow.time() < self.scope.slow.0 && !wait.end.is_failure();
            if wait.end == End::AskedAgain && is_short {
                continue;
            }
            let known = self.waits.iter().position(|known| is_same(known, &slow));
            match known {
                Some(_) if is_short => {}
                Some(_) if matches!(wait.kind, Kind::Room | Kind::Read) => {}
                Some(place) => self.waits[place] = slow,
                None if is_short => {}
                None => self.keep(slow),
            }
        }
        self.older.extend(&waits.older);
        self.left_out = self.left_out.saturating_add(waits.lost);
        self.untold = self.untold.saturating_add(waits.untold);
        self.untold = self.untold.saturating_add(waits.untold_drops);
        for attempts in &waits.attempts {
            self.attempts(attempts);
        }
        waits.dropped.iter().for_each(|one| self.dropped(one));
        self.unix(waits);
        for sending in &waits.sending {
            let socket = slow::socket(&sending.flow);
            self.sending.insert(socket, sending.clone());
        }
    }

    /// Add a series of exchanges, if it is a transfer.
    fn transfer(&mut self, series: &Wait) {
        let Some(transfer) = steps::of(series) else {
            return;
        };
        self.see_round_trip(&transfer);
        if self.transfers.len() < self.most {
            self.transfers.push(transfer);
        } else {
            self.left_out += 1;
        }
    }

    /// Add questions over Unix sockets.
    fn unix(&mut self, waits: &Waits) {
        let is_answer = |wait: &&UnixWait| wait.kind == Kind::Answer;
        let (answers, others): (Vec<_>, Vec<_>) = waits.unix.iter().partition(is_answer);
        self.unix.leave_out(others.len());
        for wait in answers {
            let Some(service) = self.unix.stand_in(&wait.service) else {
                self.left_out += 1;
                continue;
            };
            let slow = of_unix(wait, service);
            if slow.time() < self.scope.slow.0 && !wait.end.is_failure() {
                continue;
            }
            let ends = (wait.netns, service, slow.flow.local);
            let there = There {
                process: wait.server.clone(),
                netns: None,
            };
            self.theirs.insert(ends, there);
            self.keep(slow);
        }
        for attempts in &waits.unix_attempts {
            let program = attempts.comm.clone();
            let key = self.unix.stand_in(&attempts.service);
            let key =
                key.map(|service| Key::of_service(Node::Answer, program, Role::Asks, service));
            let has_room = self.tried.len() < MOST_TRIED;
            match key.filter(|key| has_room || self.tried.contains_key(key)) {
                Some(key) => self.tried.entry(key).or_default().add_unix(attempts),
                None => self.untold = self.untold.saturating_add(attempts.count),
            }
        }
    }

    /// Add dropped packets of a connection: each look of a measurement that goes on has those since
    /// the last one. A client that begins anew at the same port, a minute later at the earliest, is
    /// another connection.
    fn dropped(&mut self, more: &Dropped) {
        const MINUTE: u64 = 60_000_000_000;
        let ends = DroppedEnds::of(more);
        let known = self.dropped_at.get(&ends).copied();
        let known = known.and_then(|place| self.dropped.get_mut(place));
        let follows = |one: &&mut Dropped| {
            more.first.as_nanos() <= one.last.as_nanos().saturating_add(MINUTE)
        };
        if let Some(one) = known.filter(follows) {
            one.add(more);
        } else if more.packets > 0 {
            self.drops_anew(ends, more);
        }
    }

    /// Add a connection whose packets were dropped. One of no packets came late, and had told of
    /// these before anybody listened.
    fn drops_anew(&mut self, ends: DroppedEnds, one: &Dropped) {
        if self.dropped.len() < MOST {
            self.dropped_at.insert(ends, self.dropped.len());
            self.dropped.push(one.clone());
        } else {
            self.untold = self.untold.saturating_add(one.packets);
        }
    }

    /// Return the peers elsewhere that are waited for, with the namespaces that ask.
    #[must_use]
    pub fn peers(&self) -> BTreeSet<(NetnsInode, IpAddr)> {
        let asks = |wait: &&Slow| wait.key.root == Node::Answer;
        let peers = self.waits.iter().filter(asks);
        let peers = peers.map(|wait| (wait.flow.netns, wait.peer()));
        peers.filter(|(_, peer)| !peer.is_loopback()).collect()
    }

    /// Return the connections whose services are waited for: the namespace that asks, the service,
    /// and the end that asks.
    #[must_use]
    pub fn asked(&self) -> BTreeSet<(NetnsInode, SocketAddr, SocketAddr)> {
        let asks = |wait: &&Slow| {
            wait.key.root == Node::Answer && wait.key.role == Role::Asks && !wait.is_unix()
        };
        let asked = self.waits.iter().filter(asks);
        let ends = |wait: &Slow| (wait.flow.netns, wait.key.service, wait.flow.local);
        asked.map(ends).collect()
    }

    /// Return the connections with an unanswered request whose ends have one address: of the
    /// process that serves, its namespace, its own end, and the other one.
    #[must_use]
    pub fn within_this_host(&self) -> BTreeSet<(u32, NetnsInode, SocketAddr, SocketAddr)> {
        let is_within = |wait: &&Slow| {
            let is_open = matches!(wait.key.root, Node::Service | Node::Read);
            let local = canonical(wait.flow.local).ip();
            is_open && wait.how == End::Open && local == wait.peer()
        };
        let within = self.waits.iter().filter(is_within);
        let ends = |wait: &Slow| {
            let Flow {
                netns,
                local,
                remote,
                ..
            } = wait.flow;
            (wait.pid, netns, local, remote)
        };
        within.map(ends).collect()
    }

    /// Leave out such a connection: a process has both ends, and wakes its own tasks by it.
    pub fn of_one_process(&mut self, netns: NetnsInode, local: SocketAddr, remote: SocketAddr) {
        let is_it = |flow: &Flow| (flow.netns, flow.local, flow.remote) == (netns, local, remote);
        self.waits.retain(|wait| !is_it(&wait.flow));
    }

    /// Return the ends of connections that are opened by SYNs that were sent again.
    #[must_use]
    pub fn connecting(&self) -> BTreeSet<(NetnsInode, SocketAddr, SocketAddr)> {
        let connecting = self.waits.iter().filter(|wait| full::may_be(wait));
        let ends = |wait: &Slow| (wait.flow.netns, wait.key.service, wait.flow.local);
        connecting.map(ends).collect()
    }

    /// Add a look at the accept queue of such a service, which is on this host and was full.
    pub fn full_queue(&mut self, from: NetnsInode, service: SocketAddr, look: FullQueue) {
        let looks = self.full_queues.entry((from, service)).or_default();
        looks.push(look);
    }

    /// Add the program at the other end of such a connection, which is on this host.
    pub fn there(&mut self, asked: (NetnsInode, SocketAddr, SocketAddr), there: There) {
        self.theirs.insert(asked, there);
    }

    /// Add a connection by which a program wakes its own tasks, as one end has it: nobody waits on
    /// either of them.
    pub fn own_pair(&mut self, netns: NetnsInode, local: SocketAddr, remote: SocketAddr) {
        self.own_pairs.insert((netns, local, remote));
        self.own_pairs.insert((netns, remote, local));
    }

    /// Add a queue of this host on the way from a namespace to a peer.
    pub fn backlog(&mut self, from: NetnsInode, peer: IpAddr, backlog: Backlog) {
        self.backlogs.insert((from, peer), backlog);
    }

    /// Return the peers elsewhere of whom nothing has come to what waits for them, with the
    /// namespaces that wait.
    #[must_use]
    pub fn unheard(&self) -> BTreeSet<(NetnsInode, IpAddr)> {
        let unheard = self.waits.iter().filter(|wait| unheard::is_unheard(wait));
        let peers = unheard.map(|wait| (wait.flow.netns, wait.peer()));
        peers.filter(|(_, peer)| !peer.is_loopback()).collect()
    }

    /// Add a next hop on the way from a namespace to a peer that does not answer to its address.
    pub fn neighbour(&mut self, from: NetnsInode, peer: IpAddr, neighbour: Neighbour) {
        self.neighbours.insert((from, peer), neighbour);
    }

    /// Return the peers to whom something waited for the link address of the next hop, with the
    /// namespaces that waited.
    #[must_use]
    pub fn resolving(&self) -> BTreeSet<(NetnsInode, IpAddr)> {
        let resolving = self.waits.iter().filter(|wait| resolving::has_waited(wait));
        resolving
            .map(|wait| (wait.flow.netns, wait.peer()))
            .collect()
    }

    /// Add the next hop on the way from a namespace to such a peer.
    pub fn next_hop(&mut self, from: NetnsInode, peer: IpAddr, next_hop: NextHop) {
        self.next_hops.insert((from, peer), next_hop);
    }

    /// Return the peers elsewhere of whom something is lost, or is reset or refused, with the
    /// namespaces that wait.
    #[must_use]
    pub fn troubled(&self) -> BTreeSet<(NetnsInode, IpAddr)> {
        let troubled = self.waits.iter().filter(|wait| flips::is_troubled(wait));
        let peers = troubled.map(|wait| (wait.flow.netns, wait.peer()));
        peers.filter(|(_, peer)| !peer.is_loopback()).collect()
    }

    /// Add a next hop on the way from a namespace to such a peer, whose link address changes back
    /// and forth.
    pub fn flips(&mut self, from: NetnsInode, peer: IpAddr, flips: Flips) {
        self.flips.insert((from, peer), flips);
    }

    /// Return the peers elsewhere to whom something was sent again, with the namespaces that sent.
    #[must_use]
    pub fn lossy(&self) -> BTreeSet<(NetnsInode, IpAddr)> {
        let lossy = self.waits.iter().filter(|wait| lossy::is_lossy(wait));
        let peers = lossy.map(|wait| (wait.flow.netns, wait.peer()));
        peers.filter(|(_, peer)| !peer.is_loopback()).collect()
    }

    /// Add a link by which the way from a namespace to a peer begins, and which went down.
    pub fn link(&mut self, from: NetnsInode, peer: IpAddr, link: Link) {
        self.links.insert((from, peer), link);
    }

    /// Return the processes whose questions over UDP got no answer.
    #[must_use]
    pub fn unanswered(&self) -> BTreeSet<u32> {
        let unanswered = self.waits.iter().filter(|wait| fragments::may_be(wait));
        unanswered.map(|wait| wait.pid).collect()
    }

    /// Add the number of datagrams that lack a fragment in a namespace.
    pub fn fragments(&mut self, netns: NetnsInode, missing: u64) {
        self.fragments.insert(netns, missing);
    }

    /// Set when the measurement ended: what is pushed until then may go on.
    pub fn ends(&mut self, at: Timestamp<Monotonic>) {
        self.end = Some(at.as_nanos());
    }

    /// Add the CPU time of a process that serves.
    pub fn cpu(&mut self, pid: u32, cpu: Cpu) {
        self.cpus.insert(pid, cpu);
    }

    /// Return the processes that accept late.
    #[must_use]
    pub fn accepting(&self) -> BTreeSet<u32> {
        let accepts = |wait: &&Slow| wait.key.root == Node::Accept && wait.pid != 0;
        self.waits
            .iter()
            .filter(accepts)
            .map(|wait| wait.pid)
            .collect()
    }

    /// Add the descriptors of a process that has no room for more.
    pub fn descriptors(&mut self, pid: u32, descriptors: Descriptors) {
        self.descriptors.insert(pid, descriptors);
    }

    /// Set what looks at this host left out.
    pub const fn unseen(&mut self, unseen: Unseen) {
        self.unseen = unseen;
    }

    /// Set the least time of the measurement for which tasks of this host waited for disks.
    pub fn disks(&mut self, time: Nanos) {
        self.disks = time;
    }

    /// Add looks at tasks of this host's programs, made while some of their waits were slow.
    pub fn sleeps(&mut self, looks: impl IntoIterator<Item = SleepLook>) {
        self.sleeps.extend(looks);
    }

    /// Add a process with slow waits whose tasks may not be looked at.
    pub fn hidden(&mut self, pid: u32) {
        self.hidden.insert(pid);
    }

    fn attempts(&mut self, attempts: &Attempts) {
        let key = attempts_key(attempts);
        if key.root == Node::Service
            && (self.served.len() < MOST_TRIED || self.served.contains_key(&attempts.key.pid))
        {
            *self.served.entry(attempts.key.pid).or_default() += attempts.sum_ns;
        }
        if key.root == Node::Connect && attempts.failed == 0 && attempts.count > 0 {
            let known = self.round_trips.entry(key.service.ip());
            let known = known.or_insert(attempts.min_ns.0);
            *known = attempts.min_ns.0.min(*known);
        }
        if self.tried.len() < MOST_TRIED || self.tried.contains_key(&key) {
            self.tried.entry(key).or_default().add(attempts);
        } else {
            self.untold = self.untold.saturating_add(attempts.count);
        }
    }

    fn see_round_trip(&mut self, wait: &Slow) {
        if let Some(rtt) = wait.seen.rtt {
            let known = self.round_trips.entry(wait.peer()).or_insert(rtt);
            *known = rtt.min(*known);
        }
    }

    fn keep(&mut self, wait: Slow) {
        if self.waits.len() < self.most {
            self.waits.push(wait);
        } else {
            self.left_out += 1;
        }
    }

    /// Add a slow wait as it is, for tests.
    #[cfg(test)]
    pub(super) fn add(&mut self, wait: Slow) {
        self.see_round_trip(&wait);
        self.keep(wait);
    }

    #[cfg(test)]
    pub(super) fn of_service(&self, service: SocketAddr) -> u64 {
        let waits = self.waits.iter();
        waits.filter(|wait| wait.key.service == service).count() as u64
    }

    #[cfg(test)]
    pub(super) fn try_key(&mut self, key: Key, tried: Tried) {
        self.tried.insert(key, tried);
    }
}

/// Return true if a read of a program that asks has no first byte of an answer.
fn is_more(message: &Message) -> bool {
    !message.serves() && message.stages[Stage::PeerAnswer].is_none()
}

/// Return true if both are the same wait, as a message and as the model has it.
fn is_same(known: &Slow, wait: &Slow) -> bool {
    known.key.root == wait.key.root
        && known.flow == wait.flow
        && known.overlap(wait) * 2 > known.time().min(wait.time())
}

fn attempts_key(attempts: &Attempts) -> Key {
    let key = &attempts.key;
    let (root, role) = match key.kind {
        Kind::Connect => (Node::Connect, Role::Asks),
        Kind::Accept => (Node::AcceptAway, Role::Serves),
        Kind::Greeting => (Node::Greeting, Role::Asks),
        Kind::Answer => (Node::Answer, Role::Asks),
        Kind::Rest => (Node::Rest, Role::Asks),
        Kind::Request => (Node::Request, Role::Serves),
        Kind::Service => (Node::Service, Role::Serves),
        Kind::Room | Kind::Acknowledgement => (Node::Delivery, Role::Asks),
        Kind::Read => (Node::Read, Role::Asks),
    };
    Key::of_service(root, attempts.comm.clone(), role, key.service)
}
