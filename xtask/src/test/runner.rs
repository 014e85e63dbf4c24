//! Run the commands of one step.

use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::Result;

use super::built::Built;
use super::child::{self, End, Limits};
use super::log::{Log, Times};
use crate::root::root;

/// The time that a test program may print nothing: what the longest test takes, some four times
/// over.
pub(super) const PATIENCE: Duration = Duration::from_secs(400);

/// The environment that commands of a step share.
#[derive(Debug)]
pub(super) struct Runner<'a> {
    pub(super) log: &'a mut Log,
    /// When the step is ended.
    pub(super) end: Instant,
    /// Use idle processors alone: any other task preempts these commands.
    pub(super) idle: bool,
    /// Leave a processor to others.
    pub(super) narrow: bool,
    /// The folder of programs that are built.
    pub(super) built: &'a Path,
    pub(super) programs: &'a Built,
    pub(super) times: Times,
}

impl Runner<'_> {
    pub(super) fn script(&mut self, text: &str) -> Result<End> {
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", text])
            .current_dir(root());
        self.run(command)
    }

    pub(super) fn run(&mut self, command: Command) -> Result<End> {
        self.run_until(command, None)
    }

    /// Run a test program, and keep the times of its tests.
    pub(super) fn run_test(&mut self, mut command: Command, title: &str) -> Result<End> {
        // Else each program that needs it calls cargo, and waits while another step builds.
        command.env("TESTBED_PEER", self.built.join("testbed-peer"));
        let end = self.run_until(command, Some(PATIENCE));
        let times = self.log.take_times().into_iter();
        self.times
            .extend(times.map(|(test, time)| (format!("{title} {test}"), time)));
        end
    }

    fn run_until(&mut self, mut command: Command, patience: Option<Duration>) -> Result<End> {
        if self.idle {
            command = idle(&command);
        }
        if self.narrow {
            let jobs = thread::available_parallelism().map_or(1, NonZero::get);
            let jobs = jobs.saturating_sub(1).max(1).to_string();
            command.envs([("CARGO_BUILD_JOBS", &jobs), ("RUST_TEST_THREADS", &jobs)]);
        }
        forget_own_package(&mut command);
        command.env("BUILT", self.built);
        let end = self.end;
        child::run(command, Limits { end, patience }, self.log)
    }
}

/// Remove what cargo has set for xtask itself, and what no command has of its own. The build script
/// of `ring` runs again where these differ: a build beside live tests would then replace the
/// program that they start.
pub(super) fn forget_own_package(command: &mut Command) {
    let of_package =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    let foreign: Vec<_> = env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_str().is_some_and(of_package))
        .filter(|name| !command.get_envs().any(|(own, _)| own == name))
        .collect();
    for name in foreign {
        command.env_remove(name);
    }
}

/// Wrap a command by chrt(1).
fn idle(command: &Command) -> Command {
    let mut wrapped = Command::new("chrt");
    wrapped
        .args(["--idle", "0"])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}
