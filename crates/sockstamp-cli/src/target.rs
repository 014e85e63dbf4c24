//! Define the target options that subcommands share, and resolve names to numbers of the kernel.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use sockstamp_host::container::{self, Found};
use sockstamp_host::{cgroup, netns};

use crate::escape::complain;
use crate::filter::{FilterWords, HEADING};

/// Conditions on messages. All must hold.
#[derive(Debug, Args, Default)]
pub struct Target {
    /// Messages that these processes send or read, on connections they opened, listened for or hold
    /// at the start
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

/// Bytes of a process name: TASK_COMM_LEN of include/linux/sched.h, without the zero at its end.
const LONGEST_NAME: usize = 15;

fn process(text: &str) -> Result<u32, String> {
    let number = text.parse();
    number.map_err(|_| "a process is a number (--comm has names)".to_owned())
}

pub(crate) fn process_name(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a process has a name".to_owned()),
        1..=LONGEST_NAME => Ok(text.to_owned()),
        _ => {
            let whole_characters = (0..=LONGEST_NAME)
                .rev()
                .find(|&end| text.is_char_boundary(end));
            let kept = &text[..whole_characters.unwrap_or(0)];
            Err(format!(
                "the kernel keeps only {LONGEST_NAME} bytes of a process name; of this one, {kept:?}"
            ))
        }
    }
}

/// Return the names of which no process has one now.
pub(crate) fn names_without_process(comms: &[String]) -> Vec<&str> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names: HashSet<Vec<u8>> = processes
        .filter_map(|process| fs::read(process.path().join("comm")).ok())
        .map(|name| name.trim_ascii_end().to_owned())
        .collect();
    let missing = |comm: &&String| !names.contains(comm.as_bytes());
    comms.iter().filter(missing).map(String::as_str).collect()
}

/// Return the processes that have one of these names now.
pub(crate) fn processes_named(comms: &[String]) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let named = processes.filter(|process| {
        let name = fs::read(process.path().join("comm")).unwrap_or_default();
        comms
            .iter()
            .any(|comm| comm.as_bytes() == name.trim_ascii_end())
    });
    named
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}

/// Look the names up; nothing on the host is changed.
pub(crate) fn resolve(target: &Target) -> Result<sockstamp_bpf::Target> {
    let namespace = target.netns.as_deref();
    let interface = target.interface.as_deref();
    Ok(sockstamp_bpf::Target {
        filter: target.filter.0.clone(),
        cgroup: cgroup(target)?,
        pids: target.pids.clone(),
        comms: target.comms.clone(),
        netns: match (namespace, interface) {
            (Some(name), _) => Some(netns::named(name)?),
            // An index names an interface of one network namespace only.
            (None, Some(_)) => Some(netns::own()?),
            (None, None) => None,
        },
        interface: interface
            .map(|name| netns::interface_index(name, namespace))
            .transpose()?,
    })
}

/// Return true if sockets of other network namespaces are included.
pub(crate) fn is_elsewhere(target: &sockstamp_bpf::Target) -> Result<bool> {
    Ok(target.netns != Some(netns::own()?))
}

/// Return the inner one of the two cgroups that options name.
fn cgroup(target: &Target) -> Result<Option<PathBuf>> {
    let cgroup = target
        .cgroup
        .as_deref()
        .map(cgroup::directory)
        .transpose()?;
    let container = target.container.as_deref().map(container).transpose()?;
    Ok(match (cgroup, container) {
        (Some(cgroup), Some(container)) => Some(cgroup::inner(cgroup, container.cgroup)?),
        (cgroup, container) => cgroup.or(container.map(|container| container.cgroup)),
    })
}

/// Find a container, and warn if only a user calls it that.
pub(crate) fn container(wanted: &str) -> Result<Found> {
    let found = container::find(wanted)?;
    if found.claimed {
        complain(format_args!(
            "{wanted} is {}: a user or a container gave this name to a cgroup of its own",
            found.container
        ));
    }
    Ok(found)
}
