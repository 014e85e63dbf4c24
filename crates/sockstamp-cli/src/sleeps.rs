//! Looks at what tasks of this host's programs sleep in while somebody waits for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sockstamp_explain::diagnosis::{Sleep, SleepLook};

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
/// The thread rests this many times as long as it looks.
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
    while let Some(pids) = slow_ones(slow, rest, processes.is_empty()) {
        let now = Instant::now();
        for pid in pids {
            if processes.len() < MOST || processes.contains_key(&pid) {
                processes.insert(pid, now);
            }
        }
        processes.retain(|_, last| last.elapsed() < AFTER);
        if looks.len() < MOST_LOOKS {
            looks.extend(processes.keys().filter_map(|pid| look(*pid)));
        }
        rest = BETWEEN.max(now.elapsed() * SHARE);
    }
    looks
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

fn look(pid: u32) -> Option<SleepLook> {
    let process = Path::new("/proc").join(pid.to_string());
    let at = measure::now().ok()?;
    let tasks = fs::read_dir(process.join("task")).ok()?;
    let mut tasks: Vec<_> = tasks.flatten().take(MOST_TASKS).collect();
    let title = match tasks.len() {
        1 => title(&process),
        _ => String::new(),
    };
    let of_task = |task: fs::DirEntry| {
        let number = task.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let place = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
        Some((number, Sleep::of(state(&stat)?, &place, &title)))
    };
    Some(SleepLook {
        pid,
        at,
        tasks: tasks.drain(..).filter_map(of_task).collect(),
    })
}

/// Return the title of a process: its first argument, which some change while they work.
fn title(process: &Path) -> String {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let title = line.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(title).into_owned()
}

/// Return the third field of proc(5)'s `/proc/PID/stat`, after a name that may have blanks.
fn state(stat: &str) -> Option<char> {
    let (_, after) = stat.rsplit_once(')')?;
    after.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_after_any_name() {
        assert_eq!(state("7 (a b) c) D 1 7 7 0"), Some('D'));
        assert_eq!(state("7 (a"), None);
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
