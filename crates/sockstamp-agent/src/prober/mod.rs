//! Probes of the peers that containers have connections to, from inside their network namespaces.
//!
//! One thread reads the connections and takes the outcomes; `sockstamp-ping` has one more per
//! network namespace. These threads keep the capabilities to find and enter namespaces, and to
//! probe from them.

mod known;
mod peers;
mod round_trips;
mod settings;

use std::collections::HashMap;
use std::fs;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sockstamp_host::netns;
use sockstamp_metrics::Exposition;
use sockstamp_model::clock::Nanos;
use sockstamp_ping::{
    End, Engine, Error, Event, Events, Limits, Next, Protocol, Target, TargetId, Waker,
};
use sockstamp_run::capabilities::{self, Capability};
use sockstamp_run::escape::complain;

use self::known::{Known, Watched};
use self::peers::{Containers, Key, Peers};
use self::round_trips::Method;

pub(crate) use self::settings::Settings;
use crate::config::ProbeTable;
use crate::jitter::jittered;

/// The longest time between two readings of the connections, if they do not cost too much.
const LOOK: Duration = Duration::from_secs(10);
/// The pause between readings that the log speaks of, and how often.
const MUCH_LATER: Duration = Duration::from_secs(30);
const TOLD: Duration = Duration::from_secs(3600);
/// The longest time for which a prober keeps a namespace alive.
const PRESENCE: Duration = Duration::from_secs(1);
/// Room for events that belong to no interval: ends, and late and repeated answers.
const FEWEST_EVENTS: usize = 256;
/// Time without probes after one failed to begin.
const REST: Duration = Duration::from_secs(60);
/// An answer that takes longer is none.
const TIMEOUT: Duration = Duration::from_secs(1);

/// CAP_SYS_ADMIN and CAP_SYS_PTRACE: enter the network namespaces of others, and find them.
/// CAP_NET_RAW: SYNs. CAP_NET_ADMIN: room for the answers to many probes (SO_RCVBUFFORCE).
const NEEDED: [Capability; 4] = [
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_NET_RAW,
    Capability::CAP_NET_ADMIN,
];

type Shared = Arc<Mutex<Known>>;
/// Ends the thread's wait for events, while it waits for any.
type SharedWaker = Arc<Mutex<Option<Waker>>>;

/// The thread that probes.
#[derive(Debug)]
pub(crate) struct Prober {
    /// None once the thread must end.
    settings: Option<Sender<Settings>>,
    waker: SharedWaker,
    thread: Option<JoinHandle<()>>,
    known: Shared,
}

impl Prober {
    /// Start the thread, with those of [`NEEDED`] that this one has.
    pub(crate) fn start(settings: Settings) -> Result<Self> {
        let (sender, received) = mpsc::channel();
        let known = Shared::default();
        let waker = SharedWaker::default();
        let (shared, its_waker) = (Arc::clone(&known), Arc::clone(&waker));
        let thread = thread::Builder::new()
            .name("prober".to_owned())
            .spawn(move || {
                capabilities::keep(&NEEDED);
                work(settings, &received, &shared, &its_waker);
            })
            .context("cannot start a thread")?;
        Ok(Self {
            settings: Some(sender),
            waker,
            thread: Some(thread),
            known,
        })
    }

    /// Probe by other settings from now on; counts stay.
    pub(crate) fn set(&self, settings: Settings) {
        if let Some(sender) = &self.settings {
            // Ignore the error: a thread that panicked has said so.
            let _ = sender.send(settings);
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake();
        }
    }

    /// Add the series to an exposition.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        lock(&self.known).expose(exposition);
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.settings = None;
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there was printed there.
            let _ = thread.join();
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Probe by the received settings, until their sender is gone.
fn work(first: Settings, received: &Receiver<Settings>, known: &Shared, waker: &SharedWaker) {
    let mut next = Some(first);
    while let Some(settings) = next {
        lock(known).forget();
        let probe = || {
            let round = Round::begin(settings.clone(), known)?;
            *lock(waker) = round.engine.waker();
            round.work(received)
        };
        next = match settings.table.enabled.then(probe) {
            Some(Ok(next)) => next,
            Some(Err(error)) => {
                complain(format_args!("peers are not probed for a minute: {error:#}"));
                lock(known).forget_all();
                match received.recv_timeout(REST) {
                    Ok(new) => Some(new),
                    Err(RecvTimeoutError::Timeout) => Some(settings),
                    Err(RecvTimeoutError::Disconnected) => None,
                }
            }
            None => {
                lock(known).forget_all();
                received.recv().ok()
            }
        };
    }
}

/// Probes by the same settings.
struct Round {
    settings: Settings,
    engine: Engine,
    events: Events,
    keys: HashMap<TargetId, Key>,
    known: Shared,
    containers: Containers,
    namespaces: netns::Files,
    /// The last line of the log about the cost.
    told: Option<Instant>,
    /// SYNs can be sent; without the right, probes would be connections.
    has_syns: bool,
}

impl Round {
    fn begin(settings: Settings, known: &Shared) -> Result<Self> {
        let (engine, events) = Engine::start(Limits {
            events: events(&settings.table),
            look: PRESENCE,
            ..Limits::default()
        })?;
        Ok(Self {
            settings,
            engine,
            events,
            keys: HashMap::new(),
            known: Arc::clone(known),
            containers: Containers::default(),
            namespaces: netns::Files::default(),
            told: None,
            has_syns: has_net_raw(),
        })
    }

    /// Return the next settings, if there are any before the end.
    fn work(mut self, received: &Receiver<Settings>) -> Result<Option<Settings>> {
        let period = self.settings.table.interval.min(LOOK);
        let mut due = Instant::now();
        loop {
            match received.try_recv() {
                Ok(settings) => return Ok(Some(settings)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => {}
            }
            if Instant::now() >= due {
                let pause = self.read_connections()?;
                due = Instant::now() + jittered(period.max(pause));
            }
            let left = due.saturating_duration_since(Instant::now());
            if let Next::Event(event) = self.events.next_within(left) {
                self.take(event);
            }
        }
    }

    /// Read the connections: probe new peers, and drop peers without connections for long. Return
    /// the pause that keeps the cost of that down.
    fn read_connections(&mut self) -> Result<Duration> {
        let begun = peers::cpu_time();
        let peers = peers::find(
            &self.settings.target,
            &mut self.containers,
            &mut self.namespaces,
        )?;
        let spent = peers::cpu_time().saturating_sub(begun) + peers.elsewhere;
        let pause = self.settings.pause(spent);
        self.tell_of(pause, spent, &peers);
        let known = Arc::clone(&self.known);
        let mut known = lock(&known);
        let ended = known.update(peers, &self.settings);
        for id in ended {
            self.engine.remove(id);
            self.keys.remove(&id);
        }
        for (key, watched) in known.idle() {
            self.start(key, watched);
        }
        self.engine.retire_idle();
        let counters = self.engine.counters();
        known.engine_lost(counters.skipped, counters.dropped_events);
        Ok(pause)
    }

    /// Say in the log, once per hour at most, that peers are found late.
    fn tell_of(&mut self, pause: Duration, spent: Duration, peers: &Peers) {
        let is_new = self.told.is_none_or(|told| told.elapsed() > TOLD);
        if pause > MUCH_LATER && is_new {
            self.told = Some(Instant::now());
            complain(format_args!(
                "[probe] finds new peers only every {} s: a look over {} network namespaces and {} cgroups takes {} ms \
                 of CPU time, of which max_cost leaves it half; raise max_cost, or name a [target]",
                pause.as_secs(),
                peers.namespaces,
                self.containers.len(),
                spent.as_millis()
            ));
        }
    }

    /// Begin to probe a peer, by the first method that can be.
    fn start(&mut self, key: &Key, watched: &mut Watched) {
        while let Some(protocol) = self.protocol(watched) {
            match self.engine.add(self.target(key, watched, protocol)) {
                Ok(added) => {
                    watched.id = Some(added.id);
                    self.keys.insert(added.id, key.clone());
                    return;
                }
                Err(Error::NoIcmpSocket) => watched.trips.begin(Method::Tcp),
                // Its namespace was removed, or cannot be entered: the next reading tries again.
                Err(_) => return,
            }
        }
    }

    /// Return the protocol of the peer's probes. If the method has none, use the last method.
    fn protocol(&self, watched: &mut Watched) -> Option<Protocol> {
        let protocol = match watched.trips.method() {
            Method::Icmp => Some(Protocol::Icmp),
            Method::Tcp => {
                let port = watched.peer.port.filter(|_| self.has_syns);
                port.map(|port| Protocol::Tcp { port })
            }
            Method::Flow => None,
        };
        if protocol.is_none() {
            watched.trips.begin(Method::Flow);
            watched
                .trips
                .of_flows(watched.peer.min_rtt.map(Nanos::from));
        }
        protocol
    }

    fn target(&self, (_, address): &Key, watched: &Watched, protocol: Protocol) -> Target {
        let interval = self.settings.table.interval;
        let mut target = Target::new(*address, protocol);
        target.namespace = watched.peer.namespace.clone();
        target.settings.interval = interval;
        target.settings.jitter = interval / 4;
        target.settings.timeout = TIMEOUT.min(interval);
        target
    }

    fn take(&mut self, event: Event) {
        let known = Arc::clone(&self.known);
        let mut known = lock(&known);
        match event {
            Event::Probe {
                target, outcome, ..
            } => {
                let Some(key) = self.keys.get(&target).cloned() else {
                    return;
                };
                let Some(watched) = known.watched(&key) else {
                    return;
                };
                if watched.trips.count(&outcome) {
                    self.change_method(&key, watched, target);
                }
            }
            Event::Ended { target, end } => {
                if let End::Failed(error) = end {
                    complain(format_args!("a prober ended: {error}"));
                }
                let key = self.keys.remove(&target);
                if let Some(watched) = key.and_then(|key| known.watched(&key)) {
                    watched.id = None;
                }
            }
            // A late answer is a loss already; the others answer no probe.
            Event::Late { .. }
            | Event::LateRefusal { .. }
            | Event::Duplicate { .. }
            | Event::Stray { .. }
            | Event::Woken => {}
        }
    }

    fn change_method(&mut self, key: &Key, watched: &mut Watched, id: TargetId) {
        self.engine.remove(id);
        self.keys.remove(&id);
        watched.id = None;
        watched.unanswered();
        self.start(key, watched);
    }
}

/// Return the number of events that may wait while connections are read: those of two intervals.
/// Room is reserved for all of them.
fn events(table: &ProbeTable) -> usize {
    let targets = usize::try_from(table.max_targets).unwrap_or(usize::MAX);
    targets.saturating_mul(2).max(FEWEST_EVENTS)
}

/// Return whether this thread has CAP_NET_RAW (capabilities(7)), from proc(5).
fn has_net_raw() -> bool {
    const CAP_NET_RAW: u32 = 13;
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    effective.is_some_and(|effective| effective >> CAP_NET_RAW & 1 == 1)
}
