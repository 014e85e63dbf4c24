//! Collects the waits of a measurement, and finds where time is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::descriptors::Descriptors;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::message::Message;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{Attempts, Barred, End, Kind, Sending, Wait, Waits};

use super::asking::{self, Sends};
use super::backlog::Backlog;
use super::cpu::{self, Cpu};
use super::descent::deepest;
use super::finding::{Diagnosis, Finding};
use super::flows;
use super::held;
use super::link::Link;
use super::looks;
use super::loss::Fates;
use super::lossy::{self, Links};
use super::neighbour::Neighbour;
use super::scope::Scope;
use super::services;
use super::sleep::{Sleep, SleepLook};
use super::slow::{self, Key, Role, Slow, Socket};
use super::source::{limit_of, of_message, of_wait};
use super::tally::{Account, Counted, Tried};
use super::there::There;
use super::tree::Node;
use super::unheard::{self, Neighbours};
use super::worth::Support;
use super::{
    away, firewall, large, lookups, pace, readers, sums, telling, theirs, turn, workers, yielding,
};

/// The first step of the timer of SYNs and of their answers (TCP_TIMEOUT_INIT, include/net/tcp.h,
/// v6.18), less what a timer may be early.
const SYN_TIMEOUT: u64 = 950_000_000;

/// Room for this many waits: 16 MB.
const MOST: usize = 1 << 15;

/// Room for as many services and programs that ask them.
const MOST_TRIED: usize = 1 << 14;

/// Collects slow waits.
#[derive(Debug, Clone)]
pub struct Case {
    scope: Scope,
    waits: Vec<Slow>,
    /// Room for as many of them.
    most: usize,
    /// Slow waits, and attempts at other services, that found no room.
    left_out: u64,
    tried: BTreeMap<Key, Tried>,
    /// The smallest round trip of each address.
    round_trips: BTreeMap<IpAddr, u64>,
    /// Connections that send, as TCP's own clocks have them.
    sending: BTreeMap<Socket, Sending>,
    /// Queues of this host on the way to an address.
    backlogs: BTreeMap<(NetnsInode, IpAddr), Backlog>,
    /// Next hops on the way to an address that do not answer.
    neighbours: Neighbours,
    /// Links on the way to an address that went down.
    links: Links,
    /// Packets that this host's own firewall dropped.
    barred: Vec<Barred>,
    /// Services on this host, in whatever namespace.
    theirs: theirs::Known,
    /// CPU times by process.
    cpus: BTreeMap<u32, Cpu>,
    /// Descriptors of processes that have no room for more.
    descriptors: BTreeMap<u32, Descriptors>,
    /// The least time for which tasks of this host waited for disks.
    disks: Nanos,
    /// Looks at tasks of this host's programs.
    sleeps: Vec<SleepLook>,
    /// The sends of a command.
    sends: Sends,
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
            tried: BTreeMap::new(),
            round_trips: BTreeMap::new(),
            sending: BTreeMap::new(),
            backlogs: BTreeMap::new(),
            neighbours: Neighbours::new(),
            links: Links::new(),
            barred: Vec::new(),
            theirs: theirs::Known::new(),
            cpus: BTreeMap::new(),
            descriptors: BTreeMap::new(),
            disks: Nanos::ZERO,
            sleeps: Vec::new(),
            sends: Sends::default(),
            end: None,
        }
    }

    /// The same with room for fewer waits.
    #[must_use]
    pub fn of_at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Add the waits that a message shows, if they are slow. Its name should be the process'.
    pub fn message(&mut self, message: &Message) {
        if self.scope.is_command {
            self.sends.see(message, self.scope.slow);
        }
        for mut wait in of_message(message) {
            self.see_round_trip(&wait);
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
        use sockstamp_model::stage::Stage;
        wait.key.root != Node::Read
            || wait.key.role == Role::Serves
            || self.scope.is_program
            || message.stages[Stage::PeerAnswer].is_some()
    }

    /// Add waits of the model. They come after messages: a wait that a message showed, too, is
    /// known better by it where parts of a send or a read are concerned.
    pub fn waits(&mut self, waits: &Waits) {
        // Who asks slowly waits for itself; a command's user waits for that, too.
        let is_command = self.scope.is_command;
        let is_asking =
            |wait: &Wait| wait.kind == Kind::Request && !wait.is_served() && !is_command;
        for wait in waits.list.iter().filter(|wait| !is_asking(wait)) {
            let slow = of_wait(wait);
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
        self.left_out = self.left_out.saturating_add(waits.lost);
        for attempts in &waits.attempts {
            self.attempts(attempts);
        }
        let room = MOST.saturating_sub(self.barred.len());
        self.barred.extend(waits.barred.iter().take(room));
        for sending in &waits.sending {
            let socket = slow::socket(&sending.flow);
            self.sending.insert(socket, sending.clone());
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
        let asks = |wait: &&Slow| wait.key.root == Node::Answer && wait.key.role == Role::Asks;
        let asked = self.waits.iter().filter(asks);
        let ends = |wait: &Slow| (wait.flow.netns, wait.key.service, wait.flow.local);
        asked.map(ends).collect()
    }

    /// Add the program at the other end of such a connection, which is on this host.
    pub fn there(&mut self, asked: (NetnsInode, SocketAddr, SocketAddr), there: There) {
        self.theirs.insert(asked, there);
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

    /// Set the least time of the measurement for which tasks of this host waited for disks.
    pub fn disks(&mut self, time: Nanos) {
        self.disks = time;
    }

    /// Add looks at tasks of this host's programs, made while some of their waits were slow.
    pub fn sleeps(&mut self, looks: impl IntoIterator<Item = SleepLook>) {
        self.sleeps.extend(looks);
    }

    fn attempts(&mut self, attempts: &Attempts) {
        let key = attempts_key(attempts);
        if key.root == Node::Connect && attempts.failed == 0 && attempts.count > 0 {
            let known = self.round_trips.entry(key.service.ip());
            let known = known.or_insert(attempts.min_ns.0);
            *known = attempts.min_ns.0.min(*known);
        }
        if self.tried.len() < MOST_TRIED || self.tried.contains_key(&key) {
            self.tried.entry(key).or_default().add(attempts);
        } else {
            self.left_out += 1;
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

    /// Find where time is lost.
    #[must_use]
    pub fn diagnose(&self, summary: &Summary) -> Diagnosis {
        let mut waits = self.waits.clone();
        away::settle(&mut waits, &self.tried, &self.sending);
        let mut notes = asking::pauses(&mut waits, &self.sends);
        let fates = Fates::new(&self.sending, summary);
        for wait in &mut waits {
            self.limit_path(wait);
            self.limit_sending(wait);
            fates.turn(wait);
            wait.seen.in_vain = self.is_in_vain(wait);
            wait.seen.disks = self.disks.0;
            if wait.key.root == Node::Accept {
                wait.seen.descriptors = self.descriptors.get(&wait.pid).copied();
            }
        }
        lossy::give(&mut waits, &self.links);
        firewall::give(&mut waits, &self.barred);
        unheard::give(&mut waits, &self.neighbours);
        readers::add(&mut waits, &self.sending);
        theirs::note(&mut waits, &self.theirs);
        large::compare(&mut waits, &self.sending);
        pace::set(&mut waits, &self.sending);
        lookups::join(&mut waits, self.scope.slow);
        flows::join(&mut waits, self.scope, self.end, &self.sending);
        let mut open = flows::always_open(&waits);
        let quick = self.quick(&waits, summary);
        flows::irregular(&waits, &mut open, &self.sending, &quick);
        held::mark(&waits, &mut open, &quick);
        flows::work(&waits, &mut open);
        let served = flows::Served::new(&waits, &open);
        turn::divide(&mut waits, &served);
        cpu::divide(&mut waits, &self.cpus);
        workers::divide(&mut waits, &open);
        looks::note(&mut waits, &open, &self.sleeps);
        held::idle(&waits, &mut open, &quick);
        held::alike(&waits, &mut open, &quick);
        let services = services::sum(&waits, &open, &served);
        let mut held = yielding::between(&waits);
        pace::waited_for(&mut waits, &held);
        let besides = yielding::throttled_besides(&waits, &held, self.scope.slow);
        open.resize(open.len() + besides.len(), false);
        held.resize(held.len() + besides.len(), None);
        waits.extend(besides);
        let asked = served.asked(&waits);
        let mut accounts = BTreeMap::<(Key, Option<End>), Account<'_>>::new();
        let mut pushed = BTreeMap::<Key, Vec<&Slow>>::new();
        for (of, wait) in waits.iter().enumerate() {
            if held[of].is_some() {
                continue;
            }
            let is_asked = served.waits_for(wait) || asked.contains(&wait.key);
            let may_be_pushed = open[of] && !self.scope.is_command && !is_asked;
            if may_be_pushed && !self.is_fault(summary, wait) {
                pushed.entry(wait.key.clone()).or_default().push(wait);
                continue;
            }
            let Some(counted) = self.count(wait, summary) else {
                continue;
            };
            let failure = wait.is_failure().then_some(wait.how);
            let account = accounts.entry((wait.key.clone(), failure)).or_default();
            account.failure = failure;
            account.add(&wait.key, counted);
        }
        notes.extend(
            pushed
                .values()
                .filter_map(|waits| telling::note(waits, summary.duration)),
        );
        for ((key, _), account) in &mut accounts {
            account.tried = match key.root {
                Node::AcceptAway => away::tried(key, &self.tried),
                _ => self.tried.get(&attempts_of(key)).copied(),
            };
            account.try_again();
            account.answered = self.answered(key, account);
            account.asked = self.asked_meanwhile(key, account);
        }
        let support = Support {
            scope: self.scope,
            duration: summary.duration,
        };
        let is_worth = |account: &Account<'_>| support.is_worth(account, summary);
        // Siblings that lose too little alone are not alike those that lose much; together they
        // may lose enough.
        let (much, little): (Vec<_>, Vec<_>) = accounts.into_values().partition(is_worth);
        let (little, rare): (Vec<_>, Vec<_>) = merged(little).into_iter().partition(is_worth);
        let worth = merged(much).into_iter().chain(little);
        let mut findings = Vec::new();
        for account in worth {
            let account = account
                .root()
                .map(|root| deepest(&account.parts(), root).node)
                .and_then(|node| account.focused(node))
                .filter(is_worth)
                .unwrap_or(account);
            let siblings = self.siblings(&account);
            match telling::finding(&account, &siblings, summary) {
                Some(finding) if self.is_note(&account, &finding) => {
                    notes.push(telling::doubted(&account, &finding));
                }
                finding => findings.extend(finding),
            }
        }
        let tails = rare
            .iter()
            .filter(|account| support.is_tail(account, summary));
        notes.extend(tails.filter_map(|account| telling::rare(account, summary)));
        findings.extend(sums::findings(summary, self.scope, &self.waits));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.lost));
        let findings = varied(findings);
        notes.extend(sums::notes(summary));
        if self.left_out > 0 {
            let left_out = self.left_out;
            notes.push(format!(
                "{left_out} slow waits found no room and are in no finding"
            ));
        }
        notes.extend(firewall::notes(&self.barred, |port| self.serves(port)));
        Diagnosis {
            findings,
            notes,
            services,
        }
    }

    /// The path is the smallest round trip of the address: a connection may have seen longer ones
    /// alone.
    fn limit_path(&self, wait: &mut Slow) {
        let beyond = wait
            .parts
            .of(Node::AnswerPath)
            .saturating_sub(self.round_trip(wait));
        if beyond > 0 {
            wait.parts.shift(Node::AnswerPath, Node::AnswerPeer, beyond);
        }
        let late = wait
            .parts
            .of(Node::ConnectPath)
            .saturating_sub(self.round_trip(wait));
        let node = match late {
            SYN_TIMEOUT.. => Node::ConnectAgain,
            _ => Node::ConnectLate,
        };
        wait.parts.shift(Node::ConnectPath, node, late);
        self.limit_recovery(wait);
        if let Some(backlog) = self.backlogs.get(&(wait.flow.netns, wait.peer())) {
            wait.give_queue(backlog);
        }
    }

    /// What was sent again and is acknowledged later than a round trip waits for the recovery.
    fn limit_recovery(&self, wait: &mut Slow) {
        let path = self.round_trip(wait);
        let late = wait.parts.of(Node::DeliveryPath).saturating_sub(path);
        if path > 0 && wait.seen.resent > 0 {
            wait.parts
                .shift(Node::DeliveryPath, Node::DeliveryLoss, late);
        }
    }

    /// Return the smallest round trip of the address, without a queue of this host.
    fn round_trip(&self, wait: &Slow) -> u64 {
        let rtt = self.round_trips.get(&wait.peer()).copied().unwrap_or(0);
        match wait.seen.backlog {
            Some(ref backlog) => rtt.saturating_sub(backlog.time.0),
            None => rtt,
        }
    }

    /// A rate that TCP chose itself gives its time to what limits the connection, by TCP's own
    /// clocks; if nothing does, that is the bandwidth.
    fn limit_sending(&self, wait: &mut Slow) {
        let sending = self.sending.get(&wait.socket());
        let sending = sending.filter(|sending| sending.goes_on());
        let Some(sending) = sending.or_else(|| self.buffered(wait)) else {
            return;
        };
        wait.seen.buffer_set |= sending.connection.buffer_set;
        wait.seen.paced = wait.seen.paced.or(sending.connection.paced);
        if wait.seen.paced.is_some() {
            return;
        }
        let limit = limit_of(sending);
        let own: u64 = wait
            .parts
            .iter()
            .filter(|(node, _)| is_own_rate(*node))
            .map(|(_, time)| time)
            .sum();
        wait.seen.by_clocks = limit.is_some() && own > 0;
        match limit {
            // What is corked waits for room in a small buffer first.
            Some(Node::DeliveryRoom) if sending.connection.buffer_set => wait.parts.give(
                |node| is_own_rate(node) || node == Node::DeliveryCork,
                Node::DeliveryRoom,
            ),
            Some(limit) => wait.parts.give(is_own_rate, limit),
            None => wait
                .parts
                .give(|node| node == Node::DeliveryPacing, Node::DeliveryFull),
        }
    }

    /// Return another connection of the same service with a send buffer that its program set, and
    /// that is its limit: a listener hands its size on.
    fn buffered(&self, wait: &Slow) -> Option<&Sending> {
        let is_alike = |other: &&Sending| {
            other.flow.netns == wait.flow.netns
                && other.flow.local.port() == wait.flow.local.port()
                && other.connection.buffer_set
                && limit_of(other) == Some(Node::DeliveryRoom)
        };
        match wait.key.role {
            Role::Serves => self.sending.values().find(is_alike),
            Role::Asks => None,
        }
    }

    /// Return true for a question that was asked again after ten times as long as answers take: one
    /// after another on a socket, to a slow server, looks the same otherwise.
    fn is_in_vain(&self, wait: &Slow) -> bool {
        let mean = self.tried.get(&wait.key).and_then(Tried::mean);
        wait.asks_name_again() && mean.is_some_and(|mean| mean.0.saturating_mul(10) <= wait.time())
    }

    /// Return a wait with what it lost, if that is enough, or if it failed.
    fn count<'a>(&self, wait: &'a Slow, summary: &Summary) -> Option<Counted<'a>> {
        let lost = wait.lost(self.scope.slow, self.round_trip(wait));
        match wait.is_failure() {
            true => {
                let counts = !self.is_detour(wait, summary) && !self.may_be_unused(wait);
                counts.then_some(Counted { wait, lost })
            }
            false => (lost.whole() >= self.scope.slow.0).then_some(Counted { wait, lost }),
        }
    }

    /// Return true for a connection that ended without a word, unless others to the same service
    /// got its greeting: its program may have had no use for it.
    fn may_be_unused(&self, wait: &Slow) -> bool {
        let greeted = self.tried.get(&wait.key);
        let greeted = greeted.is_some_and(|tried| tried.count > tried.failed);
        wait.key.root == Node::Greeting && !greeted
    }

    fn failed_at_once(&self, wait: &Slow) -> bool {
        let is_quick = wait.time() < self.scope.slow.0;
        is_quick && wait.key.root == Node::Connect && wait.how.is_failure()
    }

    /// Return true if as many connections were opened as failed at once by IPv6, which programs
    /// try first.
    fn may_have_reached_others(&self, summary: &Summary) -> bool {
        let failed = self.waits.iter().filter(|wait| self.failed_at_once(wait));
        let failed = failed.filter(|wait| wait.peer().is_ipv6()).count();
        summary.connections.opened >= failed as u64
    }

    /// Return true for a connect that failed at once, if the program reached the same port
    /// elsewhere as often.
    fn is_detour(&self, wait: &Slow, summary: &Summary) -> bool {
        if !self.failed_at_once(wait) {
            return false;
        }
        let Some(here) = self.tried.get(&wait.key) else {
            return wait.peer().is_ipv6() && self.may_have_reached_others(summary);
        };
        let elsewhere = self.tried.iter().filter(|(key, _)| {
            key.root == Node::Connect
                && key.program == wait.key.program
                && key.service.port() == wait.key.service.port()
                && key.service != wait.key.service
        });
        let reached: u64 = elsewhere
            .map(|(_, tried)| tried.count.saturating_sub(tried.failed))
            .sum();
        reached >= here.failed
    }

    /// Return true if a connection that always has a question open is a fault all the same:
    /// everything that the service answers is slow, not only what may be a subscription.
    fn is_fault(&self, summary: &Summary, wait: &Slow) -> bool {
        if wait.seen.held_up {
            return true;
        }
        if wait.key.root != Node::Service {
            return self.has_fast_siblings(wait);
        }
        let slow: u64 = self
            .waits
            .iter()
            .filter(|other| other.key == wait.key)
            .map(|other| u64::from(other.weight))
            .sum();
        let all = self.tried.get(&wait.key);
        let all = all.map_or_else(|| served(summary), |tried| tried.count);
        slow >= 3 && all * 5 <= slow * 6
    }

    /// Return the answers of services that were not slow, by key. At a service, those of others of
    /// this measurement are among them.
    fn quick(&self, waits: &[Slow], summary: &Summary) -> BTreeMap<Key, u64> {
        let mut slow = BTreeMap::<Key, u64>::new();
        let roots = [Node::Answer, Node::Service];
        for wait in waits.iter().filter(|wait| roots.contains(&wait.key.root)) {
            *slow.entry(wait.key.clone()).or_default() += u64::from(wait.weight);
        }
        let at_services = slow.iter().filter(|(key, _)| key.root == Node::Service);
        let at_services: u64 = at_services.map(|(_, slow)| slow).sum();
        let served = served(summary).saturating_sub(at_services);
        let quick = |(key, slow): (Key, u64)| match key.root {
            Node::Service => (key, served),
            _ => {
                let all = self.tried.get(&key).map_or(0, |tried| tried.count);
                (key, all.saturating_sub(slow))
            }
        };
        slow.into_iter().map(quick).collect()
    }

    /// Siblings that are ten times faster show that it is slow.
    fn has_fast_siblings(&self, wait: &Slow) -> bool {
        let Some(mean) = self.tried.get(&wait.key).and_then(Tried::mean) else {
            return false;
        };
        let siblings = self.tried.iter().filter(|(key, tried)| {
            key.root == wait.key.root
                && key.program == wait.key.program
                && key.service != wait.key.service
                && key.service.port() == wait.key.service.port()
                && tried.count > 0
        });
        let (sum, count) = siblings.fold((0_u128, 0_u64), |(sum, count), (_, tried)| {
            (sum + tried.sum_ns, count + tried.count)
        });
        count > 0 && sum * 10 <= u128::from(mean.0) * u128::from(count)
    }

    /// Return true for what may be a fault or not: a rate that somebody set, a reader's own pace,
    /// and work that nobody else waits behind.
    fn is_note(&self, account: &Account<'_>, finding: &Finding) -> bool {
        let is_work = finding.node == Node::ServiceRunning && !account.is_crowded();
        let is_own = telling::is_own_rate(account, finding);
        let is_readers = pace::is_readers_own(account, finding)
            || (self.scope.is_command && pace::is_late_by_itself(finding));
        is_own || is_readers || (is_work && !self.scope.is_program)
    }

    /// Return true if connections to a port of this host were served, or wait for that.
    fn serves(&self, port: u16) -> bool {
        let is_it = |key: &Key| key.role == Role::Serves && key.service.port() == port;
        self.tried.keys().any(is_it) || self.waits.iter().any(|wait| is_it(&wait.key))
    }

    /// Return the number of answers that came from the service of a key without such a wait.
    fn answered(&self, key: &Key, account: &Account<'_>) -> u64 {
        let came = self.tried.get(&answers_of(key));
        let came = came.map_or(0, |tried| tried.count.saturating_sub(tried.failed));
        let ended = account.counted.iter().map(|counted| counted.wait.how);
        came.saturating_sub(ended.filter(|how| *how == End::Data).count() as u64)
    }

    /// Return the questions of a service to the peer for whose data its tasks sleep.
    fn asked_meanwhile(&self, key: &Key, account: &Account<'_>) -> Option<Tried> {
        let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
        let Sleep::Peer(peer) = seen.find_map(|seen| seen.slept.as_ref())?.sleep else {
            return None;
        };
        let asked = Key::of_service(Node::Answer, key.program.clone(), Role::Asks, peer);
        self.tried.get(&asked).copied()
    }

    /// Return the siblings of an account: other services that the same programs ask for the same.
    fn siblings(&self, account: &Account<'_>) -> Vec<(SocketAddr, Nanos, u64)> {
        let Some(root) = account.root() else {
            return Vec::new();
        };
        let siblings = self.tried.iter().filter(|(key, _)| {
            key.root == root
                && account.programs.contains(&key.program)
                && !account.services.contains(&key.service)
        });
        siblings
            .filter_map(|(key, tried)| Some((key.service, tried.mean()?, tried.count)))
            .collect()
    }
}

/// Put what is said of a service first before what else is said of the same: with two faults at
/// once each is among the first.
fn varied(findings: Vec<Finding>) -> Vec<Finding> {
    let mut told = BTreeSet::new();
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for finding in findings {
        let is_known = finding
            .services
            .iter()
            .all(|service| told.contains(service));
        told.extend(finding.services.iter().copied());
        match is_known && !finding.services.is_empty() {
            true => again.push(finding),
            false => first.push(finding),
        }
    }
    first.extend(again);
    first
}

/// Return the number of requests that were answered: clients, too, send after they have read, once
/// for each answer.
fn served(summary: &Summary) -> u64 {
    use sockstamp_model::stage::Stage;
    let count = |stage: Stage| {
        let all = summary.direction(stage.direction()).stages[stage].as_ref();
        all.map_or(0, |all| all.count())
    };
    count(Stage::AppService).saturating_sub(count(Stage::PeerAnswer))
}

/// Return true for what TCP's congestion control sets itself.
const fn is_own_rate(node: Node) -> bool {
    matches!(node, Node::DeliveryPacing | Node::DeliveryCongestion)
}

/// Return true if both are the same wait, as a message and as the model has it.
fn is_same(known: &Slow, wait: &Slow) -> bool {
    known.key.root == wait.key.root
        && known.flow == wait.flow
        && known.overlap(wait) * 2 > known.time().min(wait.time())
}

fn answers_of(key: &Key) -> Key {
    Key {
        root: Node::Answer,
        ..key.clone()
    }
}

/// Late parts of answers are held against all answers.
fn attempts_of(key: &Key) -> Key {
    match (key.root, key.role) {
        (Node::Read, Role::Asks) => answers_of(key),
        _ => key.clone(),
    }
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

/// Go up where siblings lose alike: accounts of one program, or of one service, with the same
/// deepest node are one, unless one of them carries four fifths.
fn merged(accounts: Vec<Account<'_>>) -> Vec<Account<'_>> {
    let by_program = |account: &Account<'_>| {
        let port = account.services.iter().next().map(SocketAddr::port);
        let program = account.programs.iter().next();
        program.map(|program| format!("{program} {port:?}"))
    };
    let by_service =
        |account: &Account<'_>| account.services.iter().next().map(ToString::to_string);
    merged_by(merged_by(accounts, by_program), by_service)
}

fn merged_by<'a>(
    accounts: Vec<Account<'a>>,
    shared: impl Fn(&Account<'a>) -> Option<String>,
) -> Vec<Account<'a>> {
    type Alike = (Option<Node>, Option<String>, Option<Role>, Option<String>);
    let mut alike = BTreeMap::<Alike, Vec<Account<'a>>>::new();
    for account in accounts {
        let root = account.root();
        let node = root.map(|root| deepest(&account.parts(), root).node);
        let role = account.counted.first().map(|counted| counted.wait.key.role);
        let failure = account.failure.map(|failure| failure.to_string());
        let key = (node, failure, role, shared(&account));
        alike.entry(key).or_default().push(account);
    }
    alike.into_values().flat_map(joined).collect()
}

fn joined(accounts: Vec<Account<'_>>) -> Vec<Account<'_>> {
    let lost = |account: &Account<'_>| u128::from(account.lost());
    let whole: u128 = accounts.iter().map(lost).sum();
    let most = accounts.iter().map(lost).max().unwrap_or(0);
    if most * 5 >= whole * 4 {
        return accounts;
    }
    let mut accounts = accounts.into_iter();
    let Some(mut first) = accounts.next() else {
        return Vec::new();
    };
    accounts.for_each(|account| first.merge(account));
    vec![first]
}
