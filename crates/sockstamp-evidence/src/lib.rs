//! Evidence that this host shows while somebody waits: queues of its devices, links and next hops,
//! sleeps of tasks, owners of services, pairs by which programs wake themselves, CPU times,
//! descriptors and disks. A [`Case`] takes it, and says where time is lost.
//!
//! Looks are bounded, and made only while waits are slow: a host on which nobody waits is not
//! looked at.

#![forbid(unsafe_code)]

mod cpu_times;
mod descriptors;
mod full_queues;
mod pairs;
mod queues;
mod sleeps;
mod theirs;

use std::collections::BTreeSet;
use std::time::Duration;

use sockstamp_explain::diagnosis::{Case, Unseen};
use sockstamp_host::owner::Ends;
use sockstamp_host::{cut, fragments, pressure, sessions};
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::wait::{Kind, UnixWait, Wait};

pub use self::sleeps::Tasks;

use self::cpu_times::CpuTimes;
use self::descriptors::UsedUp;
use self::full_queues::FullQueues;
use self::pairs::Pairs;
use self::queues::Queues;
use self::sleeps::Sleeps;
use self::theirs::Theirs;

/// Looks at this host, from a moment on.
#[derive(Debug)]
pub struct Evidence {
    slow: Nanos,
    queues: Queues,
    cpu_times: CpuTimes,
    used_up: UsedUp,
    sleeps: Sleeps,
    theirs: Theirs,
    full_queues: FullQueues,
    pairs: Pairs,
    /// The time for which tasks had waited for disks at that moment.
    pressure: Option<Duration>,
    /// Lists of the kernel that were too long until then.
    cut: u64,
    /// Somebody waited for a peer since the queues were looked at.
    waited: bool,
    /// A connection was slow to open since accept queues were looked at.
    connected: bool,
}

impl Evidence {
    /// Begin. Sockets are opened with the privilege of the caller; later calls need none.
    #[must_use]
    pub fn begin(slow: Nanos) -> Self {
        Self {
            slow,
            queues: Queues::open(),
            cpu_times: CpuTimes::default(),
            used_up: UsedUp::default(),
            sleeps: Sleeps::open(),
            theirs: Theirs::default(),
            full_queues: FullQueues::open(),
            pairs: Pairs::default(),
            pressure: pressure::of_disks(),
            cut: cut::lists(),
            waited: false,
            connected: false,
        }
    }

    /// Take a message: its process is looked at if it is slow.
    pub fn message(&mut self, message: &Message) {
        let answer = message.stages[Stage::PeerAnswer];
        self.waited |= answer.is_some_and(|time| time >= self.slow);
        let handshake = message.stages[Stage::ConnHandshake];
        self.connected |= handshake.is_some_and(|time| time >= self.slow);
        let is_late = message.serves() && self.is_late(message);
        if message.stages[Stage::AppService].is_some() || is_late {
            self.cpu_times.add(message.pid);
        }
        if message.stages[Stage::ConnAccept].is_some_and(|time| time >= self.slow) {
            self.used_up.add(message.pid);
        }
        if message.is_slow(self.slow) && (message.serves() || self.is_late(message)) {
            self.sleeps.add(message.pid);
            self.pairs.look(message.pid, &message.flow);
        }
    }

    /// A program that asks has not read what could be read.
    fn is_late(&self, message: &Message) -> bool {
        message.direction == Direction::Rx && message.time() >= self.slow
    }

    /// Look at what the messages since the last call waited for.
    pub fn look(&mut self, case: &Case) {
        if std::mem::take(&mut self.waited) {
            self.queues.look();
            self.theirs.look(&case.asked());
            self.look_at_theirs();
        }
        if self.connected {
            let connecting = case.connecting();
            self.theirs.look(&connecting);
            self.connected = !self.full_queues.look(&connecting, &self.theirs);
            self.look_at_theirs();
        }
        self.used_up.look();
    }

    /// Take slow waits, open ones too: a task that hangs shows no message, and is looked at.
    pub fn waits(&mut self, waits: &[Wait]) {
        let served = |wait: &&Wait| wait.is_served() && wait.lasted >= self.slow;
        for wait in waits.iter().filter(served) {
            self.sleeps.add(wait.pid);
            self.pairs.look(wait.pid, &wait.flow);
        }
        // A process that listens may have started those that accept; the first one, of which a
        // service got its listener, has started all.
        let listening = waits.iter().filter(served);
        let listening = listening.filter(|wait| wait.kind == Kind::Accept && wait.pid > 1);
        for pid in listening.map(|wait| wait.pid).collect::<BTreeSet<_>>() {
            sessions::children(pid).for_each(|child| self.sleeps.add(child));
        }
        let of = |kind| {
            let waits = waits.iter().filter(move |wait| wait.kind == kind);
            let ends = |wait: &Wait| (wait.flow.netns, wait.service(), wait.flow.local);
            waits.map(ends).collect::<BTreeSet<_>>()
        };
        let (asked, connecting) = (of(Kind::Answer), of(Kind::Connect));
        if asked.is_empty() && connecting.is_empty() {
            return;
        }
        self.waited |= !asked.is_empty();
        self.theirs
            .look(&asked.union(&connecting).copied().collect());
        self.full_queues.look(&connecting, &self.theirs);
        self.look_at_theirs();
    }

    /// Take slow questions over Unix sockets: their services are looked at.
    pub fn unix(&mut self, waits: &[UnixWait]) {
        let slow = waits.iter().filter(|wait| wait.lasted >= self.slow);
        let servers = slow.filter_map(|wait| wait.server.as_ref());
        servers.for_each(|(pid, _)| self.sleeps.add(*pid));
    }

    fn look_at_theirs(&mut self) {
        self.theirs.pids().for_each(|pid| self.sleeps.add(pid));
    }

    /// Add what was seen to a case that has its waits.
    pub fn add_to(&mut self, case: &mut Case) {
        for Ends {
            netns,
            local,
            remote,
        } in theirs::of_one_process(&case.within_this_host())
        {
            case.of_one_process(netns, local, remote);
        }
        case.sleeps(self.sleeps.seen());
        for (netns, local, remote) in self.pairs.found() {
            case.own_pair(netns, local, remote);
        }
        for (pid, cpu) in self.cpu_times.since() {
            case.cpu(pid, cpu);
        }
        for pid in self.sleeps.hidden() {
            case.hidden(pid);
        }
        self.theirs.find(&case.asked());
        let connecting = case.connecting();
        self.theirs.find(&connecting);
        self.full_queues.find(&connecting, &self.theirs);
        for ((from, service), look) in self.full_queues.found() {
            case.full_queue(from, service, look);
        }
        for (&asked, there) in self.theirs.found() {
            case.there(asked, there.clone());
        }
        for pid in case.accepting() {
            self.used_up.add(pid);
        }
        self.used_up.look();
        for (pid, descriptors) in self.used_up.seen() {
            case.descriptors(pid, descriptors);
        }
        if let Some(time) = self.waited_for_disks() {
            case.disks(time);
        }
        let unanswered = case.unanswered();
        for (netns, missing) in unanswered.into_iter().filter_map(fragments::missing) {
            case.fragments(netns, missing);
        }
        for ((from, peer), backlog) in self.queues.backlogs(&case.peers()) {
            case.backlog(from, peer, backlog);
        }
        for ((from, peer), link) in self.queues.links(&case.lossy()) {
            case.link(from, peer, link);
        }
        for ((from, peer), flips) in self.queues.flips(&case.troubled()) {
            case.flips(from, peer, flips);
        }
        for ((from, peer), next_hop) in self.queues.next_hops(&case.resolving()) {
            case.next_hop(from, peer, next_hop);
        }
        for ((from, peer), neighbour) in self.queues.silent(&case.unheard()) {
            case.neighbour(from, peer, neighbour);
        }
        case.unseen(Unseen {
            lists: cut::lists().saturating_sub(self.cut),
            looks: self.queues.left_out(),
        });
    }

    /// Return the least time for which tasks of this host have waited for disks since the start.
    fn waited_for_disks(&self) -> Option<Nanos> {
        let since = pressure::of_disks()?.checked_sub(self.pressure?)?;
        Some(since.saturating_sub(pressure::AGE).into())
    }
}
