//! Name things after their creator, and remove those of dead creators.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::cgroup_files::{remove, v1_cpu_mount, v2_mount};
use crate::error::{Context, Error, Result};
use crate::process::{ip, kill_all};

pub(crate) const NETNS_DIRECTORY: &str = "/run/netns";

/// Held while namespaces are created or removed: two processes that both prepare an empty
/// [`NETNS_DIRECTORY`] at once can mount one over the other's namespaces.
const LOCK: &str = "/run/sockstamp-testbed.lock";

const PREFIX: &str = "sst";

/// The process that created a namespace or cgroup. The start time distinguishes it from a later
/// process with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Creator {
    pid: u32,
    /// Clock ticks after boot, field 22 of `/proc/PID/stat`.
    start_time: u64,
}

impl Creator {
    fn current() -> Result<Creator> {
        let pid = std::process::id();
        let start_time = start_time(pid).ok_or(Error::Missing("/proc/self/stat"))?;
        Ok(Creator { pid, start_time })
    }

    fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.start_time)
    }

    /// The creator in a name made by [`unique_name`].
    fn of(name: &str) -> Option<Creator> {
        let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
        let pid = parts.next()?.parse().ok()?;
        let start_time = parts.next()?.parse().ok()?;
        Some(Creator { pid, start_time })
    }
}

/// The start time of a process, unless it is dead or a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name, may itself hold spaces and parentheses: proc_pid_stat(5).
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // State is field 3, the start time field 22.
    fields.nth(18)?.parse().ok()
}

/// A name for a namespace or cgroup: `sst-PID-STARTTIME-N-NAME`.
pub(crate) fn unique_name(name: &str) -> Result<String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if name.is_empty()
        || name.len() > 64
        || name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-')
    {
        return Err(Error::Config {
            field: "name",
            value: name.to_owned(),
            reason: "a name is 1 to 64 ASCII letters, digits and hyphens",
        });
    }
    let Creator { pid, start_time } = Creator::current()?;
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok(format!("{PREFIX}-{pid}-{start_time}-{n}-{name}"))
}

/// Return no lock where the kernel has none (`CONFIG_FILE_LOCKING`): the small kernel of
/// `kernel/series`, in whose guests no other test runs.
pub(crate) fn lock() -> Result<Option<Flock<File>>> {
    let file = File::create(LOCK).context("create", LOCK)?;
    match Flock::lock(file, FlockArg::LockExclusive) {
        Err((_, Errno::ENOSYS)) => Ok(None),
        locked => locked
            .map(Some)
            .map_err(|(_, errno)| errno)
            .context("lock", LOCK),
    }
}

/// Remove the namespaces and cgroups whose creating process is dead, with the processes in them.
///
/// Interfaces need no search: this crate creates each one inside a namespace of its own, and it
/// vanishes with the namespace. [`Host::new`](crate::Host::new) and
/// [`Cgroup::new`](crate::Cgroup::new) call this once per process.
pub fn clean_up_leftovers() -> Result<()> {
    let _lock = lock()?;
    for name in leftovers_in(Path::new(NETNS_DIRECTORY))? {
        remove_netns(&name)?;
    }
    for mount in [v2_mount(), v1_cpu_mount()].into_iter().flatten() {
        for name in leftovers_in(&mount)? {
            remove(&mount.join(name))?;
        }
    }
    Ok(())
}

/// Call [`clean_up_leftovers`] the first time it is called in this process.
pub(crate) fn clean_up_once() -> Result<()> {
    static CLEAN: Once = Once::new();
    let mut cleaned = Ok(());
    CLEAN.call_once(|| cleaned = clean_up_leftovers());
    cleaned
}

/// The entries of `directory` that a dead process created.
fn leftovers_in(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context("list", directory.to_string_lossy()),
    };
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| Creator::of(name).is_some_and(|creator| !creator.is_alive()))
        .collect())
}

/// Kill the processes in a named namespace and remove the name. The caller holds the lock.
pub(crate) fn remove_netns(name: &str) -> Result<()> {
    // A creator that died half-way leaves a name without a namespace: an ordinary file, in which
    // nothing runs.
    let own = identity("/proc/self/ns/net").context("read", "/proc/self/ns/net")?;
    let path = format!("{NETNS_DIRECTORY}/{name}");
    let namespace = identity(&path).context("read", &path)?;
    if namespace.0 == own.0 && namespace != own {
        kill_all(|| processes_in_netns(namespace), name)?;
    }
    ip(&format!("netns delete {name}"))?;
    Ok(())
}

/// The device and inode of a file, which identify a namespace as long as it lives: namespaces(7).
pub(crate) fn identity(path: &str) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn processes_in_netns(namespace: (u64, u64)) -> Vec<u32> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| {
            pid != own
                && identity(&format!("/proc/{pid}/ns/net")).is_ok_and(|other| other == namespace)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_creator() {
        let name = unique_name("a-host").unwrap();
        let creator = Creator::of(&name).unwrap();
        assert_eq!(creator, Creator::current().unwrap());
        assert!(creator.is_alive());
    }

    #[test]
    fn a_later_process_with_the_same_id_is_not_the_creator() {
        let mut creator = Creator::current().unwrap();
        creator.start_time -= 1;
        assert!(!creator.is_alive());
    }

    #[test]
    fn names_of_others_have_no_creator() {
        for name in [
            "cni-1234",
            "sst",
            "sst-",
            "sst-a-b-c",
            "sst-12",
            "sstx-1-2-3-n",
        ] {
            assert_eq!(Creator::of(name), None, "{name}");
        }
    }

    #[test]
    fn names_with_slashes_are_refused() {
        assert!(matches!(unique_name("../x"), Err(Error::Config { .. })));
    }
}
