//! The life of a measurement: one loop for all that measure until their command, their duration, a
//! signal or they themselves end it.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::siginfo::Cause;

use crate::command::{Prepared, Running, Spent};
use crate::signals::{self, Signals};

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
    /// A signal has ended the measurement: the next one ends the process at once.
    interrupted: Arc<AtomicBool>,
}

impl Life {
    /// Catch the signals that end a measurement or that are for its command, and that of the
    /// command's end.
    ///
    /// # Errors
    ///
    /// If they cannot be caught.
    pub fn new(duration: Option<Duration>) -> Result<Self> {
        let interrupted = Arc::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_default(signal, Arc::clone(&interrupted))
                .context("cannot catch signals")?;
        }
        Ok(Self {
            interrupted,
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
        Ok(Some(prepared.cgroup().to_owned()))
    }

    /// Start the command, if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::start`].
    pub fn start(&mut self) -> Result<()> {
        self.running = self.prepared.take().map(Prepared::start).transpose()?;
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
        while round(self.left(), self.signals.get_read().as_fd())? && !self.is_over()? {}
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
        if let Some(running) = &mut self.running {
            self.status = running.ended()?;
        }
        if interrupted(&mut self.signals, self.running.as_ref()) {
            self.interrupted.store(true, Ordering::Relaxed);
            return Ok(true);
        }
        Ok(self.status.is_some())
    }

    /// Return true if a signal has ended the measurement.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
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
        let Some(running) = &mut self.running else {
            return Ok(None);
        };
        while self.status.is_none() {
            self.status = running.ended()?;
            if self.status.is_none() {
                wait(&self.signals)?;
                interrupted(&mut self.signals, Some(running));
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

/// Return true if a signal ends the measurement. With a command, signals are for the command: one
/// from the terminal has reached it already, any other is passed on.
fn interrupted(signals: &mut Signals, running: Option<&Running>) -> bool {
    for origin in signals.pending().filter(|origin| origin.signal != SIGCHLD) {
        let Some(running) = running else { return true };
        let from_terminal = origin.cause == Cause::Kernel;
        if let (false, Ok(signal)) = (from_terminal, Signal::try_from(origin.signal)) {
            running.signal(signal);
        }
    }
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
            std::thread::sleep(left.unwrap());
            Ok(true)
        })
        .unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20));

        let mut life = Life::new(None).unwrap();
        raise(Signal::SIGTERM).unwrap();
        life.last(|_, _| Ok(true)).unwrap();
        assert!(!life.has_ended() && life.is_interrupted());
        assert_eq!(life.outlive().unwrap(), None);
    }
}
