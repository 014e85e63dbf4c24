//! Everything that waits now, by looks at sockets: a program of its own, loaded for nothing else.
//!
//! A look walks over open files once, locks no socket, and needs no other program: it works for
//! sockets that nobody has selected, and for waits that began long before. A session looks at its
//! start and when it is asked for waits.

mod judge;
mod owner;
mod pair;
mod programs;
mod unix;
mod wait;

use std::collections::BTreeSet;
use std::io::Read;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Iter, Link};
use rustc_hash::FxHashMap;
use sockstamp_host::{listener, netns};
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::{Opened, SocketCookie};
use sockstamp_model::wait::Sending;

use crate::abi::raw::{stuck_socket, stuck_unix};
use crate::error::{Error, Tried};
use crate::facts::Facts;
use crate::map_view;
use crate::opening;
use crate::options::Target;
use crate::plan::cannot_load;
use crate::probe;
use crate::sched::WakeFunctions;
use crate::select::{filter, set_namespaces};
use crate::skeleton::stuck::{StuckSkel, StuckSkelBuilder};
use crate::target::{Processes, select_tasks};
use crate::verified;
use crate::wait::tick_ns;

pub use programs::PROGRAMS;
pub use unix::OpenUnix;
pub use wait::Open;

use unix::UnixLooks;
use wait::History;

/// TCP_LISTEN, include/net/tcp_states.h.
const LISTEN: u8 = 10;

/// One look at all sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// The waits that go on, the oldest first.
    pub open: Vec<Open>,
    /// Waits at Unix sockets that go on, the oldest first.
    pub unix: Vec<OpenUnix>,
    /// Some at Unix sockets may be waits: two more looks, some time later, show which.
    pub has_unconfirmed: bool,
    /// Connections that sent data since the first look, or have a rate.
    pub sending: Vec<Sending>,
    /// TCP sockets of the target that were seen, once for each of its processes that holds one.
    pub visited: u64,
    /// Waits are older than is known, as no field tells since when: a second look, some time later,
    /// shows more.
    pub has_least_ages: bool,
    /// Requests were read, and no task watches their connections, as one that polls does not while
    /// it is busy: a second look shows whether it still is.
    pub has_unwatched_requests: bool,
}

/// Looks at sockets. Dropping it leaves nothing behind.
pub struct Stuck {
    link: Link,
    skeleton: StuckSkel<'static>,
    /// The length of a jiffy.
    tick: Nanos,
    /// The looks before, by address of the socket.
    histories: FxHashMap<u64, History>,
    unix: UnixLooks,
    processes: Processes,
    // Held, so that its inode is no other namespace's.
    _netns: Vec<netns::Held>,
}

impl std::fmt::Debug for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stuck").finish_non_exhaustive()
    }
}

impl Stuck {
    /// Load the walk over the sockets of a target.
    ///
    /// # Errors
    ///
    /// Everything in [`Error`]; nothing stays behind then.
    pub fn start(target: &Target) -> Result<Self, Error> {
        let facts = probe::facts();
        if let Some(obstacle) = cannot_load(&facts) {
            return Err(obstacle.into());
        }
        Self::start_on(&facts, target, true)
    }

    /// Do the same on a host of which this is known, with Unix sockets or without. These have
    /// nothing that a filter or an interface asks for.
    pub(crate) fn start_on(facts: &Facts, target: &Target, with_unix: bool) -> Result<Self, Error> {
        let is_of_unix = with_unix && target.filter.is_none() && target.interface.is_none();
        let skeleton = load(target, facts.casts == Some(true), is_of_unix)?;
        let processes = select_tasks(target, &skeleton.maps.pids, &skeleton.maps.comms)?;
        let walk = skeleton.progs.find_stuck_sockets.attach();
        Ok(Self {
            link: walk.tried("walk over sockets")?,
            skeleton,
            tick: Nanos(tick_ns()),
            histories: FxHashMap::default(),
            unix: UnixLooks::new(target),
            processes,
            _netns: target.held.clone(),
        })
    }

    /// Return the same as
    /// [`Session::has_outlived_its_target`](crate::Session::has_outlived_its_target).
    #[must_use]
    pub fn has_outlived_its_target(&self) -> bool {
        self.processes.have_ended()
    }

    /// Look at every socket once.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] or [`Error::Io`] where the kernel refuses.
    pub fn look(&mut self) -> Result<Look, Error> {
        self.processes.deselect_ended(&self.skeleton.maps.pids)?;
        let before = self.visited();
        let (found, of_unix) = self.walk()?;
        let waited_on = pair::without(found, listener::ports);
        let sockets = owner::one_each(waited_on);
        let visited = self.visited() - before;
        let listening = listening(&sockets);
        let mut look = Look {
            visited,
            ..Look::default()
        };
        let mut histories = FxHashMap::default();
        for socket in &sockets {
            let accepted = is_accepted(socket, &listening);
            let seen = judge::Look {
                socket,
                tick: self.tick,
                accepted,
            };
            let before = self.histories.get(&socket.socket);
            let history = History::of(&seen, before);
            let opened = match accepted {
                true => Opened::Accepted,
                false => Opened::Connected,
            };
            look.sending.extend(history.sending(socket, opened));
            let verdict = seen.verdict().and_then(|verdict| history.judge(verdict));
            let verdict = verdict.or_else(|| history.unsent());
            if let Some(verdict) = verdict.or_else(|| history.unread(socket)) {
                look.has_least_ages |= verdict.at_least;
                look.has_unwatched_requests |= verdict.is_owed();
                look.open
                    .push(wait::open(socket, opened, verdict, &history));
            }
            histories.insert(socket.socket, history);
        }
        self.histories = histories;
        (look.unix, look.has_unconfirmed) = self.unix.look(of_unix);
        look.open
            .sort_by_key(|open| (open.wait.since, open.wait.flow));
        Ok(look)
    }

    /// Look at Unix sockets alone: return what waits there, and whether another look may show more.
    ///
    /// # Errors
    ///
    /// As those of [`look`](Self::look).
    pub(crate) fn look_at_unix(&mut self) -> Result<(Vec<OpenUnix>, bool), Error> {
        let (_, of_unix) = self.walk()?;
        Ok(self.unix.look(of_unix))
    }

    /// Look once more: return the sockets that have neither sent, read nor received data since the
    /// last look. What was seen in between, of tasks, was there while their waits went on.
    ///
    /// # Errors
    ///
    /// As those of [`look`](Self::look).
    pub fn unmoved(&self) -> Result<BTreeSet<SocketCookie>, Error> {
        let is_same = |socket: &stuck_socket| {
            let before = self.histories.get(&socket.socket);
            before.is_some_and(|before| before.is_of(socket))
        };
        let sockets = self.walk()?.0.into_iter().filter(is_same);
        Ok(sockets
            .map(|socket| SocketCookie(socket.flow.cookie))
            .collect())
    }

    /// Return the number of instructions that the verifier processed per program.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] where the kernel does not tell.
    pub fn verified(&self) -> Result<Vec<(String, u32)>, Error> {
        verified::of(self.skeleton.object())
    }

    fn visited(&self) -> u64 {
        let counts = self.skeleton.maps.bss_data.as_ref();
        counts.map_or(0, |counts| counts.stuck_visited)
    }

    fn walk(&self) -> Result<(Vec<stuck_socket>, Vec<stuck_unix>), Error> {
        const STEP: &str = "walk over sockets";
        let mut iterator = Iter::new(&self.link).tried(STEP)?;
        let mut bytes = Vec::new();
        // A task that has just got a CPU knows the scheduler's time best.
        thread::sleep(Duration::from_micros(1));
        iterator.read_to_end(&mut bytes).tried(STEP)?;
        Ok(records(&bytes))
    }
}

/// Divide what a walk has written: before each record goes its size, which differs by kind.
fn records(mut bytes: &[u8]) -> (Vec<stuck_socket>, Vec<stuck_unix>) {
    const { assert!(size_of::<stuck_socket>() != size_of::<stuck_unix>()) };
    let (mut sockets, mut of_unix) = (Vec::new(), Vec::new());
    while let Some((size, rest)) = bytes.split_first_chunk() {
        let size = usize::try_from(u64::from_ne_bytes(*size)).unwrap_or(usize::MAX);
        let Some((record, rest)) = rest.split_at_checked(size) else {
            break;
        };
        sockets.extend(map_view::stuck(record));
        of_unix.extend(map_view::stuck_unix(record));
        bytes = rest;
    }
    (sockets, of_unix)
}

/// Return the ports on which somebody listens with a backlog of 0, which a child does not show.
fn listening(sockets: &[stuck_socket]) -> BTreeSet<(u32, u16)> {
    let listeners = sockets.iter().filter(|socket| socket.state == LISTEN);
    listeners
        .map(|socket| (socket.flow.netns, socket.flow.local_port))
        .collect()
}

fn is_accepted(socket: &stuck_socket, listening: &BTreeSet<(u32, u16)>) -> bool {
    let place = (socket.flow.netns, socket.flow.local_port);
    socket.listened != 0 || listening.contains(&place)
}

fn load(target: &Target, casts: bool, is_of_unix: bool) -> Result<StuckSkel<'static>, Error> {
    let mut open = opening::open(StuckSkelBuilder::default())?;
    let wakes = WakeFunctions::find()?;
    let cgroup = match &target.cgroup {
        Some(path) => path.metadata().tried("inspect the cgroup")?.ino(),
        None => 0,
    };
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.setting_casts = casts;
        settings.setting_tick_ns = tick_ns();
        settings.setting_cgroup = cgroup;
        set_namespaces(&mut settings.setting_netns, &target.netns);
        settings.setting_interface = target.interface.map_or(0, NonZeroU32::get);
        settings.setting_by_pid = target.by_process();
        settings.setting_spare_own = !target.names_tasks();
        settings.setting_pids = !target.pids.is_empty();
        settings.setting_comms = !target.comms.is_empty();
        settings.setting_wake_stream = wakes.stream;
        settings.setting_wake_datagram = wakes.datagram;
        settings.setting_wake_poll = wakes.poll;
        settings.setting_wake_epoll = wakes.epoll;
        settings.setting_wake_uring = wakes.uring;
        settings.setting_wake_sleep = wakes.sleep;
        settings.setting_unix = is_of_unix;
        if let Some(filter) = &target.filter {
            filter::set_filter!(&mut *settings, filter);
        }
    }
    open.load().tried("load the walk over sockets")
}
