//! Define the target options that subcommands share.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use sockstamp_run::target;

use super::filter::{FilterWords, HEADING};
use super::processes::Processes;

/// All interfaces, in the words of tcpdump(8).
const ANY: &str = "any";

/// Conditions on messages. All must hold.
#[derive(Debug, Args, Default)]
pub struct Target {
    /// The processes.
    #[command(flatten)]
    pub processes: Processes,
    /// Go on after the last process of --pid has ended
    #[arg(long, requires = "pids", help_heading = HEADING)]
    pub keep: bool,
    /// Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount
    /// point
    #[arg(long, value_name = "PATH", help_heading = HEADING)]
    pub cgroup: Option<PathBuf>,
    /// Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a
    /// prefix of id or name
    #[arg(
        long,
        value_name = "ID|NAME",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = HEADING,
    )]
    pub container: Option<String>,
    /// Sockets of these network namespaces: names of ip-netns(8), or processes in them
    #[arg(
        long,
        value_name = "NAME|PID",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = HEADING,
    )]
    pub netns: Vec<String>,
    /// Sockets whose route leaves by this interface, of this network namespace or that of --netns
    #[arg(
        short,
        long,
        value_name = "IFACE",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = HEADING,
    )]
    pub interface: Option<String>,
    /// Ignore connections that exist at the start
    #[arg(long, help_heading = HEADING)]
    pub new_only: bool,
    /// The filter expression.
    #[command(flatten)]
    pub filter: FilterWords,
}

impl Target {
    /// Return the conditions without the words of a command line.
    pub(crate) fn named(&self) -> target::Target {
        target::Target {
            pids: self.processes.pids.clone(),
            comms: self.processes.comms.clone(),
            cgroup: self.cgroup.clone(),
            container: self.container.clone(),
            netns: self.netns.clone(),
            interface: self.interface.clone().filter(|name| name != ANY),
            filter: self.filter.0.clone(),
        }
    }

    /// Look the names up.
    pub(crate) fn resolve(&self) -> anyhow::Result<sockstamp_bpf::Target> {
        let found = target::resolve(&self.named());
        let is_time = |name: &&String| name.parse::<f64>().is_ok();
        match self.interface.as_ref().filter(is_time) {
            Some(time) => found.map_err(|error| {
                anyhow!("{error:#}; for the time between looks: --interval {time}")
            }),
            None => found,
        }
    }
}
