//! Which waits count as lost time, and what they are held against.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::Opened;
use sockstamp_model::stage::Stage;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{End, Sending};

use super::Case;
use crate::diagnosis::connection::pace;
use crate::diagnosis::evidence::sleep::{Sleep, SleepLook};
use crate::diagnosis::finding::Finding;
use crate::diagnosis::host::cpu::Cpu;
use crate::diagnosis::request::unserved;
use crate::diagnosis::slow::{Key, Role, Slow};
use crate::diagnosis::source::unix::is_stand_in;
use crate::diagnosis::tally::{Account, Counted, Tried};
use crate::diagnosis::telling;
use crate::diagnosis::tree::Node;

impl Case {
    /// Return a wait with what it lost, if that is enough, or if it failed.
    pub(super) fn count<'a>(&self, wait: &'a Slow, summary: &Summary) -> Option<Counted<'a>> {
        let lost = wait.lost(self.scope.slow, self.round_trip(wait));
        match wait.is_failure() {
            true => {
                let counts = !self.is_detour(wait, summary) && !self.may_be_unused(wait);
                counts.then_some(Counted { wait, lost })
            }
            false => (lost.whole() >= self.scope.slow.0).then_some(Counted { wait, lost }),
        }
    }

    /// Return the processes whose tasks were among those that waited for disks: they had something
    /// fetched from one, or a look saw that they wait, as who writes and waits for that does.
    pub(super) fn at_disks(&self) -> BTreeSet<u32> {
        let has_fetched = |cpu: &Cpu| cpu.fetched.is_some_and(|fetched| fetched > 0);
        let fetched = self.cpus.iter().filter(|(_, cpu)| has_fetched(cpu));
        let waits = |look: &&SleepLook| look.tasks.values().flatten().any(|of| *of == Sleep::Disk);
        let seen = self.sleeps.iter().filter(waits).map(|look| look.pid);
        fetched.map(|(pid, _)| *pid).chain(seen).collect()
    }

    /// Return true for a connection that ended without a word, unless others to the same service
    /// got its greeting: its program may have had no use for it.
    fn may_be_unused(&self, wait: &Slow) -> bool {
        let greeted = self.tried.get(&wait.key);
        let greeted = greeted.is_some_and(|tried| tried.count > tried.failed);
        wait.key.root == Node::Greeting && !greeted
    }

    /// Return true if anything was asked of an address and answered.
    pub(super) fn has_answered(&self, peer: IpAddr) -> bool {
        let mut tried = self.tried.iter();
        tried.any(|(key, tried)| key.service.ip() == peer && tried.count > tried.failed)
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
    pub(super) fn is_fault(&self, wait: &Slow) -> bool {
        if wait.seen.held_up {
            return true;
        }
        if wait.seen.for_news {
            return false;
        }
        if wait.key.root != Node::Service {
            return self.has_fast_siblings(wait);
        }
        if unserved::is_unserved(wait) {
            return false;
        }
        let slow: u64 = self
            .waits
            .iter()
            .filter(|other| other.key == wait.key)
            .map(|other| u64::from(other.weight))
            .sum();
        let all = self.tried.get(&wait.key);
        slow >= 3 && all.is_some_and(|all| all.count * 5 <= slow * 6)
    }

    /// Return the answers of services that were not slow, by key.
    pub(super) fn quick(&self, waits: &[Slow]) -> BTreeMap<Key, u64> {
        self.besides(waits.iter())
    }

    /// Return the answers of services that were not too slow to count, by key.
    pub(super) fn in_time(&self, waits: &[Slow]) -> BTreeMap<Key, u64> {
        let slow = self.scope.slow;
        let is_late = |wait: &&Slow| wait.lost(slow, self.round_trip(wait)).whole() >= slow.0;
        self.besides(waits.iter().filter(is_late))
    }

    /// Return the answers of services besides these, by key.
    fn besides<'a>(&self, waits: impl Iterator<Item = &'a Slow>) -> BTreeMap<Key, u64> {
        let mut slow = BTreeMap::<Key, u64>::new();
        let roots = [Node::Answer, Node::Service];
        for wait in waits.filter(|wait| roots.contains(&wait.key.root)) {
            *slow.entry(wait.key.clone()).or_default() += u64::from(wait.weight);
        }
        let quick = |(key, slow): (Key, u64)| {
            let all = self.tried.get(&key).map_or(0, |tried| tried.count);
            (key, all.saturating_sub(slow))
        };
        slow.into_iter().map(quick).collect()
    }

    /// Return the time of requests that processes answered and that were not slow.
    pub(super) fn quick_times(&self, waits: &[Slow]) -> BTreeMap<u32, u64> {
        let mut slow = BTreeMap::<u32, u128>::new();
        for wait in waits.iter().filter(|wait| wait.key.root == Node::Service) {
            let time = u128::from(wait.time()) * u128::from(wait.weight);
            *slow.entry(wait.pid).or_default() += time;
        }
        let quick = |(pid, slow): (u32, u128)| {
            let all = self.served.get(&pid).copied().unwrap_or(0);
            let quick = all.saturating_sub(slow);
            (pid, u64::try_from(quick).unwrap_or(u64::MAX))
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
                && !is_stand_in(&key.service)
                && tried.count > 0
        });
        let (sum, count) = siblings.fold((0_u128, 0_u64), |(sum, count), (_, tried)| {
            (sum + tried.sum_ns, count + tried.count)
        });
        count > 0 && sum * 10 <= u128::from(mean.0) * u128::from(count)
    }

    /// Return true for what may be a fault or not: a rate that somebody set, a reader's own pace,
    /// and work that nobody else waits behind.
    pub(super) fn is_note(&self, account: &Account<'_>, finding: &Finding) -> bool {
        let is_work = finding.node == Node::ServiceRunning && !account.is_crowded();
        let is_own = telling::is_own_rate(account, finding)
            || telling::may_be_cancelled(account, self.scope.slow, self.asked_by(account));
        let is_readers = pace::is_readers_own(account, finding)
            || pace::keeps_a_tick(account, finding)
            || (self.scope.is_command && pace::is_late_by_itself(finding))
            || pace::reads_when_it_likes(account, finding)
            || (!self.scope.is_program && pace::lags(account, finding));
        is_own || is_readers || (is_work && !self.scope.is_program)
    }

    /// Return all questions of the programs of an account, where they were counted.
    fn asked_by(&self, account: &Account<'_>) -> Option<Tried> {
        let is_theirs =
            |key: &Key| key.root == Node::Answer && account.programs.contains(&key.program);
        let theirs = self.tried.iter().filter(|(key, _)| is_theirs(key));
        theirs.map(|(_, tried)| *tried).reduce(Tried::and)
    }

    /// Return the services that have answered anything.
    pub(super) fn answering(&self) -> BTreeSet<&Key> {
        let tried = self.tried.iter();
        let has_answered =
            |(key, tried): &(&Key, &Tried)| key.root == Node::Service && tried.count > tried.failed;
        tried.filter(has_answered).map(|(key, _)| key).collect()
    }

    /// Return true if connections to a port of this host were served, or wait for that.
    pub(super) fn serves(&self, port: u16) -> bool {
        let is_it = |key: &Key| key.role == Role::Serves && key.service.port() == port;
        self.tried.keys().any(is_it) || self.waits.iter().any(|wait| is_it(&wait.key))
    }

    /// Return the number of connections that programs of this host accepted at a port: those that
    /// have ended, and those that are open. Where they were not counted, at all ports.
    pub(super) fn accepted(&self, port: u16, summary: &Summary) -> u64 {
        let is_it = |key: &Key| key.root == Node::AcceptAway && key.service.port() == port;
        let of_port = self.tried.iter().filter(|(key, _)| is_it(key));
        let of_port = of_port
            .map(|(_, tried)| tried.count)
            .reduce(u64::saturating_add);
        let is_open =
            |one: &&Sending| one.opened == Opened::Accepted && one.flow.local.port() == port;
        let open = self.sending.values().filter(is_open).count() as u64;
        let stage = Stage::ConnAccept;
        let all = summary.direction(stage.direction()).stages[stage].as_ref();
        let of_all = || all.map_or(0, |all| all.count());
        of_port.map_or_else(of_all, |ended| ended.saturating_add(open))
    }

    /// Return the number of answers that came from the service of a key without such a wait.
    pub(super) fn answered(&self, key: &Key, account: &Account<'_>) -> u64 {
        let came = self.tried.get(&answers_of(key));
        let came = came.map_or(0, |tried| tried.count.saturating_sub(tried.failed));
        let ended = account.counted.iter().map(|counted| counted.wait.how);
        came.saturating_sub(ended.filter(|how| *how == End::Data).count() as u64)
    }

    /// Return the number of answers of a service, to whatever program.
    pub(super) fn answered_to_any(&self, service: SocketAddr) -> u64 {
        let tried = self.tried.iter();
        let there = tried.filter(|(key, _)| key.root == Node::Answer && key.service == service);
        let came = there.map(|(_, tried)| tried.count.saturating_sub(tried.failed));
        came.sum()
    }

    /// Return the questions of a service to the peer for whose data its tasks sleep.
    pub(super) fn asked_meanwhile(&self, key: &Key, account: &Account<'_>) -> Option<Tried> {
        let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
        let Sleep::Peer(peer) = seen.find_map(|seen| seen.slept.as_ref())?.sleep else {
            return None;
        };
        let asked = Key::of_service(Node::Answer, key.program.clone(), Role::Asks, peer);
        self.tried.get(&asked).copied()
    }

    /// Return the siblings of an account: other services that the same programs ask for the same.
    pub(super) fn siblings(&self, account: &Account<'_>) -> Vec<(SocketAddr, Nanos, u64)> {
        let Some(root) = account.root() else {
            return Vec::new();
        };
        let siblings = self.tried.iter().filter(|(key, _)| {
            key.root == root
                && account.programs.contains(&key.program)
                && !account.services.contains(&key.service)
                && !is_stand_in(&key.service)
        });
        siblings
            .filter_map(|(key, tried)| Some((key.service, tried.mean()?, tried.count)))
            .collect()
    }
}

fn answers_of(key: &Key) -> Key {
    Key {
        root: Node::Answer,
        ..key.clone()
    }
}

/// Late parts of answers are held against all answers.
pub(super) fn attempts_of(key: &Key) -> Key {
    match (key.root, key.role) {
        (Node::Read, Role::Asks) => answers_of(key),
        _ => key.clone(),
    }
}
