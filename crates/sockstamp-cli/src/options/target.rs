//! Define the target options that subcommands share.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use sockstamp_run::target::{self, process_name};

use crate::options::filter::{FilterWords, HEADING};

/// Conditions on messages. All must hold.
#[derive(Debug, Args, Default)]
pub struct Target {
    /// Messages that these processes send or read, on connections they opened, listened for or hold
    /// at the start; the end of the last one ends the measurement
    #[arg(
        short,
        long = "pid",
        value_name = "PID",
        value_delimiter = ',',
        value_parser = process,
        help_heading = HEADING,
    )]
    pub pids: Vec<u32>,
    /// The same, for processes of this name (as ps -C), including those that start later
    #[arg(
        long = "comm",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = process_name,
        help_heading = HEADING,
    )]
    pub comms: Vec<String>,
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
    /// Sockets of this network namespace: a name of ip-netns(8), or a process in it
    #[arg(
        long,
        value_name = "NAME|PID",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = HEADING,
    )]
    pub netns: Option<String>,
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
            pids: self.pids.clone(),
            comms: self.comms.clone(),
            cgroup: self.cgroup.clone(),
            container: self.container.clone(),
            netns: self.netns.clone(),
            interface: self.interface.clone(),
            filter: self.filter.0.clone(),
        }
    }

    /// Look the names up.
    pub(crate) fn resolve(&self) -> anyhow::Result<sockstamp_bpf::Target> {
        target::resolve(&self.named())
    }
}

pub(super) fn process(text: &str) -> Result<u32, String> {
    let number = text.parse();
    number.map_err(|_| "a process is a number (--comm has names)".to_owned())
}
