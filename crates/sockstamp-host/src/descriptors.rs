//! The descriptors of a process, as the kernel counts them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sockstamp_model::descriptors::Descriptors;

/// Look at a process; `None` if it is gone or its limit has no number.
#[must_use]
pub fn of(pid: u32) -> Option<Descriptors> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    Some(Descriptors {
        open: open(pid)?,
        limit: limit(&limits)?,
    })
}

/// Count them. The size of the directory is their number since v6.2 (fs/proc/fd.c,
/// proc_readfd_count()); before, it was 0.
fn open(pid: u32) -> Option<u64> {
    let directory = format!("/proc/{pid}/fd");
    match fs::metadata(&directory).ok()?.len() {
        0 => Some(fs::read_dir(&directory).ok()?.count() as u64),
        count => Some(count),
    }
}

fn limit(limits: &str) -> Option<u64> {
    let line = limits.lines();
    let soft = line.filter_map(|line| line.strip_prefix("Max open files"));
    soft.flat_map(str::split_ascii_whitespace)
        .next()?
        .parse()
        .ok()
}

/// Return true if a process has a socket open: both ends of a connection then wake its own tasks.
pub(crate) fn holds(process: &Path, inode: u64) -> bool {
    each_socket(process).any(|open| open == inode)
}

/// Return the inodes of the sockets that a process has open.
#[must_use]
pub fn sockets(process: &Path) -> BTreeSet<u64> {
    each_socket(process).collect()
}

fn each_socket(process: &Path) -> impl Iterator<Item = u64> {
    const MOST: usize = 1024;
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    let open = open
        .flatten()
        .take(MOST)
        .filter_map(|file| file.file_name().to_str()?.parse().ok());
    open.filter_map(move |fd| socket(process, fd))
}

/// Return the inode of the socket that a descriptor of a process is of.
pub(crate) fn socket(process: &Path, fd: u64) -> Option<u64> {
    let link: PathBuf = fs::read_link(process.join(format!("fd/{fd}"))).ok()?;
    let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn open_descriptors_are_counted() {
        let pid = std::process::id();
        let before = of(pid).unwrap();
        let files: Vec<_> = (0..50).map(|_| File::open("/dev/null").unwrap()).collect();
        let after = of(pid).unwrap();
        // Other tests open and close theirs.
        assert!(after.open >= before.open + 30, "{before:?}, {after:?}");
        assert_eq!(after.limit, before.limit);
        drop(files);
    }

    #[test]
    fn the_soft_limit_is_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max processes             63698                63698                processes\n\
                      Max open files            28                   1048576              files\n";
        assert_eq!(limit(limits), Some(28));
        assert_eq!(
            limit("Max open files            unlimited  unlimited  files\n"),
            None
        );
        assert_eq!(limit(""), None);
    }
}
