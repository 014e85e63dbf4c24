//! Looks at what tasks of this host's programs sleep in while somebody waits for them.

mod halted;
mod look;
mod spent;
mod survey;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sockstamp_explain::diagnosis::SleepLook;
use sockstamp_host::unix::Unix;
use sockstamp_model::name::Name;

use halted::{Halted, halted_peer, note_halted};
use look::Looks;
use spent::spent;
use task::{is_hidden, place};

/// Between two looks at a process.
const BETWEEN: Duration = Duration::from_millis(40);
/// A process is looked at for this long after its last slow message: what comes seldom comes again.
const AFTER: Duration = Duration::from_secs(10);
/// Processes that are looked at, at most.
const MOST: usize = 16;
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
        let looks = move || look_until_the_end(unix, &known, &seen);
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

/// Look at processes for a while after each slow wait, until nobody sends any more.
fn look_until_the_end(unix: Unix, slow: &Receiver<u32>, seen: &Seen) {
    let (mut looks, mut halted) = (Looks::new(unix), Halted::default());
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
        let round = shown.into_iter().filter_map(|pid| {
            let mut look = looks.look(pid)?;
            note_halted(&mut look, || halted.of(pid));
            Some(look)
        });
        seen.add(round.collect());
        let of_looks = spent::spent().saturating_sub(spent + halted.take_spent());
        rest = BETWEEN.max(of_looks * SHARE);
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

#[cfg(test)]
mod tests {
    use sockstamp_explain::diagnosis::Sleep;
    use sockstamp_model::clock::Timestamp;

    use super::*;

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
