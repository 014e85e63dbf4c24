//! The user's command: started in a cgroup of its own, signals passed on, its exit status ours.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cgroup::CommandCgroup;

/// The command could not be started.
#[derive(Debug)]
pub(crate) struct CannotRun {
    command: OsString,
    source: io::Error,
}

impl CannotRun {
    /// Return the status as shells and env(1) do.
    pub(crate) fn status(&self) -> u8 {
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
pub(crate) struct Prepared {
    cgroup: CommandCgroup,
    command: Command,
}

impl Prepared {
    /// Make the cgroup. `words` is not empty.
    pub(crate) fn new(words: &[OsString]) -> Result<Self> {
        let (program, arguments) = words.split_first().context("no command")?;
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(Self {
            cgroup: CommandCgroup::create()?,
            command,
        })
    }

    pub(crate) fn cgroup(&self) -> &Path {
        self.cgroup.path()
    }

    pub(crate) fn start(mut self) -> Result<Running> {
        let child = self
            .cgroup
            .spawn(&mut self.command)?
            .map_err(|source| CannotRun {
                command: self.command.get_program().to_owned(),
                source,
            })?;
        Ok(Running {
            child,
            _cgroup: self.cgroup,
        })
    }
}

/// The command while it runs.
pub(crate) struct Running {
    child: Child,
    _cgroup: CommandCgroup,
}

impl Running {
    /// Its status once it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot wait for the command")
    }

    /// Hand a signal on.
    pub(crate) fn signal(&self, signal: Signal) {
        // The process ids of Linux are positive i32; the child may have ended, which is no error.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// The command's exit status as ours: 128 + n if signal n ended it, as shells have it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}
