//! The target of a measurement: by the names of users, and by the numbers of the kernel.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};
use sockstamp_host::container::{self, Found};
use sockstamp_host::netns::Held;
use sockstamp_host::{cgroup, netns};
use sockstamp_model::filter::Filter;

use crate::escape::complain;

/// Conditions on messages, as users name them. All must hold.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// Messages that these processes send or read.
    pub pids: Vec<u32>,
    /// The same, for processes of these names.
    pub comms: Vec<String>,
    /// Sockets made in this cgroup or below: a directory, or a path from the mount point.
    pub cgroup: Option<PathBuf>,
    /// Sockets of this container or systemd service, by a prefix of id or name.
    pub container: Option<String>,
    /// Sockets of these network namespaces, each a name of ip-netns(8) or a process in it; empty:
    /// of any.
    pub netns: Vec<String>,
    /// Sockets whose route leaves by this interface.
    pub interface: Option<String>,
    /// Flows that match.
    pub filter: Option<Filter>,
}

/// Bytes of a process name: TASK_COMM_LEN of include/linux/sched.h, without the zero at its end.
const LONGEST_NAME: usize = 15;

/// Read the name of a process.
///
/// # Errors
///
/// If it is empty, or longer than the kernel keeps.
pub fn process_name(text: &str) -> Result<String, String> {
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
#[must_use]
pub fn names_without_process(comms: &[String]) -> Vec<&str> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names: HashSet<Vec<u8>> = processes
        .filter_map(|process| fs::read(process.path().join("comm")).ok())
        .map(|name| name.trim_ascii_end().to_owned())
        .collect();
    let missing = |comm: &&String| !names.contains(comm.as_bytes());
    comms.iter().filter(missing).map(String::as_str).collect()
}

/// Return the processes that have none of these names now, with the names that they have.
#[must_use]
pub fn with_other_names(pids: &[u32], comms: &[String]) -> Vec<(u32, String)> {
    let named = pids.iter().filter_map(|&pid| {
        let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
        let name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        (!comms.contains(&name)).then_some((pid, name))
    });
    named.collect()
}

/// Return the processes that have one of these names now.
#[must_use]
pub fn processes_named(comms: &[String]) -> Vec<u32> {
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
///
/// # Errors
///
/// If a name means nothing on this host, or several things.
pub fn resolve(target: &Target) -> Result<sockstamp_bpf::Target> {
    const MOST: usize = sockstamp_bpf::Target::MOST_NAMESPACES;
    let interface = target.interface.as_deref();
    let names = &target.netns;
    if names.len() > MOST {
        bail!("name up to {MOST} network namespaces, not {}", names.len());
    }
    if interface.is_some() && names.len() > 1 {
        bail!("--interface names one of a single network namespace: leave one --netns");
    }
    let held: Vec<_> = names
        .iter()
        .map(|name| netns::hold(name))
        .collect::<Result<_>>()?;
    Ok(sockstamp_bpf::Target {
        filter: target.filter.clone(),
        cgroup: cgroup(target)?,
        pids: target.pids.clone(),
        comms: target.comms.clone(),
        netns: match (&held[..], interface) {
            // An index names an interface of one network namespace only.
            ([], Some(_)) => vec![netns::own()?],
            (held, _) => held.iter().map(Held::inode).collect(),
        },
        held,
        interface: interface
            .map(|name| netns::interface_index(name, names.first().map(String::as_str)))
            .transpose()?,
    })
}

/// Return true if sockets of other network namespaces are included.
///
/// # Errors
///
/// If our own namespace cannot be read.
pub fn is_elsewhere(target: &sockstamp_bpf::Target) -> Result<bool> {
    Ok(target.netns != [netns::own()?])
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
///
/// # Errors
///
/// If there is none, or several.
pub fn container(wanted: &str) -> Result<Found> {
    let found = container::find(wanted)?;
    if found.claimed {
        complain(format_args!(
            "{wanted} is {}: a user or a container gave this name to a cgroup of its own",
            found.container
        ));
    }
    Ok(found)
}
