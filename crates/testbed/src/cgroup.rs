use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cgroup_files::{
    PROCESSES, move_to, processes_in, remove, text, v1_cpu_mount, v2_mount, write,
};
use crate::error::{Context, Error, Result};
use crate::leftovers;
use crate::sys;

/// A cgroup-v2 directory. Removed on drop: its processes are killed; the calling one, should it be
/// among them, is moved to the root of the hierarchy instead.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    id: u64,
    /// The same cgroup in the v1 hierarchy of the `cpu` controller, if v2 lacks the controller.
    cpu_v1: Option<PathBuf>,
}

impl Cgroup {
    /// Create a cgroup named `sst-PID-STARTTIME-N-NAME` below the root of the v2 hierarchy.
    ///
    /// `name` is 1 to 64 ASCII letters, digits and hyphens. It need not be unique.
    pub fn new(name: &str) -> Result<Cgroup> {
        leftovers::clean_up_once()?;
        let mount = v2_mount().ok_or(Error::Missing("a mounted cgroup v2 hierarchy"))?;
        let path = mount.join(leftovers::unique_name(name)?);
        let created = fs::create_dir(&path).and_then(|()| Ok(fs::metadata(&path)?.ino()));
        let id = created.context("create", text(&path))?;
        Ok(Cgroup {
            path,
            id,
            cpu_v1: None,
        })
    }

    /// Create a cgroup of any name or path below this one, including missing ancestors. Drop it
    /// before this one.
    pub fn below(&self, name: &str) -> Result<Cgroup> {
        let path = self.path.join(name);
        let created = fs::create_dir_all(&path).and_then(|()| Ok(fs::metadata(&path)?.ino()));
        let id = created.context("create", text(&path))?;
        Ok(Cgroup {
            path,
            id,
            cpu_v1: None,
        })
    }

    /// The directory in the v2 hierarchy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cgroup id, as `bpf_get_current_cgroup_id()` gives it: the inode of the directory.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The processes in it now.
    pub fn processes(&self) -> Vec<u32> {
        processes_in(&self.path)
    }

    /// Move a process into it, with all its threads.
    pub fn add(&self, pid: u32) -> Result<()> {
        self.directories()
            .try_for_each(|directory| move_to(directory, pid))
    }

    /// Let `command` start its program in this cgroup: the program has not run a single
    /// instruction outside.
    ///
    /// Call [`Cgroup::set_cpu_quota`] before.
    pub fn start_in(&self, command: &mut Command) -> Result<()> {
        let mut files = Vec::new();
        for directory in self.directories() {
            let path = directory.join(PROCESSES);
            files.push(
                OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .context("open", text(&path))?,
            );
        }
        // Process 0 is the writer, here the forked child.
        sys::before_exec(command, move || {
            files.iter().try_for_each(|mut file| file.write_all(b"0"))
        });
        Ok(())
    }

    /// Let its processes together use `quota` of CPU time in each `period`.
    ///
    /// Where the kernel has real-time group scheduling, a process with a real-time thread cannot be
    /// added afterwards, and a process with a [`Link::relay`](crate::Link::relay) has such threads.
    pub fn set_cpu_quota(&mut self, quota: Duration, period: Duration) -> Result<()> {
        let (quota, period) = (quota.as_micros(), period.as_micros());
        let mount = self
            .path
            .parent()
            .expect("a cgroup is created below a mount point");
        let controllers = fs::read_to_string(mount.join("cgroup.controllers"));
        let controllers = controllers.context("read the controllers of", text(mount))?;
        if controllers
            .split_whitespace()
            .any(|controller| controller == "cpu")
        {
            write(&mount.join("cgroup.subtree_control"), "+cpu")?;
            return write(&self.path.join("cpu.max"), &format!("{quota} {period}"));
        }
        let mount = v1_cpu_mount().ok_or(Error::Missing("the cpu controller of cgroups"))?;
        let path = mount.join(self.path.file_name().expect("a cgroup has a name"));
        if self.cpu_v1.is_none() {
            fs::create_dir(&path).context("create", text(&path))?;
            self.cpu_v1 = Some(path.clone());
        }
        write(&path.join("cpu.cfs_period_us"), &period.to_string())?;
        write(&path.join("cpu.cfs_quota_us"), &quota.to_string())?;
        self.processes()
            .into_iter()
            .try_for_each(|pid| move_to(&path, pid))
    }

    /// Return how long its processes have been held because its quota was used up, summed over
    /// CPUs: `cpu.stat` of its own, in either version of cgroups.
    pub fn cpu_throttled(&self) -> Result<Duration> {
        let path = self.cpu_v1.as_ref().unwrap_or(&self.path).join("cpu.stat");
        let statistics = fs::read_to_string(&path).context("read", text(&path))?;
        let figure = |name: &str| {
            let mut lines = statistics.lines();
            lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        let micros = figure("throttled_usec ").map(Duration::from_micros);
        let nanos = figure("throttled_time ").map(Duration::from_nanos);
        micros.or(nanos).ok_or(Error::Missing(
            "the time that a quota has held its cgroup in cpu.stat",
        ))
    }

    fn directories(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.path), self.cpu_v1.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for directory in self.directories() {
            if let Err(error) = remove(directory) {
                eprintln!("testbed: {error}");
            }
        }
    }
}
