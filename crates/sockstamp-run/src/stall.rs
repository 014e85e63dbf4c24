//! The end of a program whose output nobody reads. The thread that measures waits in write(2)
//! then, where it hears of no signal and of no time: a thread of its own does.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::libc::{SYS_write, SYS_writev, c_long};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, gettid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::siginfo::Cause;
use signal_hook::low_level::{emulate_default_handler, exit};

use crate::capabilities::{self, Capability};
use crate::escape::{complain_unless_full, takes_more};
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
    /// The first process of the command while it runs.
    command: Mutex<Option<Pid>>,
    /// Makes room in the output, before the process is ended.
    relief: OnceLock<fn()>,
    /// Another signal ends the process at once.
    kills: Arc<AtomicBool>,
}

impl Shared {
    fn deadline(&self) -> MutexGuard<'_, Option<Instant>> {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self) -> MutexGuard<'_, Option<Pid>> {
        self.command.lock().unwrap_or_else(PoisonError::into_inner)
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
            is_relieved: false,
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

    /// Signals are for a command, which is about to start.
    pub fn expect_command(&self) {
        self.0.has_command.store(true, Ordering::Relaxed);
    }

    /// The command runs as this process; `None` once it has ended.
    pub fn set_command(&self, command: Option<Pid>) {
        *self.0.command() = command;
    }

    /// Before a write that never ends is the end of the process, make room by this once.
    pub fn relieve_by(&self, relief: fn()) {
        // A second one comes too late.
        let _ = self.0.relief.set(relief);
    }
}

/// The first reason to end.
#[derive(Debug, Clone, Copy)]
struct Wish {
    signal: Option<i32>,
    /// The terminal has sent the signal to the command, too.
    is_from_terminal: bool,
    since: Instant,
}

/// A wait of the thread for a reader: the line of `/proc` that shows it, and since when.
type Write = (String, Instant);

struct Watcher {
    signals: Signals,
    shared: Arc<Shared>,
    /// The thread that measures.
    task: Pid,
    has_duration: bool,
    wish: Option<Wish>,
    write: Option<Write>,
    is_relieved: bool,
}

impl Watcher {
    fn watch(mut self) {
        // A command may run as another user.
        capabilities::keep(&[Capability::CAP_KILL]);
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
                self.relieve_or_end(wish);
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
        let signal = self.signals.pending().last();
        let is_late = self
            .shared
            .deadline()
            .is_some_and(|deadline| deadline <= now);
        self.wish = self.wish.filter(|wish| wish.signal.is_some() || is_late);
        if signal.is_some() || is_late {
            self.wish.get_or_insert(Wish {
                is_from_terminal: signal
                    .as_ref()
                    .is_some_and(|origin| origin.cause == Cause::Kernel),
                signal: signal.map(|origin| origin.signal),
                since: now,
            });
        }
    }

    /// Make room once; end the process where that has not helped.
    fn relieve_or_end(&mut self, wish: Wish) {
        let relief = self.shared.relief.get().filter(|_| !self.is_relieved);
        if let Some(relief) = relief {
            relief();
            self.is_relieved = true;
            self.write = None;
            return;
        }
        complain_unless_full(
            "nobody reads the output: what was measured last is not in it, and not counted",
        );
        self.end_command(wish);
        end(wish.signal);
    }

    /// Hand the signal on to the command, as the thread that measures would. Report the command if
    /// it goes on without us.
    fn end_command(&self, wish: Wish) {
        let Some(command) = *self.shared.command() else {
            return;
        };
        let signal = wish.signal.and_then(|signal| Signal::try_from(signal).ok());
        if let Some(signal) = signal.filter(|_| !wish.is_from_terminal) {
            // An error: it has ended.
            let _ = kill(command, signal);
        }
        let handed_on = Instant::now();
        while !has_ended(command) {
            if handed_on.elapsed() >= ONE_WISH {
                complain_unless_full(format_args!("the command goes on: process {command}"));
                return;
            }
            thread::sleep(LOOK);
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

/// Return what shows that a thread of this process waits for a reader, which stays the same for as
/// long as it does.
fn write_of(task: Pid) -> Option<String> {
    match fs::read_to_string(format!("/proc/self/task/{task}/syscall")) {
        Ok(call) => is_for_a_reader(&call)?.then_some(call),
        // This file is root's where the process runs by file capabilities (proc(5)); others can
        // be read, and do not tell the descriptor.
        Err(_) => sleep_of(task).filter(|_| !takes_more(io::stdout())),
    }
}

/// Return true for a call that waits for a reader: proc_pid_syscall(5). A file on a disk needs
/// none.
fn is_for_a_reader(call: &str) -> Option<bool> {
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
    Some(kind.is_fifo() || kind.is_char_device() || kind.is_socket())
}

/// Return the count of a thread's sleeps while it sleeps, but not in one for a disk:
/// proc_pid_status(5).
fn sleep_of(task: Pid) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).ok()?;
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    line("State:\tS")?;
    line("voluntary_ctxt_switches:").map(str::to_owned)
}

/// Return true if a child of this process has ended, and leave it to the thread that waits for it.
fn has_ended(child: Pid) -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(child), look) != Ok(WaitStatus::StillAlive)
}

/// End the process, as the signal does where nobody catches it.
fn end(signal: Option<i32>) {
    if let Some(signal) = signal {
        // It returns only after an error.
        let _ = emulate_default_handler(signal);
    }
    // Without what std and libc do at the end: they would write what is in their buffers.
    exit(1)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::io::{PipeWriter, Read, Write, pipe};
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    const STALLS: &str = "SOCKSTAMP_TEST_STALLS";

    fn fill(mut output: impl AsFd + Write) {
        let set = |flags| fcntl(&output, FcntlArg::F_SETFL(flags)).unwrap();
        set(OFlag::O_NONBLOCK);
        while output.write(b"\n").is_ok() {}
        fcntl(&output, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    }

    /// Wait for the reader of one pipe, with words for that of another in a buffer of std's.
    fn stall() {
        let (_reader, mut writer): (_, PipeWriter) = pipe().unwrap();
        fill(&writer);
        fill(io::stdout());
        write!(io::stdout(), "a word").unwrap();
        let watch = Watch::begin(true, Arc::default()).unwrap();
        watch.set_deadline(Some(Instant::now()));
        writer.write_all(b"x").unwrap();
    }

    /// This test is two programs: the one that stalls, and the one that looks on.
    #[test]
    fn what_is_still_in_buffers_does_not_delay_the_end() {
        if env::var_os(STALLS).is_some() {
            return stall();
        }
        const NAME: &str = "stall::tests::what_is_still_in_buffers_does_not_delay_the_end";
        let mut stalls = Command::new(env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(STALLS, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let status = loop {
            match stalls.try_wait().unwrap() {
                None if begun.elapsed() < Duration::from_secs(60) => thread::sleep(LOOK),
                status => break status,
            }
        };
        stalls.kill().unwrap();
        let mut output = Vec::new();
        let mut read = stalls.stdout.take().unwrap();
        read.read_to_end(&mut output).unwrap();
        stalls.wait().unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(1));
        assert!(output.ends_with(b"\n"), "the word was written");
    }

    #[test]
    fn a_sleep_of_this_process_shows_where_its_calls_do_not() {
        let (reader, mut writer) = pipe().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let sleeps = thread::spawn(move || {
            tell.send(gettid()).unwrap();
            (&reader).read_exact(&mut [0]).unwrap();
            // Until the other end is closed.
            (&reader).read_to_end(&mut Vec::new()).unwrap();
        });
        let task = told.recv().unwrap();
        let sleep = || loop {
            if let Some(sleep) = sleep_of(task) {
                break sleep;
            }
        };
        let first = sleep();
        assert_eq!(sleep_of(task), Some(first.clone()));
        assert_eq!(write_of(task), None);
        writer.write_all(b"x").unwrap();
        while sleep() == first {}
        drop(writer);
        sleeps.join().unwrap();
        assert_eq!(sleep_of(task), None);
    }
}
