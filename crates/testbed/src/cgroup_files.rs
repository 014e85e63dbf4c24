//! The files of cgroup hierarchies: where they are mounted, the processes of a cgroup, its end.

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io, thread};

use crate::error::{Context, Result};
use crate::patience::PATIENCE;
use crate::process::{POLL_INTERVAL, kill_all};

/// The file that lists a cgroup's processes and takes new ones.
pub(crate) const PROCESSES: &str = "cgroup.procs";

/// Remove a directory with all below it.
pub(crate) fn remove(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    let own = std::process::id();
    if processes_in(directory).contains(&own) {
        move_to(directory.parent().unwrap_or(directory), own)?;
    }
    kill_all(|| processes_in(directory), &text(directory))?;
    let start = Instant::now();
    loop {
        match fs::remove_dir(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // The last process is not listed any more, but has not yet left.
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && start.elapsed() < PATIENCE =>
            {
                thread::sleep(POLL_INTERVAL);
            }
            Err(error) => return Err(error).context("remove", text(directory)),
        }
    }
}

pub(crate) fn move_to(directory: &Path, pid: u32) -> Result<()> {
    write(&directory.join(PROCESSES), &pid.to_string())
}

pub(crate) fn processes_in(directory: &Path) -> Vec<u32> {
    let list = fs::read_to_string(directory.join(PROCESSES)).unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).collect()
}

pub(crate) fn v2_mount() -> Option<PathBuf> {
    mount(|fields| fields.get(2) == Some(&"cgroup2"))
}

pub(crate) fn v1_cpu_mount() -> Option<PathBuf> {
    mount(|fields| {
        fields.get(2) == Some(&"cgroup")
            && fields
                .get(3)
                .is_some_and(|options| options.split(',').any(|option| option == "cpu"))
    })
}

/// The first mount point whose line in `/proc/self/mounts` (see fstab(5)) is accepted.
fn mount(accept: impl Fn(&[&str]) -> bool) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        if accept(&fields) {
            fields.get(1).map(PathBuf::from)
        } else {
            None
        }
    })
}

pub(crate) fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).context("write", text(path))
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
