//! Looks at what tasks of this host's programs sleep in while somebody waits for them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::time::{ClockId, clock_gettime};
use sockstamp_explain::diagnosis::{Sleep, SleepLook};
use sockstamp_host::clock;
use sockstamp_host::file_lock::{self, Held};
use sockstamp_host::memory;
use sockstamp_host::owner::{self, Ends};
use sockstamp_host::sessions;
use sockstamp_host::slept_for::{Awaited, Sockets};
use sockstamp_host::unix::{Service, Unix};
use sockstamp_model::name::Name;

/// Between two looks at a process.
const BETWEEN: Duration = Duration::from_millis(40);
/// A process is looked at for this long after its last slow message: what comes seldom comes again.
const AFTER: Duration = Duration::from_secs(10);
/// Processes that are looked at, at most, and tasks of each.
const MOST: usize = 16;
const MOST_TASKS: usize = 64;
/// Looks that are kept. Beyond, every second round of them is left out: they are of the whole time,
/// and of every process.
const MOST_LOOKS: usize = 2000;
/// The thread rests this many times as long as its looks take of a CPU.
const SHARE: u32 = 50;

/// Looks at tasks, by a thread of its own: messages come when waits end, and looks must not.
#[derive(Debug)]
pub(crate) struct Sleeps {
    /// Sockets that the thread needs, until it begins.
    unix: Option<Unix>,
    /// The thread ends with this.
    slow: Option<Sender<u32>>,
    seen: Seen,
}

/// Looks of one moment, at one process each.
type Round = Vec<SleepLook>;

/// All looks.
#[derive(Debug, Clone, Default)]
struct Seen {
    rounds: Arc<Mutex<Vec<Round>>>,
    /// Processes whose tasks may not be looked at.
    hidden: Arc<Mutex<BTreeSet<u32>>>,
}

impl Sleeps {
    /// Open the sockets; later calls need no privilege.
    pub(crate) fn open() -> Self {
        Self {
            unix: Some(Unix::open()),
            slow: None,
            seen: Seen::default(),
        }
    }

    /// Look at a process, which had a slow wait, for a while.
    pub(crate) fn add(&mut self, pid: u32) {
        if pid == 0 {
            return;
        }
        if let Some(unix) = self.unix.take() {
            self.slow = self.begin(unix);
        }
        if let Some(slow) = &self.slow {
            // A thread that has ended looks at nothing.
            let _ = slow.send(pid);
        }
    }

    /// Start the thread; without one, nothing is looked at.
    fn begin(&self, unix: Unix) -> Option<Sender<u32>> {
        let (slow, known) = mpsc::channel();
        let seen = self.seen.clone();
        let thread = thread::Builder::new().name("looks".into());
        let looks = move || Looks::new(unix).until_it_ends(&known, &seen);
        thread.spawn(looks).ok().map(|_| slow)
    }

    /// Return the processes whose tasks may not be looked at.
    pub(crate) fn hidden(&self) -> BTreeSet<u32> {
        self.seen.hidden().clone()
    }

    /// Return all looks until now.
    pub(crate) fn seen(&self) -> Vec<SleepLook> {
        self.seen.all().iter().flatten().cloned().collect()
    }
}

impl Seen {
    fn add(&self, round: Round) {
        let mut all = self.all();
        all.push(round);
        if all.iter().map(Vec::len).sum::<usize>() > MOST_LOOKS {
            *all = thinned(std::mem::take(&mut all));
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Round>> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hidden(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave out every second round. Tasks that had run until then have run until the next.
fn thinned(rounds: Vec<Round>) -> Vec<Round> {
    let mut kept = Vec::with_capacity(rounds.len() / 2 + 1);
    let mut rounds = rounds.into_iter();
    while let Some(left_out) = rounds.next() {
        let Some(mut round) = rounds.next() else {
            kept.push(left_out);
            break;
        };
        for before in left_out {
            let mut later = round.iter_mut();
            if let Some(look) = later.find(|look| look.pid == before.pid) {
                look.stirred.extend(before.stirred);
            }
        }
        kept.push(round);
    }
    kept
}

/// Return the CPU time of this thread, and of what reads memory for it: a busy host makes looks
/// last longer, not dearer.
fn spent() -> Duration {
    let own = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    own.map_or(Duration::ZERO, Duration::from) + memory::spent()
}

/// Return the processes that were slow while this thread rested, or the first one if it `waits` for
/// that; `None` at the end.
fn slow_ones(slow: &Receiver<u32>, rest: Duration, waits: bool) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    if waits {
        found.push(slow.recv().ok()?);
    }
    let due = Instant::now() + rest;
    loop {
        match slow.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(pid) => found.push(pid),
            Err(RecvTimeoutError::Timeout) => return Some(found),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// A process with more tasks than are looked at: those that have run since it was surveyed before.
#[derive(Debug, Default)]
struct Survey {
    at: Option<Instant>,
    ran: HashMap<u32, u64>,
    active: Vec<u32>,
}

impl Survey {
    /// Between two surveys: each reads a file for each of thousands of tasks.
    const BETWEEN: Duration = Duration::from_secs(1);
    /// Tasks that are surveyed.
    const MOST: usize = 4096;

    /// Return the tasks to look at.
    fn chosen(&mut self, pid: u32) -> Option<Vec<u32>> {
        if self.at.is_none_or(|at| at.elapsed() >= Self::BETWEEN) {
            self.at = Some(Instant::now());
            self.look(pid, &numbers(pid)?);
        }
        Some(self.active.clone())
    }

    fn look(&mut self, pid: u32, tasks: &[u32]) {
        let ran = |task: &u32| Some((*task, clocks(&of_task(pid, *task))?.0));
        let now: HashMap<_, _> = tasks.iter().take(Self::MOST).filter_map(ran).collect();
        let has_run = |task: &&u32| {
            let before = self.ran.get(task);
            before.is_some_and(|before| now.get(task).is_some_and(|now| now > before))
        };
        let (mut active, others): (Vec<u32>, Vec<u32>) = tasks.iter().partition(has_run);
        active.extend(others);
        active.truncate(MOST_TASKS);
        (self.ran, self.active) = (now, active);
    }
}

/// Knowledge of the thread, from look to look.
struct Looks {
    sockets: Sockets,
    surveys: HashMap<u32, Survey>,
    /// The times for which tasks had run and waited for a CPU, when they were last awake.
    clocks: HashMap<u32, (u64, u64)>,
    /// The times for which tasks had run, when they were last asleep.
    asleep: HashMap<u32, Option<u64>>,
    /// Sessions at work, by the server whose processes they have, and when they were looked at.
    sessions: HashMap<u32, (Instant, Vec<Name>)>,
    halted: Halted,
}

/// Stopped programs at the other ends of processes that wait for their clients.
#[derive(Debug, Default)]
struct Halted {
    known: HashMap<u32, Search>,
    searches: usize,
    /// The CPU time of searches since it was taken: looks do not rest for it.
    spent: Duration,
}

/// Searches for the stopped peer of a process.
#[derive(Debug, Default)]
struct Search {
    /// Looks at the process until the next one.
    looks: usize,
    found: Option<Peer>,
}

/// A program at the other end of a connection.
#[derive(Debug, Clone)]
struct Peer {
    pid: u32,
    name: Name,
}

impl Halted {
    /// Between two searches for one process.
    const LOOKS: usize = 50;
    /// Before the first one: who waits for clients for a moment needs none.
    const FIRST: usize = 10;
    /// Searches that are made. Each goes through the descriptors of all processes.
    const MOST: usize = 2;

    fn take_spent(&mut self) -> Duration {
        std::mem::take(&mut self.spent)
    }

    /// Return such a program of a process, which has not read what it was sent, if it still is
    /// stopped.
    fn of(&mut self, pid: u32) -> Option<Name> {
        let Self {
            known,
            searches,
            spent,
        } = self;
        let first = || Search {
            looks: Self::FIRST,
            found: None,
        };
        let search = known.entry(pid).or_insert_with(first);
        search.looks = search.looks.saturating_sub(1);
        if search.found.is_none() && search.looks == 0 && *searches < Self::MOST {
            let begin = self::spent();
            search.found = halted_peer(pid);
            search.looks = Self::LOOKS;
            *searches += 1;
            *spent += self::spent().saturating_sub(begin);
        }
        let peer = search.found.as_ref()?;
        is_halted(peer.pid).then(|| peer.name.clone())
    }
}

impl Looks {
    fn new(unix: Unix) -> Self {
        Self {
            sockets: Sockets::new(unix),
            surveys: HashMap::new(),
            clocks: HashMap::new(),
            asleep: HashMap::new(),
            sessions: HashMap::new(),
            halted: Halted::default(),
        }
    }

    fn until_it_ends(mut self, slow: &Receiver<u32>, seen: &Seen) {
        let mut processes = BTreeMap::<u32, Instant>::new();
        let mut rest = BETWEEN;
        while let Some(pids) = slow_ones(slow, rest, processes.is_empty()) {
            let (now, spent) = (Instant::now(), spent());
            for pid in pids {
                if processes.len() < MOST || processes.contains_key(&pid) {
                    processes.insert(pid, now);
                }
            }
            processes.retain(|_, last| last.elapsed() < AFTER);
            let is_hidden = |pid: &&u32| is_hidden(&place(**pid));
            let (hidden, shown): (Vec<u32>, Vec<u32>) = processes.keys().partition(is_hidden);
            seen.hidden().extend(hidden);
            let looks = shown.into_iter().filter_map(|pid| {
                let mut look = self.look(pid)?;
                note_halted(&mut look, || self.halted.of(pid));
                Some(look)
            });
            seen.add(looks.collect());
            let of_looks = self::spent().saturating_sub(spent + self.halted.take_spent());
            rest = BETWEEN.max(of_looks * SHARE);
        }
    }

    fn look(&mut self, pid: u32) -> Option<SleepLook> {
        let mut look = SleepLook {
            tracer: tracer(pid),
            ..SleepLook::new(pid, clock::now().ok()?)
        };
        let tasks = self.tasks(pid)?;
        let is_alone = tasks.len() == 1;
        let title = match is_alone {
            true => memory::title(pid),
            false => String::new(),
        };
        let mut tried = None;
        for number in tasks {
            let path = of_task(pid, number);
            let Some(task) = Task::read(&path, &title) else {
                continue;
            };
            let sleep = match task.sleep {
                None if self.runs(number, &path) => {
                    look.ran.push(task.name);
                    None
                }
                None => {
                    look.ready.push(task.name);
                    None
                }
                Some(sleep @ Sleep::FileLock) => Some(match file_lock::awaited(pid) {
                    Some(Held { holder, file }) => Sleep::HeldFile(holder, file),
                    None => sleep,
                }),
                Some(sleep @ Sleep::Timer) => {
                    let tried = tried.get_or_insert_with(|| file_lock::tried(pid)).clone();
                    let of = |Held { holder, file }| Sleep::TriedFile(holder, file);
                    Some(tried.map_or(sleep, of))
                }
                Some(sleep @ (Sleep::Idle | Sleep::Unix)) => {
                    Some(match self.awaited(sleep, number, &mut look) {
                        // Other tasks serve other clients.
                        Sleep::Client(_) if !is_alone => Sleep::Idle,
                        sleep => sleep,
                    })
                }
                sleep => sleep,
            };
            if sleep.is_none() || self.has_run(number, &path) {
                look.stirred.insert(number);
            }
            look.tasks.insert(number, sleep);
        }
        if look
            .tasks
            .values()
            .flatten()
            .any(|sleep| *sleep == Sleep::SessionLock)
        {
            look.sessions = self.sessions(pid);
        }
        Some(look)
    }

    /// Return the sessions at work of the server that has started a process.
    fn sessions(&mut self, pid: u32) -> Vec<Name> {
        const OLDEST: Duration = Duration::from_millis(200);
        let Some(server) = sessions::parent(pid) else {
            return Vec::new();
        };
        self.sessions.retain(|_, (at, _)| at.elapsed() < OLDEST);
        let look = || (Instant::now(), sessions::at_work(server));
        let (_, sessions) = self.sessions.entry(server).or_insert_with(look);
        sessions.clone()
    }

    /// Return the tasks of a process to look at: of many those that run now and then.
    fn tasks(&mut self, pid: u32) -> Option<Vec<u32>> {
        if let Some(survey) = self.surveys.get_mut(&pid) {
            return survey.chosen(pid);
        }
        let tasks = numbers(pid)?;
        match tasks.len() > MOST_TASKS {
            true => self.surveys.entry(pid).or_default().chosen(pid),
            false => Some(tasks),
        }
    }

    /// Return what a task waits for that waits for events or data.
    fn awaited(&mut self, sleep: Sleep, task: u32, look: &mut SleepLook) -> Sleep {
        let (awaited, ends_after) = self.sockets.slept_for(look.pid, task);
        let ends_after = ends_after.map(|after| (task, after.into()));
        look.ends_after.extend(ends_after);
        match awaited {
            Some(Awaited::Peer(peer)) => Sleep::Peer(peer),
            Some(Awaited::Service(service)) => of_service(service, look),
            Some(Awaited::Client(client)) => {
                look.reads.insert(task, client);
                Sleep::Client(client.ip())
            }
            Some(Awaited::Room(peer)) => Sleep::Room(peer),
            Some(Awaited::Clients) => {
                look.for_clients.insert(task);
                Sleep::Idle
            }
            Some(Awaited::Any(services)) => {
                let busy = |(service, is_young): &(Service, bool)| *is_young || is_busy(service);
                match services.into_iter().find(busy) {
                    Some((service, _)) => of_service(service, look),
                    // A reader of a Unix socket that was accepted waits for a client.
                    None => Sleep::Idle,
                }
            }
            None => sleep,
        }
    }

    /// Return true unless a task that sleeps has not run since it was last seen asleep.
    fn has_run(&mut self, task: u32, path: &Path) -> bool {
        let ran = clocks(path).map(|(ran, _)| ran);
        let before = keep(&mut self.asleep, task, ran);
        ran.is_none() || before.is_some_and(|before| before != ran)
    }

    /// Return true for a task that has run more than it has waited for a CPU since it was last
    /// awake: its state alone is the same.
    fn runs(&mut self, task: u32, path: &Path) -> bool {
        let Some((ran, waited)) = clocks(path) else {
            return true;
        };
        match keep(&mut self.clocks, task, (ran, waited)) {
            Some((before, waited_before)) => {
                ran > before && ran - before >= waited.saturating_sub(waited_before)
            }
            None => true,
        }
    }
}

/// Keep what is known of a task; return what was.
fn keep<T>(known: &mut HashMap<u32, T>, task: u32, now: T) -> Option<T> {
    const MOST: usize = 4096;
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(task, now)
}

/// Name the service, and note what its own tasks do.
fn of_service(service: Service, look: &mut SleepLook) -> Sleep {
    let Service { path, process } = service;
    let Some((pid, name)) = process else {
        return Sleep::Service("a program".into(), path);
    };
    look.theirs.extend(states(pid));
    Sleep::Service(name, path)
}

/// Return true if a task of the service does not wait for events or data.
fn is_busy(service: &Service) -> bool {
    let pid = service.process.as_ref().map(|(pid, _)| *pid);
    let states = pid.map(states).unwrap_or_default();
    let is_idle = |state: &Option<Sleep>| {
        matches!(
            state,
            Some(Sleep::Idle | Sleep::Accept | Sleep::Lock | Sleep::Unix)
        )
    };
    !states.iter().all(is_idle)
}

/// Return a stopped program at the other end of a process' connections that has not read what it
/// was sent: anybody may have stopped another client. The search looks through the descriptors of
/// all processes.
fn halted_peer(pid: u32) -> Option<Peer> {
    let connections = owner::connections(&place(pid));
    let peers = owner::of(&connections).into_iter();
    let mut peers = peers.filter_map(|(ends, owner)| Some((ends, owner.process?)));
    let is_it = |(ends, (process, _)): &(Ends, (u32, Name))| {
        *process != pid && is_halted(*process) && !owner::is_silent(*process, ends)
    };
    let (ends, (halted, name)) = peers.find(is_it)?;
    let remote = ends.remote;
    Some(Peer {
        pid: halted,
        name: Name::from(format!("{name} (PID {halted}) at {remote}")),
    })
}

/// Return true if all tasks of a process are stopped or frozen.
fn is_halted(process: u32) -> bool {
    let states = states(process);
    let halted = |state: &Option<Sleep>| matches!(state, Some(Sleep::Stopped | Sleep::Frozen));
    !states.is_empty() && states.iter().all(halted)
}

/// Note what a process may wait for whose tasks wait for its clients: a `halted` one.
fn note_halted(look: &mut SleepLook, halted: impl FnOnce() -> Option<Name>) {
    if let Some(task) = look.for_clients.first().copied()
        && let Some(program) = halted()
    {
        look.for_clients.remove(&task);
        look.tasks.insert(task, Some(Sleep::Halted(program)));
    }
}

/// Looks at tasks of single processes, whenever they are asked for.
#[derive(Default)]
pub struct Tasks {
    looks: Option<Looks>,
    /// Searches for stopped programs.
    searches: usize,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl Tasks {
    /// Look at a process; `None` if it is gone, or another user's.
    pub fn look(&mut self, pid: u32) -> Option<SleepLook> {
        let looks = self.looks.get_or_insert_with(|| Looks::new(Unix::open()));
        let mut look = looks.look(pid).filter(|_| !is_hidden(&place(pid)))?;
        note_halted(&mut look, || self.halted_peer(pid));
        Some(look)
    }

    /// Search for a stopped peer of a process, for the first few that are asked about: on a host
    /// with many descriptors each search takes longer than all else.
    fn halted_peer(&mut self, pid: u32) -> Option<Name> {
        const MOST: usize = 2;
        self.searches += 1;
        let is_allowed = self.searches <= MOST;
        let peer = is_allowed.then(|| halted_peer(pid)).flatten()?;
        Some(peer.name)
    }
}

/// Return what the first tasks of a process do.
fn states(pid: u32) -> Vec<Option<Sleep>> {
    const MOST: usize = 8;
    let title = memory::title(pid);
    let tasks = numbers(pid).unwrap_or_default().into_iter().take(MOST);
    let tasks = tasks.filter_map(|task| Task::read(&of_task(pid, task), &title));
    tasks.map(|task| task.sleep).collect()
}

fn place(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// Return true for a process of another user, which takes CAP_SYS_PTRACE to look at: what its tasks
/// sleep in reads as if they were idle (`proc_pid_wchan()`, fs/proc/base.c, v6.18).
fn is_hidden(process: &Path) -> bool {
    let program = fs::read_link(process.join("exe"));
    program.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn of_task(pid: u32, task: u32) -> PathBuf {
    place(pid).join(format!("task/{task}"))
}

/// Return the tasks of a process.
fn numbers(pid: u32) -> Option<Vec<u32>> {
    let tasks = fs::read_dir(place(pid).join("task")).ok()?;
    let number = |task: fs::DirEntry| task.file_name().to_str()?.parse().ok();
    Some(tasks.flatten().filter_map(number).collect())
}

/// A task, by its state and place.
struct Task {
    name: Name,
    sleep: Option<Sleep>,
}

impl Task {
    fn read(path: &Path, title: &str) -> Option<Self> {
        let stat = fs::read(path.join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (name, state) = name_and_state(&stat)?;
        let place = fs::read_to_string(path.join("wchan")).unwrap_or_default();
        Some(Self {
            name: Name::from(name),
            sleep: Sleep::of(state, &place, title),
        })
    }
}

/// Return for how long a task has run, and waited for a CPU: the first fields of its `schedstat`.
fn clocks(path: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(path.join("schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Return the name of the program that traces a process.
fn tracer(pid: u32) -> Option<Name> {
    let status = fs::read_to_string(place(pid).join("status")).ok()?;
    let mut lines = status.lines();
    let tracer = lines.find_map(|line| line.strip_prefix("TracerPid:"))?;
    let tracer = tracer.trim().parse().ok().filter(|tracer| *tracer != 0)?;
    let name = fs::read(place(tracer).join("comm")).ok()?;
    Some(Name::from(name.trim_ascii_end()))
}

/// Return the second and the third field of proc(5)'s `/proc/PID/stat`; a name may have blanks.
fn name_and_state(stat: &str) -> Option<(&str, char)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    Some((name, after.trim_start().chars().next()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::Command;

    use sockstamp_model::clock::Timestamp;

    use super::*;

    #[test]
    fn the_state_is_read_after_any_name() {
        assert_eq!(
            name_and_state("7 (a b) c) D 1 7 7 0"),
            Some(("a b) c", 'D'))
        );
        assert_eq!(name_and_state("7 (a"), None);
    }

    /// The witnesses are kill(1), and this process, which has the other end.
    #[test]
    fn a_stopped_client_counts_if_it_has_not_read_what_it_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(OwnedFd::from(client))
            .spawn()
            .unwrap();
        let pid = child.id().to_string();
        let stopped = Command::new("kill").args(["-STOP", &pid]).status();
        assert!(stopped.unwrap().success());
        let is_stopped = || states(child.id()) == [Some(Sleep::Stopped)];
        let begin = Instant::now();
        while !is_stopped() && begin.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(10));
        }
        let idle = halted_peer(std::process::id());
        served.write_all(b"news").unwrap();
        let sent = halted_peer(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(idle.is_none());
        assert_eq!(sent.unwrap().pid.to_string(), pid);
    }

    /// Of more tasks than are looked at, the one that runs is among them.
    #[test]
    fn tasks_that_run_come_before_those_that_never_do() {
        let mut survey = Survey::default();
        // `PID/task/TID`, proc(5).
        let own = fs::read_link("/proc/thread-self").unwrap();
        let runs: u32 = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let process = std::process::id();
        // No task has such a number.
        let never = (0..4_000).map(|of| u32::MAX - of);
        let all: Vec<u32> = never.chain([runs]).collect();
        survey.look(process, &all);
        assert!(!survey.active.contains(&runs));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {}
        survey.look(process, &all);
        assert_eq!(survey.active[0], runs);
        assert_eq!(survey.active.len(), MOST_TASKS);
    }

    #[test]
    fn a_thread_that_waits_for_another_is_seen() {
        let (end, wait) = mpsc::channel::<()>();
        let waiting = thread::spawn(move || wait.recv());
        let mut sleeps = Sleeps::open();
        sleeps.add(std::process::id());
        let asleep = |look: &SleepLook| look.tasks.values().any(|task| *task == Some(Sleep::Lock));
        let begin = Instant::now();
        let is_seen = loop {
            let looks = sleeps.seen();
            if looks.iter().filter(|look| asleep(look)).count() >= 2 {
                break true;
            }
            if begin.elapsed() > Duration::from_secs(30) {
                break false;
            }
            thread::sleep(BETWEEN);
        };
        drop(end);
        assert!(waiting.join().unwrap().is_err());
        assert!(is_seen, "{:?}", sleeps.seen());
    }

    #[test]
    fn of_too_many_looks_all_processes_keep_theirs() {
        let look = |of: u64, pid: u32| SleepLook {
            stirred: [pid * 10 + u32::from(of == 0)].into(),
            ..SleepLook::new(pid, Timestamp::from_nanos(of))
        };
        let seen = Seen::default();
        for of in 0..2 {
            seen.add(vec![look(of, 1), look(of, 2)]);
        }
        let rounds = thinned(seen.all().clone());
        let [round] = &rounds[..] else {
            panic!("{rounds:?}");
        };
        let of = |look: &SleepLook| (look.pid, look.stirred.iter().copied().collect::<Vec<_>>());
        let looks: Vec<_> = round.iter().map(of).collect();
        assert_eq!(looks, [(1, vec![10, 11]), (2, vec![20, 21])]);
        let most = MOST_LOOKS as u64;
        (0..2 * most).for_each(|of| seen.add(vec![look(of, 1), look(of, 2)]));
        let count = |pid| {
            seen.all()
                .iter()
                .flatten()
                .filter(|look| look.pid == pid)
                .count()
        };
        assert!(count(1) == count(2) && count(1) * 2 <= MOST_LOOKS);
        // The last look of all is kept.
        let all = seen.all();
        assert_eq!(
            all.last().unwrap()[0].at,
            Timestamp::from_nanos(2 * most - 1)
        );
    }
}
