//! Looks at what tasks of this host's programs sleep in while somebody waits for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use sockstamp_explain::diagnosis::{Sleep, SleepLook};
use sockstamp_host::slept_for::Sockets;
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
#[derive(Debug, Default)]
pub(crate) struct Sleeps(Option<Looking>);

#[derive(Debug)]
struct Looking {
    slow: Sender<u32>,
    thread: JoinHandle<Vec<SleepLook>>,
}

impl Sleeps {
    /// Look at a process, which had a slow wait, for a while.
    pub(crate) fn add(&mut self, pid: u32) {
        if pid == 0 {
            return;
        }
        let looking = self.0.get_or_insert_with(|| {
            let (slow, known) = mpsc::channel();
            let thread = thread::spawn(move || look_until_it_ends(&known));
            Looking { slow, thread }
        });
        // A thread that has ended looks at nothing.
        let _ = looking.slow.send(pid);
    }

    /// Return all looks, and look no more.
    pub(crate) fn end(&mut self) -> Vec<SleepLook> {
        let Some(Looking { slow, thread }) = self.0.take() else {
            return Vec::new();
        };
        drop(slow);
        thread.join().unwrap_or_default()
    }
}

fn look_until_it_ends(slow: &Receiver<u32>) -> Vec<SleepLook> {
    let mut looks = Vec::new();
    let mut processes = BTreeMap::<u32, Instant>::new();
    let mut rest = BETWEEN;
    let mut sockets = Sockets::default();
    while let Some(pids) = slow_ones(slow, rest, processes.is_empty()) {
        let (now, spent) = (Instant::now(), spent());
        for pid in pids {
            if processes.len() < MOST || processes.contains_key(&pid) {
                processes.insert(pid, now);
            }
        }
        processes.retain(|_, last| last.elapsed() < AFTER);
        if looks.len() < MOST_LOOKS {
            looks.extend(processes.keys().filter_map(|pid| look(*pid, &mut sockets)));
        }
        rest = BETWEEN.max(self::spent().saturating_sub(spent) * SHARE);
    }
    looks
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

fn look(pid: u32, sockets: &mut Sockets) -> Option<SleepLook> {
    let process = Path::new("/proc").join(pid.to_string());
    let at = measure::now().ok()?;
    let tasks = fs::read_dir(process.join("task")).ok()?;
    let mut tasks: Vec<_> = tasks.flatten().take(MOST_TASKS).collect();
    let title = match tasks.len() {
        1 => title(&process),
        _ => String::new(),
    };
    let mut ran = Vec::new();
    let of_task = |task: fs::DirEntry| {
        let number = task.file_name().to_str()?.parse().ok()?;
        let stat = fs::read(task.path().join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (name, state) = name_and_state(&stat)?;
        let place = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
        let mut sleep = Sleep::of(state, &place, &title);
        if sleep == Some(Sleep::Idle) {
            let peer = sockets.slept_for(&process, &task.path());
            sleep = peer.map_or(sleep, |peer| Some(Sleep::Peer(peer)));
        }
        if sleep.is_none() {
            ran.push(Name::from(name));
        }
        Some((number, sleep))
    };
    Some(SleepLook {
        pid,
        at,
        tasks: tasks.drain(..).filter_map(of_task).collect(),
        ran,
    })
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

    #[test]
    fn a_thread_that_waits_for_another_is_seen() {
        let (end, wait) = mpsc::channel::<()>();
        let waiting = thread::spawn(move || wait.recv());
        let mut sleeps = Sleeps::default();
        sleeps.add(std::process::id());
        thread::sleep(BETWEEN * 5);
        let looks = sleeps.end();
        drop(end);
        assert!(waiting.join().unwrap().is_err());
        let asleep = |look: &SleepLook| look.tasks.values().any(|task| *task == Some(Sleep::Lock));
        assert!(looks.len() >= 2 && looks.iter().all(asleep), "{looks:?}");
    }
}
