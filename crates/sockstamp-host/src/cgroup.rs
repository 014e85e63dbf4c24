//! The cgroup2 hierarchy, and directories in it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use sockstamp_model::container::{Container, container_of};
use sockstamp_model::name::Name;

use crate::mounts::{self, Mount};
use crate::walk::walk;

/// Directories that one walk of the hierarchy should come to. Any user with a cgroup may make more
/// in it.
pub const DIRECTORIES: usize = 16_384;

/// A cgroup as a walk of the hierarchy finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// The path from the root of the hierarchy.
    pub path: Name,
    /// The container or service that it belongs to. Its user is the one that could choose the name
    /// of its cgroup.
    pub container: Option<Container>,
}

/// Properties that a cgroup has from its own directory and those before it.
#[derive(Debug, Clone, Default)]
struct Place {
    /// The container of the path.
    named: Option<Container>,
    /// The same, with the user that claims it.
    container: Option<Container>,
    /// The user that may make cgroups here: delegation is the ownership of a directory
    /// (cgroups(7), "Cgroups delegation: delegating a hierarchy to a less privileged user").
    user: Option<u32>,
}

impl Place {
    /// Go to a cgroup here. Whoever may make cgroups here has chosen its name, not its owner.
    fn below(&self, path: &Path, owner: Option<u32>) -> Self {
        let named = container_of(path.as_os_str().as_bytes());
        let container = match named == self.named {
            true => self.container.clone(),
            false => named.clone().map(|named| Container {
                user: named.user.or(self.user),
                ..named
            }),
        };
        Self {
            named,
            container,
            user: self.user.or(owner),
        }
    }
}

/// Return the container or service of the cgroup at a path from the root, as [`paths`] does; `None`
/// if it is gone.
#[must_use]
pub fn container_at(root: &Path, path: &[u8]) -> Option<Container> {
    let hierarchy = fs::metadata(root).ok()?.uid();
    let (mut at, mut place) = (PathBuf::new(), Place::default());
    for name in path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
    {
        at.push(OsStr::from_bytes(name));
        let owner = fs::symlink_metadata(root.join(&at)).ok()?.uid();
        place = place.below(&at, Some(owner).filter(|owner| *owner != hierarchy));
    }
    place.container
}

/// Return where this process sees the hierarchy, or else a private mount of our own: for the
/// commands that it runs, ip-netns(8) mounts a /sys without the mounts below it. Only this process
/// sees such a path.
#[must_use]
pub fn mount() -> Option<PathBuf> {
    // Another file system may be mounted over it.
    let mut paths = hierarchies(mounts::mounts());
    paths.find(|path| is_cgroup2(path)).or_else(|| {
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

fn hierarchies(mounts: Vec<Mount>) -> impl Iterator<Item = PathBuf> {
    let mounts = mounts.into_iter().filter(|mount| mount.is("cgroup2"));
    mounts.map(|mount| mount.path)
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
/// One that is not found has no path: no user can hide another's, or root's.
#[must_use]
pub fn paths(
    root: &Path,
    mut wanted: BTreeSet<u64>,
    directories: usize,
) -> Vec<(u64, Option<Cgroup>)> {
    let Ok(top) = fs::metadata(root) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if wanted.remove(&top.ino()) {
        let path = "/".into();
        let container = None;
        found.push((top.ino(), Some(Cgroup { path, container })));
    }
    walk(root, Place::default(), directories, |path, entry, above| {
        let owner = entry.uid();
        let place = above.below(path, Some(owner).filter(|owner| *owner != top.uid()));
        if wanted.remove(&entry.ino()) {
            let cgroup = Cgroup {
                path: Path::new("/").join(path).as_os_str().into(),
                container: place.container.clone(),
            };
            found.push((entry.ino(), Some(cgroup)));
        }
        match wanted.is_empty() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(place),
        }
    });
    found.extend(wanted.into_iter().map(|id| (id, None)));
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn the_cgroup2_mount_is_found_beside_version_1() {
        let mounts = b"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                       cgroup2 /sys/fs/cgroup/my\\040unified cgroup2 rw 0 0\n";
        assert_eq!(parsed(mounts), [Path::new("/sys/fs/cgroup/my unified")]);
        assert!(parsed(b"proc /proc proc rw 0 0\n").is_empty());
    }

    #[test]
    fn a_users_mount_hides_the_hierarchy_by_no_name() {
        let mounts = b"cgroup2 /home/user/\xff\xfe fuse.cgroup2 rw,user_id=1000 0 0\n\
                       cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(parsed(mounts), [Path::new("/sys/fs/cgroup")]);
    }

    fn parsed(mounts: &[u8]) -> Vec<PathBuf> {
        hierarchies(mounts::parse(mounts)).collect()
    }

    /// A walk sees directories alone, so that any hierarchy of them will do.
    #[test]
    fn a_user_that_may_name_a_cgroup_claims_its_container() {
        let root = tempfile::tempdir().unwrap();
        let id = "0123456789abcdef".repeat(4);
        let make = |path: &str, owner| {
            let path = root.path().join(path);
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(owner), None).unwrap();
            fs::metadata(path).unwrap().ino()
        };
        let alice = "system.slice/alice.service";
        // Root made the cgroup of a service, and gave it to the user of the service.
        let service = make(alice, 1000);
        let inside = make(&format!("{alice}/workers"), 1000);
        let claimed = make(&format!("{alice}/docker-{id}.scope"), 1000);
        let below = make(&format!("{alice}/docker-{id}.scope/init"), 1000);
        let of_root = make(&format!("docker/{id}"), 0);
        let ids = [service, inside, claimed, below, of_root];
        let found: HashMap<_, _> = paths(root.path(), ids.into(), 100).into_iter().collect();
        let told = ids.map(|id| {
            let cgroup = found[&id].as_ref().unwrap();
            let container = container_at(root.path(), cgroup.path.as_bytes());
            assert_eq!(container, cgroup.container, "{}", cgroup.path);
            cgroup.container.as_ref().unwrap().to_string()
        });
        let claim = "user-1000/docker/0123456789ab";
        let service = "alice.service";
        assert_eq!(
            told,
            [service, service, claim, claim, "docker/0123456789ab"]
        );
        assert_eq!(container_at(root.path(), b"/docker/gone"), None);
    }
}
