//! Define the target options that subcommands share, and resolve names to numbers of the kernel.

use std::collections::HashSet;
use std::fs::{self, File};
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use sockstamp_model::flow::NetnsInode;

use crate::filter::{FilterWords, HEADING};
use crate::{cgroup, container};

/// Conditions on messages. All must hold.
#[derive(Debug, Args, Default)]
pub struct Target {
    /// Messages that these processes send or read, on connections they opened, listened for or hold
    /// at the start
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',', help_heading = HEADING)]
    pub pids: Vec<u32>,
    /// The same, for processes of this name (as ps -C), including those that start later
    #[arg(long = "comm", value_name = "NAME", value_delimiter = ',', value_parser = process_name, help_heading = HEADING)]
    pub comms: Vec<String>,
    /// Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount
    /// point
    #[arg(long, value_name = "PATH", help_heading = HEADING)]
    pub cgroup: Option<PathBuf>,
    /// Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a
    /// prefix of id or name
    #[arg(long, value_name = "ID|NAME", value_parser = NonEmptyStringValueParser::new(), help_heading = HEADING)]
    pub container: Option<String>,
    /// Sockets of this network namespace: a name of ip-netns(8), or a process in it
    #[arg(long, value_name = "NAME|PID", help_heading = HEADING)]
    pub netns: Option<String>,
    /// Sockets whose route leaves by this interface, of this network namespace or that of --netns
    #[arg(short, long, value_name = "IFACE", help_heading = HEADING)]
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

fn process_name(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a process has a name".to_owned()),
        ..=LONGEST_NAME => Ok(text.to_owned()),
        _ => {
            let whole_characters = (0..=LONGEST_NAME).rev().find(|&end| text.is_char_boundary(end));
            let kept = &text[..whole_characters.unwrap_or(0)];
            Err(format!(
                "the kernel keeps {LONGEST_NAME} bytes of a process name; of this one: {kept:?}"
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

/// Look the names up; nothing on the host is changed.
pub(crate) fn resolve(target: &Target) -> Result<sockstamp_bpf::Target> {
    let netns = target.netns.as_deref();
    let interface = target.interface.as_deref();
    Ok(sockstamp_bpf::Target {
        filter: target.filter.0.clone(),
        cgroup: cgroup(target)?,
        pids: target.pids.clone(),
        comms: target.comms.clone(),
        netns: match (netns, interface) {
            (Some(name), _) => Some(netns_inode(name)?),
            // An index names an interface of one network namespace only.
            (None, Some(_)) => Some(own_netns()?),
            (None, None) => None,
        },
        interface: interface.map(|name| interface_index(name, netns)).transpose()?,
    })
}

/// Return true if sockets of other network namespaces are included.
pub(crate) fn is_elsewhere(target: &sockstamp_bpf::Target) -> Result<bool> {
    Ok(target.netns != Some(own_netns()?))
}

/// Return the inner one of the two cgroups that options name.
fn cgroup(target: &Target) -> Result<Option<PathBuf>> {
    let cgroup = target.cgroup.as_deref().map(cgroup_directory).transpose()?;
    let container = target
        .container
        .as_deref()
        .map(container::cgroup_of)
        .transpose()?;
    Ok(match (cgroup, container) {
        (Some(cgroup), Some(container)) => Some(container::inner(cgroup, container)?),
        (cgroup, container) => cgroup.or(container),
    })
}

/// Resolve a directory as it is, or below the cgroup2 mount.
fn cgroup_directory(path: &Path) -> Result<PathBuf> {
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    let below = path.strip_prefix("/").unwrap_or(path);
    let directory = cgroup::root()?.join(below);
    fs::metadata(&directory).with_context(|| format!("no cgroup {}", path.display()))?;
    Ok(directory)
}

fn netns_inode(name: &str) -> Result<NetnsInode> {
    inode(&existing_netns(name)?)
}

/// Return the file of an existing namespace.
pub(crate) fn existing_netns(name: &str) -> Result<PathBuf> {
    let path = netns_path(name);
    fs::metadata(&path).with_context(|| format!("no network namespace {name} ({})", path.display()))?;
    Ok(path)
}

fn own_netns() -> Result<NetnsInode> {
    inode(Path::new("/proc/self/ns/net")).context("cannot look at our own network namespace")
}

fn netns_path(name: &str) -> PathBuf {
    let named = Path::new("/run/netns").join(name);
    let is_pid = name.parse::<u32>().is_ok();
    if is_pid && !named.exists() {
        Path::new("/proc").join(name).join("ns/net")
    } else {
        named
    }
}

fn inode(path: &Path) -> Result<NetnsInode> {
    let inode = fs::metadata(path)?.ino();
    Ok(NetnsInode(
        u32::try_from(inode).context("the inode of a namespace has 32 bits")?,
    ))
}

pub(crate) fn interface_index(name: &str, netns: Option<&str>) -> Result<NonZeroU32> {
    let Some(netns) = netns else {
        return index_here(name);
    };
    let file = File::open(netns_path(netns)).with_context(|| format!("no network namespace {netns}"))?;
    // Enter the namespace with a thread that ends with this question, not with the whole process.
    thread::scope(|scope| scope.spawn(|| index_in(name, file)).join())
        .unwrap_or_else(|_| Err(anyhow!("the thread that looked is gone")))
        .with_context(|| format!("in network namespace {netns}"))
}

fn index_in(name: &str, netns: File) -> Result<NonZeroU32> {
    setns(netns, CloneFlags::CLONE_NEWNET).context("cannot enter it, which needs CAP_SYS_ADMIN")?;
    index_here(name)
}

fn index_here(name: &str) -> Result<NonZeroU32> {
    let index = if_nametoindex(name).with_context(|| format!("no interface {name}"))?;
    NonZeroU32::new(index).context("the kernel counts interfaces from 1")
}
