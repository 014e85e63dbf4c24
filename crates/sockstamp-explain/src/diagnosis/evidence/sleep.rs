//! What a task of a process sleeps in, by a look at it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::name::Name;
use sockstamp_model::service::Service;

/// What a task sleeps in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sleep {
    /// It was stopped by a signal, or by a debugger.
    Stopped,
    /// It is stopped by the program that traces it, as at each call that strace tells of.
    Traced,
    /// Its cgroup is frozen.
    Frozen,
    /// A file system of another host, or of a program.
    NetworkFiles,
    /// A disk or a file system.
    Disk,
    /// A sleep that no signal ends, in this function of the kernel; empty where that is not known.
    Uninterruptible(Name),
    /// Memory: its cgroup has as much as it may have.
    Memory,
    /// A lock on a file.
    FileLock,
    /// Room for what it sends to such a service, in the call.
    FullService(Name, Name),
    /// A lock on a file: the program that holds it, and the file.
    HeldFile(Name, Name),
    /// A timer of its own, while another program holds a lock on a file that it has open.
    TriedFile(Name, Name),
    /// A lock of a database, by the process' own title.
    SessionLock,
    /// A file system that is frozen, in a write.
    FrozenFiles,
    /// A file that another task reads or writes, at a position that both share.
    SharedFile,
    /// A lock, or a condition that another thread meets.
    Lock,
    /// A semaphore of System V, which tasks of other processes may have.
    Semaphore,
    /// A message queue, of POSIX or of System V, that is full, or empty.
    MessageQueue,
    /// A child process.
    Child,
    /// A pipe.
    Pipe,
    /// A full pipe, which this program reads.
    FullPipe(Name),
    /// An empty pipe, which this program writes.
    EmptyPipe(Name),
    /// A FIFO that it opens, and whose other end nobody has open.
    Fifo,
    /// A peer behind a Unix socket.
    Unix,
    /// A service that it is connected to by a Unix socket: its program, and its address.
    Service(Name, Name),
    /// A timer of its own.
    Timer,
    /// Data of one peer, which its program asked.
    Peer(SocketAddr),
    /// Data of one client, by the only task of a process: others wait for that client.
    Client(IpAddr),
    /// Data of clients that ask nothing just now, of one by each of so many tasks: no other task
    /// serves.
    IdleClients(usize),
    /// Room for what it sends to a peer, in the call.
    Room(SocketAddr),
    /// A standby that has not confirmed, by the process' own title.
    Standby,
    /// A new connection, in accept(2).
    Accept,
    /// More data of the connection on which it owes the answer.
    More,
    /// Anything that an idle task waits for, while this program, to which its own is connected, is
    /// stopped or frozen.
    Halted(Name),
    /// Anything that an idle task waits for: data, connections, events.
    Idle,
}

impl Sleep {
    /// Return true for a sleep in which nobody is who has nothing to do.
    pub(in crate::diagnosis) const fn is_held_up(&self) -> bool {
        matches!(
            self,
            Self::Stopped
                | Self::Traced
                | Self::Frozen
                | Self::NetworkFiles
                | Self::Disk
                | Self::Uninterruptible(_)
                | Self::Memory
                | Self::Fifo
                | Self::FullPipe(_)
                | Self::FullService(..)
                | Self::FrozenFiles
                | Self::SharedFile
                | Self::FileLock
                | Self::HeldFile(..)
                | Self::SessionLock
                | Self::Standby
                | Self::Halted(_)
        )
    }

    /// Return true for the sleep of who has nothing to do: data, connections, events.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle | Self::Accept)
    }

    /// Return true for a lock of the program's own, in which tasks without work sleep, too.
    #[must_use]
    pub const fn is_own_lock(&self) -> bool {
        matches!(self, Self::Lock | Self::Semaphore | Self::MessageQueue)
    }

    /// Return a task's way to the cause: who sleeps in a lock waits for one that has it, and what
    /// that one sleeps in comes first.
    pub(in crate::diagnosis) const fn rank(&self) -> u8 {
        match self {
            Self::Lock | Self::Semaphore | Self::MessageQueue => 0,
            Self::SessionLock | Self::SharedFile => 1,
            sleep if sleep.is_held_up() => 3,
            _ => 2,
        }
    }

    /// The words of a sentence.
    pub(in crate::diagnosis) fn words(&self) -> Cow<'static, str> {
        let words = match self {
            Self::Peer(peer) => return format!("for data of {}", Service(*peer)).into(),
            Self::Client(client) => {
                return format!("for data of one client, {client}, whom alone they serve").into();
            }
            Self::IdleClients(1) => "for one client, which asks nothing: no other task is free",
            Self::IdleClients(tasks) => {
                return format!(
                    "each of {tasks} for a client of its own, which asks nothing: none is free (as many \
                     workers as connections that are kept open)"
                )
                .into();
            }
            Self::Room(peer) => {
                return format!("in a send to {peer}, for room").into();
            }
            Self::Service(program, path) => {
                return format!("for {program} at the Unix socket {path}").into();
            }
            Self::FullService(program, path) => {
                return format!("in a send to {program} at the Unix socket {path}, for room")
                    .into();
            }
            Self::FullPipe(reader) => {
                return format!("a full pipe, which {reader} reads").into();
            }
            Self::EmptyPipe(writer) => {
                return format!("an empty pipe, which {writer} writes").into();
            }
            Self::HeldFile(holder, file) => {
                return format!("a lock on a file: {holder} holds it ({file})").into();
            }
            Self::TriedFile(holder, file) => {
                return format!(
                    "a timer of their own, while {holder} holds a lock on a file that they have open \
                     ({file})"
                )
                .into();
            }
            Self::Halted(program) => {
                return format!(
                    "any event (poll, epoll), while {program}, to which they are connected, is stopped or frozen"
                )
                .into();
            }
            Self::Uninterruptible(place) if place.is_empty() => {
                "a sleep that no signal ends (state D): a disk, a file system, memory, or a lock of the \
                 kernel"
            }
            Self::Uninterruptible(place) => {
                return format!(
                    "a sleep of the kernel's that no signal ends (state D, in {place})"
                )
                .into();
            }
            Self::Standby => "a standby that has not confirmed, by their titles (waiting for)",
            Self::More => "for more data on the same connection",
            Self::Accept => "new connections (accept)",
            Self::Stopped => "they are stopped (SIGSTOP, a debugger)",
            Self::Traced => "they are stopped by the program that traces them (ptrace)",
            Self::Frozen => "they are frozen (cgroup.freeze, freezer.state)",
            Self::Fifo => "a FIFO that they open, and whose other end nobody has open (open)",
            Self::NetworkFiles => "a file system of another host or program (NFS, CIFS, FUSE)",
            Self::Disk => "a disk or file system (state D)",
            Self::Memory => {
                "memory: their cgroup has as much as it may have (memory.high, memory.limit_in_bytes)"
            }
            Self::FileLock => "a lock on a file",
            Self::SessionLock => "a lock that another session holds, by their titles (waiting)",
            Self::FrozenFiles => {
                "a file system that is frozen (fsfreeze, a snapshot), in a write to it"
            }
            Self::SharedFile => {
                "a file that another of its tasks reads or writes meanwhile (its position, fdget_pos)"
            }
            Self::Lock => "a lock or condition of their program (futex)",
            Self::Semaphore => {
                "a semaphore that another task or process has (System V, semop; ipcs -s)"
            }
            Self::MessageQueue => {
                "a message queue of processes that is full, or empty (mq_overview(7), sysvipc(7))"
            }
            Self::Child => "a child process",
            Self::Pipe => "a pipe to another process",
            Self::Unix => "a service behind a Unix socket",
            Self::Timer => "a timer of their own (sleep, a rate limit)",
            Self::Idle => {
                "any event (poll, epoll): of a peer, of another process, or of a timer of their own"
            }
        };
        words.into()
    }
}

/// The tasks of a process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SleepLook {
    /// The process.
    pub pid: u32,
    /// The process that has started it, where that is known.
    pub parent: Option<u32>,
    /// The moment.
    pub at: Timestamp<Monotonic>,
    /// Its tasks, by their ids, and what each slept in; `None` for one that did not.
    pub tasks: BTreeMap<u32, Option<Sleep>>,
    /// The names of those that ran.
    pub ran: Vec<Name>,
    /// The names of those that were ready, while others had the CPUs.
    pub ready: Vec<Name>,
    /// The times after which waits for events end by themselves, of tasks that have such a time.
    pub ends_after: BTreeMap<u32, Nanos>,
    /// Sleeps of tasks at the other ends of its Unix sockets; `None` for one that did not.
    pub theirs: Vec<Option<Sleep>>,
    /// Tasks that wait for what clients send, and for nobody that their program asked.
    pub for_clients: BTreeSet<u32>,
    /// The other ends of accepted connections that tasks read, each one alone.
    pub reads: BTreeMap<u32, SocketAddr>,
    /// Tasks that run, or have run since the look before.
    pub stirred: BTreeSet<u32>,
    /// The program that traces the process (strace, a debugger).
    pub tracer: Option<Name>,
    /// Other sessions of its database that are in a transaction or at work, while it waits for a
    /// lock of one.
    pub sessions: Vec<Name>,
}

impl SleepLook {
    /// A look that has seen nothing yet.
    #[must_use]
    pub const fn new(pid: u32, at: Timestamp<Monotonic>) -> Self {
        Self {
            pid,
            parent: None,
            at,
            tasks: BTreeMap::new(),
            ran: Vec::new(),
            ready: Vec::new(),
            ends_after: BTreeMap::new(),
            theirs: Vec::new(),
            for_clients: BTreeSet::new(),
            reads: BTreeMap::new(),
            stirred: BTreeSet::new(),
            tracer: None,
            sessions: Vec::new(),
        }
    }

    /// Return the state of all of its tasks, if they are stopped, or frozen.
    #[must_use]
    pub fn halted(&self) -> Option<&Sleep> {
        let first = self.tasks.values().next()?.as_ref()?;
        let are_alike = self.tasks.values().all(|task| task.as_ref() == Some(first));
        (are_alike && matches!(first, Sleep::Stopped | Sleep::Traced | Sleep::Frozen))
            .then_some(first)
    }

    /// Return true if a task reads the accepted connection of a client.
    #[must_use]
    pub fn reads_from(&self, client: SocketAddr) -> bool {
        self.reads.values().any(|read| *read == client)
    }

    /// Return what keeps the process from an answer on the connection of a client, as far as one
    /// look shows: of several tasks, it is not known which one serves.
    #[must_use]
    pub fn keeps(&self, client: SocketAddr) -> Option<String> {
        if self.reads_from(client) {
            return Some(format!("its task sleeps {}", Sleep::More.words()));
        }
        let held_up = self
            .tasks
            .values()
            .flatten()
            .filter(|sleep| sleep.is_held_up());
        let held_up = held_up.max_by_key(|sleep| sleep.rank());
        let only = || match self.tasks.len() {
            1 => self.tasks.values().next()?.as_ref(),
            _ => None,
        };
        let sleep = held_up
            .or_else(only)
            .filter(|sleep| **sleep != Sleep::Idle)?;
        if *sleep == Sleep::Accept {
            return Some(ACCEPTS.to_owned());
        }
        let sessions = sessions(sleep, self.sessions.iter());
        Some(format!("its tasks sleep: {}{sessions}", sleep.words()))
    }
}

/// The only task of a process is in accept(2).
const ACCEPTS: &str = "its only task waits for new connections (accept): none reads this one";

/// Name sessions beside one that waits for a lock.
fn sessions<'a>(sleep: &Sleep, beside: impl Iterator<Item = &'a Name>) -> String {
    const NAMED: usize = 3;
    let beside: Vec<_> = beside.map(ToString::to_string).collect();
    match beside.len() {
        _ if *sleep != Sleep::SessionLock => String::new(),
        0 => String::new(),
        count if count > NAMED => {
            format!("; {count} other sessions are in a transaction or at work")
        }
        _ => format!(
            "; meanwhile in a transaction or at work: {}",
            beside.join(", ")
        ),
    }
}

/// What tasks slept in, by so many looks of all during the waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::diagnosis) struct Slept {
    pub(in crate::diagnosis) sleep: Sleep,
    pub(in crate::diagnosis) looks: usize,
    pub(in crate::diagnosis) of: usize,
    /// State of the tasks at the other end of a Unix socket, at most looks.
    pub(in crate::diagnosis) theirs: Option<Option<Sleep>>,
    /// Sessions that were in a transaction or at work, at half of the looks.
    pub(in crate::diagnosis) sessions: Vec<Name>,
    /// Most waits that a timer ends last so long.
    pub(in crate::diagnosis) usual: Option<Nanos>,
}

impl Slept {
    pub(in crate::diagnosis) const fn new(sleep: Sleep, looks: usize, of: usize) -> Self {
        Self {
            sleep,
            looks,
            of,
            theirs: None,
            sessions: Vec::new(),
            usual: None,
        }
    }

    pub(in crate::diagnosis) fn words(&self) -> String {
        let Self {
            sleep, looks, of, ..
        } = self;
        let theirs = match &self.theirs {
            Some(Some(sleep)) if sleep.is_idle() => String::new(),
            None => String::new(),
            Some(None) => "; it runs meanwhile".to_owned(),
            Some(Some(sleep)) => format!("; its tasks sleep meanwhile: {}", sleep.words()),
        };
        let sessions = sessions(sleep, self.sessions.iter());
        let usual = self.usual.map_or_else(String::new, |time| {
            format!(", that mostly ends such a wait after {time}")
        });
        format!(
            "{}{usual}, at {looks} of {of} looks{theirs}{sessions}",
            sleep.words()
        )
    }
}

/// A thread, or several of one name, that did not sleep at so many looks of all during the waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::diagnosis) struct Ran {
    pub(in crate::diagnosis) name: String,
    pub(in crate::diagnosis) looks: usize,
    /// Of these looks, those at which it waited for a CPU.
    pub(in crate::diagnosis) ready: usize,
    pub(in crate::diagnosis) of: usize,
}

/// Names of threads by which the Java virtual machine collects garbage (HotSpot, ZGC, Shenandoah),
/// by what they begin with.
const COLLECTORS: [&str; 5] = ["GC Thread", "VM Thread", "G1 ", "ZWorker", "Shenandoah"];

impl Ran {
    pub(in crate::diagnosis) fn words(&self) -> String {
        let Self {
            name,
            looks,
            ready,
            of,
        } = self;
        let collects = COLLECTORS.iter().any(|known| name.starts_with(known));
        let collects = if collects {
            ": it collects garbage, as a rule"
        } else {
            ""
        };
        let did = match ready {
            0 => "ran".to_owned(),
            ready if ready == looks => "waited for a CPU".to_owned(),
            ready => format!("ran or waited for a CPU (that at {ready})"),
        };
        format!("its thread {name} {did}, at {looks} of {of} looks{collects}")
    }
}

/// Return the name that the threads of a pool have in common: `GC Thread` of `GC Thread#3`.
pub(in crate::diagnosis) fn of_all(name: &Name) -> String {
    let name = name.to_string();
    let common = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let pool = common.trim_end_matches(['#', '-', '_', ' ']);
    if pool.len() == common.len() || pool.is_empty() {
        return name;
    }
    pool.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As of threads that log to one file, which a snapshot keeps from being written.
    #[test]
    fn a_lock_is_behind_what_its_holder_sleeps_in() {
        let ranks = [Sleep::Semaphore, Sleep::SharedFile, Sleep::FrozenFiles].map(|of| of.rank());
        assert!(ranks.is_sorted() && ranks[0] < ranks[1] && ranks[1] < ranks[2]);
    }

    #[test]
    fn threads_of_a_pool_have_a_name_in_common() {
        let of = |name: &str| of_all(&name.into());
        assert_eq!(of("GC Thread#12"), "GC Thread");
        assert_eq!(of("pool-1-thread-7"), "pool-1-thread");
        assert_eq!(of("python3"), "python3");
        assert_eq!(of("VM Thread"), "VM Thread");
        assert_eq!(of("-7"), "-7");
    }

    #[test]
    fn one_look_shows_what_keeps_a_process_from_an_answer() {
        let client = "10.0.0.7:40000".parse().unwrap();
        let keeps = |sleeps: &[Option<Sleep>]| {
            let tasks = sleeps
                .iter()
                .cloned()
                .zip(1..)
                .map(|(sleep, task)| (task, sleep));
            let mut look = SleepLook::new(1, Timestamp::from_nanos(1));
            look.tasks = tasks.collect();
            look.keeps(client)
        };
        let locked =
            "its tasks sleep: a lock that another session holds, by their titles (waiting)";
        assert_eq!(keeps(&[Some(Sleep::SessionLock)]).as_deref(), Some(locked));
        let disk = keeps(&[Some(Sleep::Idle), None, Some(Sleep::Disk)]);
        assert!(disk.unwrap().ends_with("a disk or file system (state D)"));
        let halted = Sleep::Halted("redis-server (PID 9) at 10.0.0.7:40000".into());
        let halted = keeps(&[Some(halted), Some(Sleep::Lock)]).unwrap();
        assert!(
            halted.contains("while redis-server (PID 9) at 10.0.0.7:40000, to which"),
            "{halted}"
        );
        // Which of several tasks serves is not known; one that is idle may push.
        assert_eq!(keeps(&[Some(Sleep::Timer), Some(Sleep::Idle)]), None);
        assert_eq!(keeps(&[Some(Sleep::Idle)]), None);
        assert_eq!(keeps(&[None]), None);
        let mut look = SleepLook::new(1, Timestamp::from_nanos(1));
        look.tasks = BTreeMap::from([(1, Some(Sleep::Idle)), (2, Some(Sleep::Idle))]);
        look.reads.insert(2, client);
        let more = "its task sleeps for more data on the same connection";
        assert_eq!(look.keeps(client).as_deref(), Some(more));
        assert_eq!(keeps(&[Some(Sleep::Accept)]).as_deref(), Some(ACCEPTS));
        assert_eq!(keeps(&[Some(Sleep::Accept), Some(Sleep::Lock)]), None);
        assert_eq!(look.keeps("10.0.0.8:40000".parse().unwrap()), None);
    }
}
