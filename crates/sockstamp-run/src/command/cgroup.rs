//! The cgroup that a command runs in, so that its sockets and its children's can be distinguished
//! from all others.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result};
use sockstamp_host::cgroup::root;

/// This process's own cgroup, from the root (cgroups(7), "/proc files").
fn own() -> Result<PathBuf> {
    let lines = fs::read("/proc/self/cgroup").context("cannot read /proc/self/cgroup")?;
    let mut lines = lines.split(|byte| *byte == b'\n');
    let path = lines.find_map(|line| line.strip_prefix(b"0::/"));
    Ok(OsStr::from_bytes(path.unwrap_or_default()).into())
}

/// A cgroup for one command, below our own so that its limits hold for the command too. A second
/// process removes it, and outlives this one however it ends.
#[derive(Debug)]
pub(super) struct CommandCgroup {
    path: PathBuf,
    parent: PathBuf,
    janitor: Child,
    // The janitor starts to clean when the last writer of this pipe has exited.
    alive: Option<ChildStdin>,
}

impl CommandCgroup {
    pub(super) fn create() -> Result<Self> {
        let root = root()?;
        let parent = own()?;
        let name = parent.join(format!("sockstamp-{}", std::process::id()));
        // Start the janitor first: then nothing can be left behind.
        let mut janitor = Command::new("/proc/self/exe")
            .arg("janitor")
            .arg(&name)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Keep Ctrl-C from the process that cleans up; it is for the command and for us.
            .process_group(0)
            .spawn()
            .context("cannot start the process that removes the cgroup")?;
        let alive = janitor.stdin.take();
        let path = root.join(name);
        fs::create_dir(&path)
            .with_context(|| format!("cannot create the cgroup {}", path.display()))?;
        Ok(Self {
            path,
            parent: root.join(parent),
            janitor,
            alive,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Start the command in the cgroup. A child starts in its parent's cgroup, so we go there for
    /// the moment: it makes no sockets, and nothing runs between fork and exec.
    pub(super) fn spawn(&self, command: &mut Command) -> Result<io::Result<Child>> {
        enter(&self.path)?;
        let child = command.spawn();
        enter(&self.parent)?;
        Ok(child)
    }
}

impl Drop for CommandCgroup {
    fn drop(&mut self) {
        self.alive = None;
        // The janitor has printed whatever its exit status shows.
        let _ = self.janitor.wait();
    }
}

fn enter(cgroup: &Path) -> Result<()> {
    fs::write(cgroup.join("cgroup.procs"), "0")
        .with_context(|| format!("cannot enter the cgroup {}", cgroup.display()))
}

/// Move the processes left in the cgroup to its parent and remove it: children that the command
/// left behind continue.
///
/// # Errors
///
/// If the cgroup stays.
pub fn remove(path: &Path) -> Result<()> {
    let parent = path
        .parent()
        .context("a cgroup is below another")?
        .join("cgroup.procs");
    // A process may fork while it is moved: its child is found in the next round.
    for _ in 0..100 {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => move_all(path, &parent),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => {
                return done
                    .with_context(|| format!("cannot remove the cgroup {}", path.display()));
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    anyhow::bail!("cannot empty the cgroup {}", path.display())
}

fn move_all(from: &Path, to: &Path) {
    for pid in fs::read_to_string(from.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
    {
        // Ignore the error: a process that has ended meanwhile cannot be moved.
        let _ = fs::write(to, pid);
    }
}
