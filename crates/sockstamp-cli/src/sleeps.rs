//! Looks at what tasks of this host's programs sleep in while somebody waits for them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use sockstamp_explain::diagnosis::{Sleep, SleepLook};
use sockstamp_host::file_lock::{self, Held};
use sockstamp_host::slept_for::{Awaited, Sockets};
use sockstamp_host::unix::{Service, Unix};
use sockstamp_model::name::Name;

use crate::measure;

/// Between two looks at a process.
const BETWEEN: Duration = Duration::from_millis(40);
/// A process is looked at for this long after its last slow message: what comes seldom comes again.
const AFTER: Duration = Duration::from_secs(10);
/// Processes that are looked at, at most, and tasks of each.
const MOST: usize = 16;
const MOST_TASKS: usize = 64;
/// Looks are kept: so many are enough.
const MOST_LOOKS: usize = 2000;
/// The thread rests this many times as long as its looks take of a CPU.
const SHARE: u32 = 50;

/// Looks at tasks, by a thread of its own: messages come when waits end, and looks must not.
#[derive(Debug)]
pub(crate) struct Sleeps {
    /// Sockets that the thread needs, until it begins.
    unix: Option<Unix>,
    looking: Option<Looking>,
}

#[derive(Debug)]
struct Looking {
    slow: Sender<u32>,
    thread: JoinHandle<Vec<SleepLook>>,
}

impl Sleeps {
    /// None yet; later calls need no privilege.
    pub(crate) fn open() -> Self {
        Self {
            unix: Some(Unix::open()),
            looking: None,
        }
    }

    /// Look at a process, which had a slow wait, for a while.
    pub(crate) fn add(&mut self, pid: u32) {
        if pid == 0 {
            return;
        }
        if let Some(unix) = self.unix.take() {
            let (slow, known) = mpsc::channel();
            let thread = thread::spawn(move || Looks::new(unix).until_it_ends(&known));
            self.looking = Some(Looking { slow, thread });
        }
        if let Some(looking) = &self.looking {
            // A thread that has ended looks at nothing.
            let _ = looking.slow.send(pid);
        }
    }

    /// Return all looks, and look no more.
    pub(crate) fn end(&mut self) -> Vec<SleepLook> {
        let Some(Looking { slow, thread }) = self.looking.take() else {
            return Vec::new();
        };
        drop(slow);
        thread.join().unwrap_or_default()
    }
}

/// Return the CPU time of this thread: a busy host makes looks last longer, not dearer.
fn spent() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
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
}

impl Looks {
    fn new(unix: Unix) -> Self {
        Self {
            sockets: Sockets::new(unix),
            surveys: HashMap::new(),
            clocks: HashMap::new(),
        }
    }

    fn until_it_ends(mut self, slow: &Receiver<u32>) -> Vec<SleepLook> {
        let mut looks = Vec::new();
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
            if looks.len() < MOST_LOOKS {
                looks.extend(processes.keys().filter_map(|pid| self.look(*pid)));
            }
            rest = BETWEEN.max(self::spent().saturating_sub(spent) * SHARE);
        }
        looks
    }

    fn look(&mut self, pid: u32) -> Option<SleepLook> {
        let mut look = SleepLook {
            pid,
            at: measure::now().ok()?,
            tasks: BTreeMap::new(),
            ran: Vec::new(),
            ready: Vec::new(),
            ends_after: BTreeMap::new(),
            theirs: Vec::new(),
            tracer: tracer(pid),
        };
        let tasks = self.tasks(pid)?;
        let title = match tasks.len() {
            1 => title(&place(pid)),
            _ => String::new(),
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
                    Some(self.awaited(sleep, number, &path, &mut look))
                }
                sleep => sleep,
            };
            look.tasks.insert(number, sleep);
        }
        Some(look)
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
    fn awaited(&mut self, sleep: Sleep, task: u32, path: &Path, look: &mut SleepLook) -> Sleep {
        let (awaited, ends_after) = self.sockets.slept_for(&place(look.pid), path);
        let ends_after = ends_after.map(|after| (task, after.into()));
        look.ends_after.extend(ends_after);
        match awaited {
            Some(Awaited::Peer(peer)) => Sleep::Peer(peer),
            Some(Awaited::Service(service)) => of_service(service, look),
            Some(Awaited::Any(services)) => {
                let busy = |(service, is_young): &(Service, bool)| *is_young || is_busy(service);
                match services.into_iter().find(busy) {
                    Some((service, _)) => of_service(service, look),
                    // Who reads from a Unix socket that was accepted waits for a client.
                    None => Sleep::Idle,
                }
            }
            None => sleep,
        }
    }

    /// Return true for a task that has run more than it has waited for a CPU since it was last
    /// awake: its state alone is the same.
    fn runs(&mut self, task: u32, path: &Path) -> bool {
        const MOST_CLOCKS: usize = 4096;
        let Some((ran, waited)) = clocks(path) else {
            return true;
        };
        if self.clocks.len() >= MOST_CLOCKS {
            self.clocks.clear();
        }
        match self.clocks.insert(task, (ran, waited)) {
            Some((before, waited_before)) => {
                ran > before && ran - before >= waited.saturating_sub(waited_before)
            }
            None => true,
        }
    }
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

/// A task of it does not wait for events or data.
fn is_busy(service: &Service) -> bool {
    let pid = service.process.as_ref().map(|(pid, _)| *pid);
    let states = pid.map(states).unwrap_or_default();
    let is_idle =
        |state: &Option<Sleep>| matches!(state, Some(Sleep::Idle | Sleep::Lock | Sleep::Unix));
    !states.iter().all(is_idle)
}

/// Return what the first tasks of a process do.
fn states(pid: u32) -> Vec<Option<Sleep>> {
    const MOST: usize = 8;
    let title = title(&place(pid));
    let tasks = numbers(pid).unwrap_or_default().into_iter().take(MOST);
    let tasks = tasks.filter_map(|task| Task::read(&of_task(pid, task), &title));
    tasks.map(|task| task.sleep).collect()
}

fn place(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
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

/// Return the title of a process: its first argument, which some change while they work.
fn title(process: &Path) -> String {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let title = line.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(title).into_owned()
}

/// Return the second and the third field of proc(5)'s `/proc/PID/stat`; a name may have blanks.
fn name_and_state(stat: &str) -> Option<(&str, char)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    Some((name, after.trim_start().chars().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_after_any_name() {
        assert_eq!(
            name_and_state("7 (a b) c) D 1 7 7 0"),
            Some(("a b) c", 'D'))
        );
        assert_eq!(name_and_state("7 (a"), None);
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
        thread::sleep(BETWEEN * 5);
        let looks = sleeps.end();
        drop(end);
        assert!(waiting.join().unwrap().is_err());
        let asleep = |look: &SleepLook| look.tasks.values().any(|task| *task == Some(Sleep::Lock));
        assert!(looks.len() >= 2 && looks.iter().all(asleep), "{looks:?}");
    }
}
