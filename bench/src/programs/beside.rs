//! The tools that run next to the programs.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::signal::Signal;
use testbed::Process;

use super::hosts::Hosts;
use super::output;
use crate::command;

/// Time to load programs and adopt sockets, and to print at the end.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    Tcpdump,
    Stat,
    StatBelow,
    StatServer,
    StatServerBelow,
    StatEvery,
    TraceEvery,
    Pcap,
}

impl Beside {
    pub(crate) const ALL: [Self; 9] = [
        Self::Nothing,
        Self::Tcpdump,
        Self::Stat,
        Self::StatBelow,
        Self::StatServer,
        Self::StatServerBelow,
        Self::StatEvery,
        Self::TraceEvery,
        Self::Pcap,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "off",
            Self::Tcpdump => "tcpdump",
            Self::Stat => "stat",
            Self::StatBelow => "stat-max-cost",
            Self::StatServer => "stat-p",
            Self::StatServerBelow => "stat-p-max-cost",
            Self::StatEvery => "stat-every",
            Self::TraceEvery => "trace-every",
            Self::Pcap => "pcap",
        }
    }

    /// Return true if it is `stat` at its default rate.
    pub(crate) fn is_stat(self) -> bool {
        matches!(self, Self::Stat | Self::StatServer) || self.has_ceiling()
    }

    /// Return true if it lowers its cost for a ceiling; until then the programs are not measured.
    pub(crate) fn has_ceiling(self) -> bool {
        matches!(self, Self::StatBelow | Self::StatServerBelow)
    }

    /// Start it, and wait until it sees packets or messages.
    pub(crate) fn start(self, hosts: &Hosts, server: u32) -> Result<Option<Tool>> {
        let Some(mut command) = self.command(hosts, server)? else {
            return Ok(None);
        };
        hosts.group.start_in(&mut command)?;
        let mut tool = Tool(Process::spawn(command)?);
        tool.wait_until(|process| match self {
            Self::Tcpdump => process.stderr().contains("listening on"),
            _ => is_lowered(process.id()),
        })?;
        Ok(Some(tool))
    }

    fn command(self, hosts: &Hosts, server: u32) -> Result<Option<Command>> {
        let sockstamp = |words: &[&str]| {
            let mut command = command::sockstamp()?;
            command.args(words);
            anyhow::Ok(Some(command))
        };
        match self {
            Self::Nothing => Ok(None),
            Self::Tcpdump => {
                let mut command = hosts.server().command("tcpdump");
                command.args(["-i", hosts.interface(), "-w", "/dev/null", "-s", "96"]);
                Ok(Some(command))
            }
            Self::Stat => sockstamp(&["stat"]),
            Self::StatBelow => sockstamp(&["stat", "--max-cost", "1%"]),
            Self::StatServer => sockstamp(&["stat", "-p", &server.to_string()]),
            Self::StatServerBelow => {
                sockstamp(&["stat", "-p", &server.to_string(), "--max-cost", "1%"])
            }
            Self::StatEvery => sockstamp(&["stat", "--every", "--max-cost=none"]),
            Self::TraceEvery => {
                let mut command = Command::new("sh");
                command.args([
                    "-c",
                    "exec \"$0\" trace --every --max-cost none > /dev/null",
                ]);
                command.arg(command::sockstamp()?.get_program());
                Ok(Some(command))
            }
            Self::Pcap => {
                let netns = hosts.server().netns_name();
                sockstamp(&[
                    "pcap",
                    "-w",
                    "/dev/null",
                    "--netns",
                    netns,
                    "-i",
                    hosts.interface(),
                ])
            }
        }
    }
}

/// A running one.
pub(crate) struct Tool(Process);

impl Tool {
    fn wait_until(&mut self, is_ready: impl Fn(&Process) -> bool) -> Result<()> {
        let began = Instant::now();
        while !is_ready(&self.0) {
            if !self.0.is_running()? {
                bail!("it ended before it was ready: {}", self.0.stderr());
            }
            if began.elapsed() > PATIENCE {
                bail!("it was not ready in time: {}", self.0.stderr());
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// End it, and return how many messages it lost.
    pub(crate) fn stop(mut self) -> Result<u32> {
        self.0.signal(Signal::SIGINT)?;
        let status = self.0.wait_status(PATIENCE)?;
        let errors = self.0.stderr();
        if !status.success() {
            bail!("it ended with {status}: {errors}");
        }
        Ok(output::lost(&errors))
    }
}

/// The capabilities of sockstamp are out of effect once it measures: proc_pid_status(5).
fn is_lowered(pid: u32) -> bool {
    /// include/uapi/linux/capability.h
    const NET_ADMIN: u64 = 1 << 12;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & NET_ADMIN == 0)
}
