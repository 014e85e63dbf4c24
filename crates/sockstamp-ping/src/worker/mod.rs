//! The thread that probes from one network namespace.

mod add;
mod destination;
mod end;
mod flood;
mod inbox;
mod outbox;
mod receive;
mod schedule;
mod send;

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rustc_hash::FxHashMap;
use sockstamp::timestamping::Support;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

use crate::clocks::now;
use crate::lane::{Key, Lane, Probe, low};
use crate::namespace::Presence;
use crate::{
    Added, End, Error, Event, MAX_IN_FLIGHT, Namespace, Result, Settings, Target, TargetId,
};

use destination::Destination;
use inbox::Inbox;
use outbox::Outbox;
pub(crate) use outbox::{Report, Shared};
use schedule::{Schedule, Timer};

/// Targets that are added together.
pub(crate) type Batch = Vec<(TargetId, Target)>;
/// The targets of a batch, or the invalid one and the reason.
type Answer = std::result::Result<Vec<Added>, (IpAddr, Error)>;

/// A command of the engine to a worker.
#[derive(Debug)]
pub(crate) enum Command {
    Add(Batch, Sender<Answer>),
    Remove(TargetId),
    /// End now if there is no target.
    Retire,
    /// No more targets: end with the last one.
    Finish,
    /// End now.
    Stop,
}

/// The parts of a new worker.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) namespace: Namespace,
    pub(crate) commands: Receiver<Command>,
    pub(crate) wake: Arc<EventFd>,
    pub(crate) events: SyncSender<Event>,
    pub(crate) shared: Shared,
    pub(crate) stamp_wait: Nanos,
    pub(crate) look: Nanos,
}

/// A target that is probed.
#[derive(Debug)]
struct Watched {
    destination: u32,
    settings: Settings,
    /// The time of the next probe without its jitter.
    planned: Timestamp<Monotonic>,
    /// The time of the next probe; other timers of this kind are out of date.
    due: Timestamp<Monotonic>,
    /// The time until the probe after the next, and the timeout of the next.
    interval: Nanos,
    timeout: Nanos,
    /// The time of the last probe.
    last: Timestamp<Monotonic>,
    sent: u64,
    /// A probe was answered in time.
    is_answered: bool,
    /// A probe was answered or refused, in time or not: nothing is to be waited for.
    has_news: bool,
    /// Probes without an outcome.
    open: usize,
    /// Until when an answer is in time, and of which probe; as many as are remembered at most.
    expiries: VecDeque<(Timestamp<Monotonic>, u64)>,
}

#[derive(Debug)]
pub(crate) struct Worker {
    commands: Receiver<Command>,
    wake: Arc<EventFd>,
    outbox: Outbox,
    epoll: Epoll,
    timer: TimerFd,
    armed: Option<Timestamp<Monotonic>>,
    presence: Presence,
    support: Support,
    stamp_wait: Nanos,
    /// Longest delay in noticing the end of the network namespace.
    look: Nanos,
    lanes: FxHashMap<u32, Lane>,
    lane_of: HashMap<Key, u32>,
    destinations: FxHashMap<u32, Destination>,
    destination_of: HashMap<(u32, IpAddr, u16), u32>,
    targets: FxHashMap<TargetId, Watched>,
    schedule: Schedule,
    /// Lanes and destinations ever made, which is how they are numbered; targets ever added.
    made: u32,
    added: u64,
    /// The time of the first one.
    origin: Option<Timestamp<Monotonic>>,
    /// The key of the cookies' hash, unknown to others.
    secret: RandomState,
    packet: Vec<u8>,
    /// The time before epoll was called. Everything that came before has been processed.
    asked: Timestamp<Monotonic>,
    /// The time when the thread began to run again.
    woken: Timestamp<Monotonic>,
    finishing: bool,
}

/// Tokens of epoll for other things than lanes. A lane's token is its number and that of the port;
/// a connection's has the high bit.
const WAKE: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const CONNECTION: u64 = 1 << 63;
/// Ports of a lane fit into these bits.
const PORT: u32 = 8;

/// Sockets that one call of epoll_wait(2) reports as ready.
const READY: usize = 512;

/// Time until an end without room is tried again.
const RETRY: Nanos = Nanos::from_millis(20);
/// Serve a target at once if it is due this soon: it saves a wake-up.
const EARLY: Nanos = Nanos::from_micros(150);
/// Timers of expiry come that much later: an answer that came at the last moment is on its way
/// through the kernel.
const GRACE: Nanos = Nanos::from_millis(1);

impl Worker {
    /// On the thread that enters the namespace for good.
    pub(crate) fn new(setup: Setup) -> Result<Self> {
        let presence = setup.namespace.enter().map_err(|errno| Error::Namespace {
            namespace: setup.namespace.clone(),
            errno,
        })?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(Error::call("epoll_create1", "a prober"))?;
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
        )
        .map_err(Error::call("timerfd_create", "CLOCK_MONOTONIC"))?;
        let readable = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        epoll
            .add(&*setup.wake, readable(WAKE))
            .and_then(|()| epoll.add(&timer, readable(TIMER)))
            .map_err(Error::call("epoll_ctl", "a prober"))?;
        let mut worker = Self {
            commands: setup.commands,
            wake: setup.wake,
            outbox: Outbox::new(setup.events, setup.shared),
            epoll,
            timer,
            armed: None,
            presence,
            support: Support::probe()?,
            stamp_wait: setup.stamp_wait,
            look: setup.look,
            lanes: FxHashMap::default(),
            lane_of: HashMap::new(),
            destinations: FxHashMap::default(),
            destination_of: HashMap::new(),
            targets: FxHashMap::default(),
            schedule: Schedule::default(),
            made: 0,
            added: 0,
            origin: None,
            secret: RandomState::new(),
            packet: Vec::new(),
            asked: now(),
            woken: now(),
            finishing: false,
        };
        worker.schedule.at(now() + worker.look, Timer::Look);
        Ok(worker)
    }

    /// Run until there is nothing left to do, or the namespace has ended.
    pub(crate) fn run(mut self) {
        let mut inbox = Inbox::new();
        let mut ready = vec![EpollEvent::empty(); READY];
        while !self.is_done() {
            let ended = match self.turn(&mut inbox, &mut ready) {
                Ok(ended) => ended,
                Err(error) => Some(Ended::Failed(error)),
            };
            self.outbox.publish(self.woken);
            if let Some(ended) = ended {
                return self.end_all(&ended);
            }
        }
        self.leave_ends();
    }

    /// Wait until all ends have found room, unless there is no reader any more.
    fn leave_ends(&mut self) {
        self.outbox.hand_over();
        self.outbox.tell();
        while self.outbox.has_ends() && !self.outbox.is_closed {
            if let Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) =
                self.commands.recv_timeout(RETRY.into())
            {
                return;
            }
            self.outbox.send_ends();
        }
        self.outbox.tell();
    }

    fn is_done(&self) -> bool {
        self.outbox.is_closed || (self.finishing && self.targets.is_empty())
    }

    fn turn(&mut self, inbox: &mut Inbox, ready: &mut [EpollEvent]) -> Result<Option<Ended>> {
        let count = self.wait(ready)?;
        self.woken = now();
        for event in &ready[..count] {
            match event.data() {
                WAKE => {
                    // Reset the eventfd: its value says only that there are commands.
                    let _ = self.wake.read();
                }
                TIMER => self.armed = None,
                token if token & CONNECTION != 0 => self.receive_from_connection(token),
                token => self.receive_from_lane(token, inbox)?,
            }
        }
        if let Some(ended) = self.handle_commands() {
            return Ok(Some(ended));
        }
        self.run_timers(inbox)
    }

    /// Wait for something to do, and hand over events before that is a sleep. Where something is
    /// due already, it only looks: to set the timer costs more than a probe in a virtual machine.
    fn wait(&mut self, ready: &mut [EpollEvent]) -> Result<usize> {
        if self.schedule.is_due(now()) {
            return self.look(ready, EpollTimeout::ZERO);
        }
        self.arm()?;
        if self.outbox.has_waiting() {
            let count = self.look(ready, EpollTimeout::ZERO)?;
            if count > 0 {
                return Ok(count);
            }
            self.outbox.hand_over();
            // Ends may have found no room.
            self.arm()?;
        }
        self.look(ready, EpollTimeout::NONE)
    }

    fn look(&mut self, ready: &mut [EpollEvent], longest: EpollTimeout) -> Result<usize> {
        self.asked = now();
        match self.epoll.wait(ready, longest) {
            Err(Errno::EINTR) => Ok(0),
            count => count.map_err(Error::call("epoll_wait", "a prober")),
        }
    }

    /// Set the timer to the next event, which also clears an expiration.
    fn arm(&mut self) -> Result<()> {
        let retry = self.outbox.has_ends().then(|| now() + RETRY);
        let next = self.schedule.wakes_at().into_iter().chain(retry).min();
        if next == self.armed {
            return Ok(());
        }
        self.armed = next;
        let Some(next) = next else { return Ok(()) };
        // Zero would switch it off.
        let time = TimeSpec::from(Duration::from_nanos(next.as_nanos().max(1)));
        self.timer
            .set(
                Expiration::OneShot(time),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )
            .map_err(Error::call("timerfd_settime", "CLOCK_MONOTONIC"))
    }

    fn handle_commands(&mut self) -> Option<Ended> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Add(batch, reply)) => {
                    // Ignore the error: without a caller, the targets end with the engine.
                    let _ = reply.send(self.add_all(&batch));
                }
                Ok(Command::Remove(id)) => self.end(id, End::Removed),
                Ok(Command::Retire) if self.targets.is_empty() => return Some(Ended::Stopped),
                Ok(Command::Retire) => {}
                Ok(Command::Finish) => self.finishing = true,
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return Some(Ended::Stopped),
                Err(TryRecvError::Empty) => return None,
            }
        }
    }

    fn run_timers(&mut self, inbox: &mut Inbox) -> Result<Option<Ended>> {
        let now = self.woken;
        let mut unanswered = Vec::new();
        while let Some((time, timer)) = self.schedule.take(now + EARLY) {
            match timer {
                // Receive first: a thread that was kept from running loses its time right here, and
                // answers may have come meanwhile.
                Timer::Expire(_) if time > self.asked => unanswered.push((time, timer)),
                Timer::Due(id)
                    if self
                        .targets
                        .get(&id)
                        .is_some_and(|target| target.due == time) =>
                {
                    self.schedule.is_ready(id);
                }
                Timer::Due(id) => self.wait_longer(id, time),
                Timer::Follow(id) => self.schedule.is_ready(id),
                Timer::Expire(id) => self.expire(id, self.asked),
                Timer::Deadline(id) => self.end(id, End::Deadline),
                Timer::Complete(id) => self.end(id, End::Count),
                Timer::Look if self.presence.is_gone() => return Ok(Some(Ended::NamespaceGone)),
                Timer::Look => {
                    self.count_drops();
                    self.schedule.at(now + self.look, Timer::Look);
                }
            }
        }
        for (time, timer) in unanswered {
            self.schedule.at(time, timer);
        }
        // Stamps may have come meanwhile, too.
        while let Some(probe) = self.schedule.take_held(self.asked) {
            self.release(probe);
        }
        self.send_due(inbox)?;
        Ok(None)
    }

    /// A flood has moved its next probe since the timer was set. Other timers of this kind are out
    /// of date, or of a target that has ended.
    fn wait_longer(&mut self, id: TargetId, time: Timestamp<Monotonic>) {
        let Some(target) = self.targets.get(&id) else {
            return;
        };
        if target.settings.flood && target.due > time {
            self.schedule.at(target.due, Timer::Due(id));
        }
    }

    fn count_drops(&mut self) {
        let ports = self.lanes.values_mut().flat_map(|lane| &mut lane.ports);
        let drops: u64 = ports.map(|port| port.new_drops()).sum();
        self.outbox.counters.receive_drops += drops;
    }

    fn end_all(mut self, ended: &Ended) {
        let mut ids: Vec<_> = self.targets.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            self.end(id, ended.end());
        }
        match ended {
            // Do not wait: a stopping engine does not read until we have ended.
            Ended::Stopped => {
                self.outbox.hand_over();
                self.outbox.tell();
            }
            Ended::NamespaceGone | Ended::Failed(_) => self.leave_ends(),
        }
    }

    /// Return the cookie of a probe, which no other process can know.
    fn cookie(&self, probe: Probe) -> u64 {
        cookie(&self.secret, probe)
    }
}

/// Its first two bytes, which travel first, name the probe.
fn cookie(secret: &RandomState, probe: Probe) -> u64 {
    const _: () = assert!(MAX_IN_FLIGHT <= 1 << u16::BITS);
    let name = u64::from(low(probe.number)) << (u64::BITS - u16::BITS);
    secret.hash_one((probe.destination, probe.number)) >> u16::BITS | name
}

/// The reason why a worker ends before its targets.
#[derive(Debug)]
enum Ended {
    Stopped,
    NamespaceGone,
    Failed(Error),
}

impl Ended {
    fn end(&self) -> End {
        match self {
            Self::Stopped => End::Removed,
            Self::NamespaceGone => End::NamespaceGone,
            Self::Failed(error) => End::Failed(error.to_string()),
        }
    }
}

fn os_error(errno: Errno) -> io::Error {
    errno.into()
}
