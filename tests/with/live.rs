//! `sockstamp stat` and `trace` in the background, and what they report as JSON.

use std::fs;
use std::marker::PhantomData;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::NamedTempFile;
use testbed::{Host, Process};

use crate::background::{end, try_wait_attached, wait_attached};
use crate::messages::{is_connection, lines};
use crate::{hooks, messages, report, sockstamp};

/// The JSON of a subcommand that measures until it is ended.
pub trait Output {
    /// The subcommand.
    const SUBCOMMAND: &'static str;

    /// Read it from the file that the subcommand wrote.
    fn read(file: &Path) -> Self;
}

/// The report of `stat`.
impl Output for Value {
    const SUBCOMMAND: &'static str = "stat";

    fn read(file: &Path) -> Value {
        report(file)
    }
}

/// The messages of `trace`, whose stages add up.
impl Output for Vec<Value> {
    const SUBCOMMAND: &'static str = "trace";

    fn read(file: &Path) -> Vec<Value> {
        messages(file)
    }
}

/// A subcommand in the background.
#[derive(Debug)]
pub struct Live<T> {
    process: Process,
    output: NamedTempFile,
    of: PhantomData<fn() -> T>,
}

/// `sockstamp stat` in the background.
pub type Stat = Live<Value>;

/// `sockstamp trace` in the background.
pub type Trace = Live<Vec<Value>>;

impl<T: Output> Live<T> {
    /// Start it and return when it measures: every message from here on is in it.
    pub fn start(target: &[&str]) -> Self {
        Live::sampled("--every", target)
    }

    /// Start one per host, with the same filter, and load them side by side.
    pub fn start_in<const N: usize>(hosts: [&Host; N], filter: &[&str]) -> [Self; N] {
        let mut loading = hosts.map(|host| {
            let target = [&["--netns", host.netns_name()], filter].concat();
            Live::spawn(&options("--every"), &target)
        });
        for one in &mut loading {
            wait_attached(&mut one.process);
        }
        loading
    }

    /// Do the same as [`start`](Self::start), with an option for sampling.
    pub fn sampled(option: &str, target: &[&str]) -> Self {
        Live::try_start(option, target).unwrap()
    }

    /// Do the same as [`sampled`](Self::sampled); if it ends at once, return its error output.
    pub fn try_start(option: &str, target: &[&str]) -> Result<Self, String> {
        Live::with(&options(option), target)
    }

    /// Do the same as [`start`](Self::start), with no option but the target's: it keeps to its
    /// ceiling.
    pub fn by_default(target: &[&str]) -> Self {
        Live::with(&[], target).unwrap()
    }

    fn with(options: &[&str], target: &[&str]) -> Result<Self, String> {
        let mut loading = Live::spawn(options, target);
        try_wait_attached(&mut loading.process)?;
        Ok(loading)
    }

    /// Return at once: it measures later.
    fn spawn(options: &[&str], target: &[&str]) -> Self {
        let output = NamedTempFile::new().unwrap();
        let mut command = Command::new(sockstamp());
        command.arg(T::SUBCOMMAND).args(options);
        command.args(["--format", "json", "-o"]).arg(output.path());
        command.args(hooks()).args(target);
        Live {
            process: Process::spawn(command).unwrap(),
            output,
            of: PhantomData,
        }
    }

    /// End it as Ctrl-C does and return what it reports.
    pub fn finish(self) -> T {
        end(self.process);
        T::read(self.output.path())
    }
}

/// Known answers do not depend on how busy the machine is, unless a test is of that.
fn options(sampling: &str) -> Vec<&str> {
    let is_of_cost = ["--max-cost", "--expert=windows"]
        .iter()
        .any(|option| sampling.starts_with(option));
    match is_of_cost {
        true => vec![sampling],
        false => vec![sampling, "--max-cost=none"],
    }
}

impl Trace {
    /// Wait until it has shown so many messages of a direction, or for half a minute.
    pub fn wait_for(&self, direction: &str, count: usize) {
        self.wait_for_text(&format!(r#""direction":"{direction}""#), count);
    }

    /// Wait until it has shown this text so often, or for half a minute.
    pub fn wait_for_text(&self, wanted: &str, count: usize) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(30) {
            let shown = fs::read_to_string(self.output.path()).unwrap();
            if shown.matches(wanted).count() >= count {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// End it and return the connections that were opened and accepted.
    pub fn finish_connections(self) -> Vec<Value> {
        end(self.process);
        let mut all = lines(self.output.path());
        all.retain(is_connection);
        all
    }

    /// Do the same as [`finish`](Self::finish); if messages are missing because the reader of the
    /// ring had no processor in time, return its report.
    pub fn finish_whole(self) -> Result<Vec<Value>, String> {
        let errors = end(self.process).stderr();
        match errors.contains("could not be shown") {
            true => Err(errors),
            false => Ok(messages(self.output.path())),
        }
    }
}
