//! The user's command: started in a cgroup of its own, signals passed on, its exit status ours.

mod cgroup;
mod spent;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::cgroup::CommandCgroup;

pub use self::cgroup::remove as remove_cgroup;
pub use self::spent::Spent;

/// The command could not be started.
#[derive(Debug)]
pub struct CannotRun {
    command: OsString,
    source: io::Error,
}

impl CannotRun {
    /// Return the status as shells and env(1) do.
    #[must_use]
    pub fn status(&self) -> u8 {
        if self.source.kind() == io::ErrorKind::NotFound {
            127
        } else {
            126
        }
    }
}

impl std::fmt::Display for CannotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot run {}: {}", self.command.display(), self.source)
    }
}

impl std::error::Error for CannotRun {}

/// The command's place, ready before the command runs.
#[derive(Debug)]
pub struct Prepared {
    cgroup: CommandCgroup,
    command: Command,
}

impl Prepared {
    /// Make the cgroup. `words` is not empty.
    ///
    /// # Errors
    ///
    /// If there is no cgroup2, or none can be made in ours.
    pub fn new(words: &[OsString]) -> Result<Self> {
        let (program, arguments) = words.split_first().context("no command")?;
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(Self {
            cgroup: CommandCgroup::create()?,
            command,
        })
    }

    /// Return the directory of the cgroup.
    #[must_use]
    pub fn cgroup(&self) -> &Path {
        self.cgroup.path()
    }

    /// Start the command.
    ///
    /// # Errors
    ///
    /// [`CannotRun`], or if the cgroup cannot be entered.
    pub fn start(mut self) -> Result<Running> {
        let child = self
            .cgroup
            .spawn(&mut self.command)?
            .map_err(|source| CannotRun {
                command: self.command.get_program().to_owned(),
                source,
            })?;
        Ok(Running {
            child,
            first: spent::Task::default(),
            cgroup: self.cgroup,
        })
    }
}

/// The command while it runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// The counters of its first task when they were read last.
    first: spent::Task,
    cgroup: CommandCgroup,
}

impl Running {
    /// Return its status once it has ended.
    ///
    /// # Errors
    ///
    /// If it cannot be waited for.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if let Some(counters) = spent::Task::of_process(self.child.id()) {
            self.first = counters;
        }
        self.child.try_wait().context("cannot wait for the command")
    }

    /// Return the time that it has spent on CPUs; `None` where the kernel does not tell.
    #[must_use]
    pub fn spent(&self) -> Option<Spent> {
        Spent::of_cgroup(self.cgroup.path(), self.first)
    }

    /// Return its first process.
    #[must_use]
    pub fn process(&self) -> Pid {
        // The process ids of Linux are positive i32.
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Return true if its first process ignores a signal.
    #[must_use]
    pub fn ignores(&self, signal: Signal) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        status.is_ok_and(|status| is_ignored(&status, signal))
    }

    /// Hand a signal on.
    pub fn signal(&self, signal: Signal) {
        // The command may have ended, which is no error.
        let _ = kill(self.process(), signal);
    }
}

/// Return true if `/proc/PID/status` has the bit of a signal among those ignored: task_sig(),
/// fs/proc/array.c.
fn is_ignored(status: &str, signal: Signal) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}

/// Return the command's exit status as ours: 128 + n if signal n ended it, as shells have it.
#[must_use]
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_bits_from_the_first_on() {
        let status =
            "SigBlk:\t0000000000000002\nSigIgn:\t0000000000001002\nSigCgt:\t0000000000000004\n";
        let ignored = |signal| is_ignored(status, signal);
        assert!(ignored(Signal::SIGINT) && ignored(Signal::SIGPIPE));
        assert!(!ignored(Signal::SIGQUIT) && !ignored(Signal::SIGHUP));
        assert!(!is_ignored("Name:\tcat\n", Signal::SIGINT));
    }
}
