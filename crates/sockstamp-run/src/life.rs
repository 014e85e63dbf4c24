//! The life of a measurement: one loop for all that measure until their command, their duration, a
//! signal or they themselves end it.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::command::{Prepared, Running, Spent};
use crate::escape::complain;
use crate::signals::{self, Signals};
use crate::stall::{ONE_WISH, Watch};

/// The end of a measurement.
#[derive(Debug)]
pub struct Life {
    signals: Signals,
    duration: Option<Duration>,
    deadline: Option<Instant>,
    prepared: Option<Prepared>,
    running: Option<Running>,
    /// The command's status, if it has ended during the measurement.
    status: Option<ExitStatus>,
    /// A signal has ended the measurement.
    is_interrupted: bool,
    /// When a Ctrl-C came first that the command ignores.
    ignored: Option<Instant>,
    /// Another signal ends the process at once.
    kills: Arc<AtomicBool>,
    /// Ends the process where this thread cannot.
    watch: Watch,
}

impl Life {
    /// Catch the signals that end a measurement or that are for its command, and that of the
    /// command's end.
    ///
    /// # Errors
    ///
    /// If they cannot be caught.
    pub fn new(duration: Option<Duration>) -> Result<Self> {
        let kills = Arc::<AtomicBool>::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_default(signal, Arc::clone(&kills))
                .context("cannot catch signals")?;
        }
        Ok(Self {
            watch: Watch::begin(duration.is_some(), Arc::clone(&kills))?,
            is_interrupted: false,
            ignored: None,
            kills,
            signals: signals::catch(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD])?,
            duration,
            deadline: None,
            prepared: None,
            running: None,
            status: None,
        })
    }

    /// Make the cgroup of a command, and return it; without words there is no command.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::new`].
    pub fn prepare(&mut self, words: &[OsString]) -> Result<Option<PathBuf>> {
        if words.is_empty() {
            return Ok(None);
        }
        let prepared = self.prepared.insert(Prepared::new(words)?);
        self.watch.expect_command();
        Ok(Some(prepared.cgroup().to_owned()))
    }

    /// Start the command, if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::start`].
    pub fn start(&mut self) -> Result<()> {
        self.running = self.prepared.take().map(Prepared::start).transpose()?;
        self.watch
            .set_command(self.running.as_ref().map(Running::process));
        Ok(())
    }

    /// Go round until the end. A round waits no longer than the time that it gets, and only until
    /// the descriptor can be read; it returns false to end the measurement.
    ///
    /// # Errors
    ///
    /// Those of a round, or if the command cannot be waited for.
    pub fn last(
        &mut self,
        mut round: impl FnMut(Option<Duration>, BorrowedFd<'_>) -> Result<bool>,
    ) -> Result<()> {
        self.deadline = self.duration.map(|duration| Instant::now() + duration);
        self.watch.set_deadline(self.deadline);
        while round(self.left(), self.signals.get_read().as_fd())? && !self.is_over()? {}
        // What is left to print may wait for a reader: nothing is measured any more.
        self.watch.set_deadline(None);
        Ok(())
    }

    /// Return the time that is left, if it is limited.
    fn left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    fn is_over(&mut self) -> Result<bool> {
        if self.left().is_some_and(|left| left.is_zero()) {
            return Ok(true);
        }
        self.look_at_command()?;
        if self.interrupted() {
            self.interrupt();
            return Ok(true);
        }
        Ok(self.status.is_some())
    }

    /// Note whether the command has ended; its number may be another's then.
    fn look_at_command(&mut self) -> Result<()> {
        if let Some(running) = &mut self.running {
            self.status = running.ended()?;
        }
        if self.status.is_some() {
            self.watch.set_command(None);
        }
        Ok(())
    }

    /// Return true if a signal ends the measurement. With a command, signals are for the command:
    /// one from the terminal has reached it already, any other is passed on. A second Ctrl-C that
    /// the command ignores is for the measurement.
    fn interrupted(&mut self) -> bool {
        let Some(running) = &self.running else {
            return self
                .signals
                .pending()
                .any(|origin| origin.signal != SIGCHLD);
        };
        let mut ends = false;
        for origin in self.signals.pending() {
            if origin.signal == SIGINT && running.ignores(Signal::SIGINT) {
                ends |= is_second(&mut self.ignored);
            }
            pass_on(&origin, running);
        }
        ends
    }

    /// The measurement ends by a signal; a later wish to end is for what is still to be done.
    fn interrupt(&mut self) {
        self.is_interrupted = true;
        let kills = Arc::clone(&self.kills);
        let later = move || {
            thread::sleep(ONE_WISH);
            kills.store(true, Ordering::Relaxed);
        };
        // Without room for a thread, the next signal ends the process.
        if thread::Builder::new().spawn(later).is_err() {
            self.kills.store(true, Ordering::Relaxed);
        }
    }

    /// Return true if a signal has ended the measurement.
    #[must_use]
    pub const fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Return true if the command has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.status.is_some()
    }

    /// Return the time that the command has spent on CPUs, if there is one and the kernel tells.
    #[must_use]
    pub fn spent(&self) -> Option<Spent> {
        self.running.as_ref().and_then(Running::spent)
    }

    /// Wait for the command, if the measurement did not last for it, and return its status; signals
    /// are still its.
    ///
    /// # Errors
    ///
    /// If it cannot be waited for.
    pub fn outlive(mut self) -> Result<Option<ExitStatus>> {
        while self.status.is_none() {
            self.look_at_command()?;
            let (Some(running), None) = (&self.running, self.status) else {
                break;
            };
            if self.is_interrupted {
                complain(format_args!(
                    "the command goes on: process {}",
                    running.process()
                ));
                return Ok(None);
            }
            wait(&self.signals)?;
            if self.interrupted() {
                self.interrupt();
            }
        }
        Ok(self.status)
    }
}

/// Wait for a signal.
fn wait(signals: &Signals) -> Result<()> {
    let mut watched = [PollFd::new(signals.get_read().as_fd(), PollFlags::POLLIN)];
    match poll(&mut watched, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno).context("cannot wait for the command"),
    }
}

/// Hand a signal on, unless the terminal has sent it to the command, too.
fn pass_on(origin: &Origin, running: &Running) {
    let from_terminal = origin.cause == Cause::Kernel;
    if let (false, Ok(signal)) = (from_terminal, Signal::try_from(origin.signal)) {
        running.signal(signal);
    }
}

/// Note a Ctrl-C that the command ignores. Return true if an earlier one was another wish.
fn is_second(first: &mut Option<Instant>) -> bool {
    if let Some(first) = first {
        return first.elapsed() >= ONE_WISH;
    }
    *first = Some(Instant::now());
    complain(
        "the command ignores Ctrl-C; another one ends the measurement, and leaves the command",
    );
    false
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::raise;

    use super::*;

    /// Signals are the whole process's: the ways to end are one test.
    #[test]
    fn a_life_ends_by_its_round_its_duration_or_a_signal() {
        let mut rounds = 0;
        let mut life = Life::new(None).unwrap();
        life.last(|left, _| {
            rounds += 1;
            assert_eq!(left, None);
            Ok(rounds < 3)
        })
        .unwrap();
        assert_eq!(rounds, 3);

        let began = Instant::now();
        let mut life = Life::new(Some(Duration::from_millis(20))).unwrap();
        life.last(|left, _| {
            thread::sleep(left.unwrap());
            Ok(true)
        })
        .unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20));

        let mut life = Life::new(None).unwrap();
        raise(Signal::SIGTERM).unwrap();
        life.last(|_, _| Ok(true)).unwrap();
        assert!(!life.has_ended() && life.is_interrupted());
        // The same wish to end, told twice, kills nothing.
        raise(Signal::SIGINT).unwrap();
        let kills = Arc::clone(&life.kills);
        let began = Instant::now();
        while !kills.load(Ordering::Relaxed) {
            assert!(began.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
        assert!(began.elapsed() >= ONE_WISH / 2);
        assert_eq!(life.outlive().unwrap(), None);
    }
}
