//! The cgroup2 hierarchy, and directories in it.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use sockstamp_model::name::Name;

/// Directories that one walk of the hierarchy should come to. Any user with a cgroup may make more
/// in it.
pub const DIRECTORIES: usize = 16_384;

/// Return where this process sees the hierarchy, or else a private mount of our own: for the
/// commands that it runs, ip-netns(8) mounts a /sys without the mounts below it. Only this process
/// sees such a path.
#[must_use]
pub fn mount() -> Option<PathBuf> {
    let mounts = fs::read("/proc/self/mounts").ok()?;
    parse(&mounts).or_else(|| {
        static DETACHED: OnceLock<Option<OwnedFd>> = OnceLock::new();
        let mount = DETACHED.get_or_init(|| detached().ok()).as_ref()?;
        Some(format!("/proc/self/fd/{}", mount.as_raw_fd()).into())
    })
}

/// Mount it privately: that needs CAP_SYS_ADMIN, and ends with its descriptor (fsmount(2)).
fn detached() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )
}

/// Parse bytes: a user's own mounts are listed too (fusermount3(1)), at paths of any name.
fn parse(mounts: &[u8]) -> Option<PathBuf> {
    mounts.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        let path = (kind == b"cgroup2").then(|| str::from_utf8(path).ok())??;
        Some(path.replace("\\040", " ").into())
    })
}

/// Return whether `path` is a directory of a cgroup2 file system.
#[must_use]
pub fn is_cgroup2(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

/// Return the root of the hierarchy.
///
/// # Errors
///
/// If it is not mounted, and cannot be.
pub fn root() -> Result<PathBuf> {
    mount().context("no cgroup2 file system is mounted: try `mount -t cgroup2 none /sys/fs/cgroup`")
}

/// Find a directory by this path, or below the root.
///
/// # Errors
///
/// If it is neither.
pub fn directory(path: &Path) -> Result<PathBuf> {
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    let below = path.strip_prefix("/").unwrap_or(path);
    let directory = root()?.join(below);
    fs::metadata(&directory).with_context(|| format!("no cgroup {}", path.display()))?;
    Ok(directory)
}

/// Return the one that is within the other: a socket is in both only there.
///
/// # Errors
///
/// If neither is below the other.
pub fn inner(one: PathBuf, other: PathBuf) -> Result<PathBuf> {
    let canonical = |path: &Path| {
        fs::canonicalize(path).with_context(|| format!("cannot find the cgroup {}", path.display()))
    };
    let (first, second) = (canonical(&one)?, canonical(&other)?);
    if first.starts_with(&second) {
        Ok(one)
    } else if second.starts_with(&first) {
        Ok(other)
    } else {
        bail!(
            "no socket is in both {} and {}: neither cgroup is below the other",
            one.display(),
            other.display()
        )
    }
}

/// Find the paths of these cgroups in a walk of at most this many directories. A cgroup's number is
/// the inode of its directory (`kernfs_ino()`, include/linux/kernfs.h, v6.18).
///
/// Directories of the hierarchy's owner come first, those near the root before others: users' own
/// cannot hide them. One that is not found has no path.
#[must_use]
pub fn paths(
    root: &Path,
    mut wanted: BTreeSet<u64>,
    mut directories: usize,
) -> Vec<(u64, Option<Name>)> {
    let Ok(top) = fs::metadata(root) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if wanted.remove(&top.ino()) {
        found.push((top.ino(), Some("/".into())));
    }
    let (mut owned, mut others) = (VecDeque::from([root.to_owned()]), VecDeque::new());
    while let Some(directory) = owned.pop_front().or_else(|| others.pop_front()) {
        // Skip a directory that went away meanwhile: it has nothing below it.
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for entry in below.take(directories) {
            let path = entry.path();
            if wanted.remove(&entry.ino()) {
                let name = Path::new("/").join(path.strip_prefix(root).unwrap_or(&path));
                found.push((entry.ino(), Some(name.as_os_str().into())));
            }
            directories -= 1;
            let is_owned = entry.metadata().is_ok_and(|entry| entry.uid() == top.uid());
            if is_owned { &mut owned } else { &mut others }.push_back(path);
        }
        if directories == 0 || wanted.is_empty() {
            break;
        }
    }
    found.extend(wanted.into_iter().map(|id| (id, None)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup2_mount_is_found_beside_version_1() {
        let mounts = b"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                       cgroup2 /sys/fs/cgroup/my\\040unified cgroup2 rw 0 0\n";
        assert_eq!(parse(mounts), Some("/sys/fs/cgroup/my unified".into()));
        assert_eq!(parse(b"proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn a_users_mount_hides_the_hierarchy_by_no_name() {
        let mounts = b"cgroup2 /home/user/\xff\xfe fuse.cgroup2 rw,user_id=1000 0 0\n\
                       cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(parse(mounts), Some("/sys/fs/cgroup".into()));
    }
}
