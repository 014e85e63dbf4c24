//! From what the user names to what the kernel knows.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sockstamp_model::flow::NetnsInode;

use crate::{cgroup, cli};

/// Looks the names up; nothing on the host is changed.
pub(crate) fn resolve(target: &cli::Target) -> Result<sockstamp_bpf::Target> {
    Ok(sockstamp_bpf::Target {
        cgroup: target.cgroup.as_deref().map(cgroup_directory).transpose()?,
        pids: target.pids.clone(),
        netns: target.netns.as_deref().map(netns_inode).transpose()?,
    })
}

/// A directory as it stands, or below the cgroup2 mount.
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
    let named = Path::new("/run/netns").join(name);
    let of_process = Path::new("/proc").join(name).join("ns/net");
    let is_pid = name.parse::<u32>().is_ok();
    let path = if is_pid && !named.exists() {
        of_process
    } else {
        named
    };
    let inode = fs::metadata(&path)
        .with_context(|| format!("no network namespace {name} ({})", path.display()))?
        .ino();
    Ok(NetnsInode(
        u32::try_from(inode).context("the inode of a namespace has 32 bits")?,
    ))
}
