//! A run of the program to its end, and what it printed.

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use testbed::{Cgroup, Host, Link, LinkConfig};
use with::{number, sockstamp};

/// The output as text.
#[derive(Debug)]
pub struct Text {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Text {
    pub fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

/// The output as JSON.
#[derive(Debug)]
pub struct Json {
    pub status: i32,
    /// Probes, each once.
    pub probes: Vec<Value>,
    /// Late answers, duplicates, strays and ends.
    pub events: Vec<Value>,
    pub summary: Value,
}

impl Json {
    pub fn count(&self, name: &str) -> u64 {
        number(&self.summary["counts"][name])
    }

    pub fn counter(&self, name: &str) -> u64 {
        number(&self.summary["counters"][name])
    }

    /// Return the values of this name of all probes that have it.
    pub fn all(&self, name: &str) -> Vec<&Value> {
        self.probes
            .iter()
            .map(|probe| &probe[name])
            .filter(|value| !value.is_null())
            .collect()
    }
}

/// Two hosts, the second of which answers `delay` later in all.
pub fn delayed_hosts(delay: Duration) -> (Host, Host, Link) {
    let (prober, target) = (Host::new("prober").unwrap(), Host::new("target").unwrap());
    let link = Link::relay(&prober, &target, LinkConfig::default().delay(delay / 2)).unwrap();
    (prober, target, link)
}

/// `sockstamp ping` in a host.
pub fn ping(host: &Host, arguments: &[&str]) -> Command {
    let mut command = host.command(sockstamp());
    command.arg("ping").args(arguments);
    command
}

pub fn text(mut command: Command) -> Text {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    Text {
        status: status.code().unwrap(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

pub fn json(mut command: Command) -> Json {
    command.args(["--format", "json"]);
    let text = text(command);
    let mut lines: Vec<Value> = text
        .lines()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let last = lines.pop().unwrap_or_else(|| panic!("{}", text.stderr));
    assert!(last["summary"].is_object(), "{last}");
    let (events, probes) = lines
        .into_iter()
        .partition(|line| line["event"].is_string());
    Json {
        status: text.status,
        probes,
        events,
        summary: last["summary"].clone(),
    }
}

/// Do the same as [`json`], within a cgroup.
pub fn json_in(cgroup: &Cgroup, mut command: Command) -> Json {
    cgroup.start_in(&mut command).unwrap();
    json(command)
}
