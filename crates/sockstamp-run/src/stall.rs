//! The end of a program whose output nobody reads. The thread that measures waits in write(2)
//! then, where it hears of no signal and of no time: a thread of its own does.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::libc::{SYS_write, SYS_writev, c_long};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{Pid, gettid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::emulate_default_handler;

use crate::capabilities;
use crate::escape::complain_unless_full;
use crate::signals::{self, Signals};

/// A write that has lasted for this long since the wish to end will not end.
const STALLED: Duration = Duration::from_secs(2);
/// The time between two looks at it.
const LOOK: Duration = Duration::from_millis(100);
/// Until it is known when the duration is over, this often is asked.
const ASK: Duration = Duration::from_secs(1);
/// A signal that follows another by less is the same wish to end: timeout(1) sends one to its
/// child, and one to the group in which its child is.
pub(crate) const ONE_WISH: Duration = Duration::from_millis(500);

/// The state of the thread that measures, as far as another one must know it.
#[derive(Debug, Default)]
struct Shared {
    deadline: Mutex<Option<Instant>>,
    /// Signals are for a command.
    has_command: AtomicBool,
    /// Another signal ends the process at once.
    kills: Arc<AtomicBool>,
}

impl Shared {
    fn deadline(&self) -> MutexGuard<'_, Option<Instant>> {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watch over the thread that began it.
#[derive(Debug)]
pub struct Watch(Arc<Shared>);

impl Watch {
    /// Begin to watch the calling thread. Once it should have ended, by a signal or its duration, a
    /// write that never ends is the end of the process. `kills` is set when another signal is
    /// another wish.
    ///
    /// # Errors
    ///
    /// If signals cannot be caught, or no thread can be started.
    pub fn begin(has_duration: bool, kills: Arc<AtomicBool>) -> Result<Self> {
        let shared = Arc::new(Shared {
            kills,
            ..Shared::default()
        });
        let signals = signals::catch(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
        let watcher = Watcher {
            signals,
            shared: Arc::clone(&shared),
            task: gettid(),
            has_duration,
            wish: None,
            write: None,
        };
        thread::Builder::new()
            .name("ending".to_owned())
            .spawn(move || watcher.watch())
            .context("cannot start the thread that ends the process")?;
        Ok(Self(shared))
    }

    /// The measurement should be over by then; `None` once it is.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        *self.0.deadline() = deadline;
    }

    /// Signals are for a command, or not any more.
    pub fn set_command(&self, has_command: bool) {
        self.0.has_command.store(has_command, Ordering::Relaxed);
    }
}

/// The first reason to end.
#[derive(Debug, Clone, Copy)]
struct Wish {
    signal: Option<i32>,
    since: Instant,
}

/// A system call in which the thread waits: its line of `/proc`, and since when.
type Write = (String, Instant);

struct Watcher {
    signals: Signals,
    shared: Arc<Shared>,
    /// The thread that measures.
    task: Pid,
    has_duration: bool,
    wish: Option<Wish>,
    write: Option<Write>,
}

impl Watcher {
    fn watch(mut self) {
        capabilities::keep(&[]);
        loop {
            self.wait();
            self.hear();
            let Some(wish) = self.wish else {
                continue;
            };
            let has_command = self.shared.has_command.load(Ordering::Relaxed);
            let is_another = wish.signal.is_some() && wish.since.elapsed() >= ONE_WISH;
            if is_another && !has_command {
                self.shared.kills.store(true, Ordering::Relaxed);
            }
            if self.is_stalled() {
                end(wish.signal);
            }
            // A thread that does not wait hands the signal on, and may go on for long.
            if has_command && self.write.is_none() {
                self.wish = None;
            }
        }
    }

    /// Wait for a signal, or until there is something to look at.
    fn wait(&self) {
        let time = match (self.wish, *self.shared.deadline()) {
            (Some(_), _) => Some(LOOK),
            (None, Some(deadline)) => Some(deadline.saturating_duration_since(Instant::now())),
            (None, None) => self.has_duration.then_some(ASK),
        };
        let time =
            time.map(|time| PollTimeout::try_from(time.min(ASK)).unwrap_or(PollTimeout::MAX));
        let mut watched = [PollFd::new(
            self.signals.get_read().as_fd(),
            PollFlags::POLLIN,
        )];
        // After an error there is nothing to hear, and the next look comes at once.
        if poll(&mut watched, time.unwrap_or(PollTimeout::NONE)).is_err() {
            thread::sleep(LOOK);
        }
    }

    /// Note the first reason to end. A duration is over with what it limits.
    fn hear(&mut self) {
        let now = Instant::now();
        let signal = self.signals.pending().last().map(|origin| origin.signal);
        let is_late = self
            .shared
            .deadline()
            .is_some_and(|deadline| deadline <= now);
        self.wish = self.wish.filter(|wish| wish.signal.is_some() || is_late);
        if signal.is_some() || is_late {
            self.wish.get_or_insert(Wish { signal, since: now });
        }
    }

    /// Return true if the thread has been in one write since the wish, for too long.
    fn is_stalled(&mut self) -> bool {
        let now = Instant::now();
        let Some(call) = write_of(self.task) else {
            self.write = None;
            return false;
        };
        match &self.write {
            Some((same, since)) if *same == call => now.duration_since(*since) >= STALLED,
            _ => {
                self.write = Some((call, now));
                false
            }
        }
    }
}

/// Return the call of a thread of this process that waits for a reader: proc_pid_syscall(5). A file
/// on a disk needs none.
fn write_of(task: Pid) -> Option<String> {
    let call = fs::read_to_string(format!("/proc/self/task/{task}/syscall")).ok()?;
    let mut words = call.split_whitespace();
    let number = words.next()?.parse::<c_long>().ok()?;
    let descriptor = words.next()?.strip_prefix("0x")?;
    let descriptor = u32::from_str_radix(descriptor, 16).ok()?;
    if ![SYS_write, SYS_writev].contains(&number) {
        return None;
    }
    let kind = fs::metadata(format!("/proc/self/fd/{descriptor}"))
        .ok()?
        .file_type();
    (kind.is_fifo() || kind.is_char_device() || kind.is_socket()).then_some(call)
}

/// End the process, as the signal does where nobody catches it.
fn end(signal: Option<i32>) {
    complain_unless_full(
        "nobody reads the output: what was measured last is not in it, and not counted",
    );
    if let Some(signal) = signal {
        // It returns only after an error.
        let _ = emulate_default_handler(signal);
    }
    process::exit(1)
}
