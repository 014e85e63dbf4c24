//! The target of a measurement, as the kernel knows it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sockstamp_host::cgroup::is_cgroup2;

use crate::abi::raw::COMM_LENGTH as RAW_COMM_LENGTH;
use crate::error::{Error, Tried};
use crate::facts::Hook;
use crate::options::Target;

const COMM_LENGTH: usize = RAW_COMM_LENGTH as usize;

/// The inode of the first PID namespace: `PROC_PID_INIT_INO`, include/linux/proc_ns.h, v6.18.
const FIRST_PID_NAMESPACE: u64 = 0xeffffffc;

/// Return true if the numbers of processes here differ from those that programs in the kernel see.
/// A kernel without PID namespaces has no such file.
fn in_pid_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() != FIRST_PID_NAMESPACE)
}

fn require_process(pid: u32) -> Result<(), Error> {
    if in_pid_namespace() {
        return Err(Error::PidNamespace);
    }
    let status = fs::read(format!("/proc/{pid}/status")).map_err(|_| Error::NoProcess { pid })?;
    // The name of the process is in it, which may be any bytes.
    let status = String::from_utf8_lossy(&status);
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    match group.and_then(|group| group.trim().parse().ok()) {
        Some(group) if group != pid => Err(Error::IsThread {
            tid: pid,
            pid: group,
        }),
        _ => Ok(()),
    }
}

/// Return a name as the kernel keeps it, truncated to TASK_COMM_LEN - 1 (`__set_task_comm()`,
/// fs/exec.c).
fn comm_key(name: &str) -> [u8; COMM_LENGTH] {
    let mut key = [0; COMM_LENGTH];
    let kept = name.len().min(COMM_LENGTH - 1);
    key[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    key
}

/// The processes that a target names by number. Each is held by a descriptor: once it has ended,
/// its number may be another's.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    held: Vec<(u32, OwnedFd)>,
    /// There were some.
    named: bool,
}

impl Processes {
    fn hold(&mut self, pid: u32) -> Result<(), Error> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or(Error::NoProcess { pid })?;
        let held = match pidfd_open(number, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Err(Error::NoProcess { pid }),
            held => held
                .map_err(io::Error::from)
                .tried(format!("hold process {pid}"))?,
        };
        self.held.push((pid, held));
        self.named = true;
        Ok(())
    }

    /// Return descriptors, each of which can be read when its process ends.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.held.iter().map(|(_, process)| process.as_fd())
    }

    /// Take those that have ended out of the map `pids`.
    pub(crate) fn deselect_ended(&mut self, pids: &impl MapCore) -> Result<(), Error> {
        for pid in self.take_ended()? {
            pids.delete(&pid.to_ne_bytes())
                .tried(format!("deselect process {pid}"))?;
        }
        Ok(())
    }

    fn take_ended(&mut self) -> Result<Vec<u32>, Error> {
        if self.held.is_empty() {
            return Ok(Vec::new());
        }
        let mut watched: Vec<_> = self.descriptors().map(until_readable).collect();
        match poll(&mut watched, Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno)).tried("look at processes"),
        }
        let ended: Vec<_> = watched
            .iter()
            .map(|one| !one.revents().is_empty())
            .collect();
        let mut ended = ended.into_iter();
        let ended = self.held.extract_if(.., |_| ended.next() == Some(true));
        Ok(ended.map(|(pid, _)| pid).collect())
    }

    /// Return true if there were some, and all have ended.
    pub(crate) fn have_ended(&self) -> bool {
        self.named && self.held.is_empty()
    }
}

fn until_readable(descriptor: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(descriptor, PollFlags::IN)
}

/// Add the processes and the names of a target to the maps of an object (select/target.bpf.h).
pub(crate) fn select_tasks(
    target: &Target,
    pids: &impl MapCore,
    comms: &impl MapCore,
) -> Result<Processes, Error> {
    let mut processes = Processes::default();
    for &pid in &target.pids {
        require_process(pid)?;
        processes.hold(pid)?;
        pids.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
            .tried(format!("select process {pid}"))?;
    }
    for comm in &target.comms {
        comms
            .update(&comm_key(comm), &[1], MapFlags::ANY)
            .tried(format!("select processes called {comm}"))?;
    }
    Ok(processes)
}

/// The cgroups that programs are attached to.
#[derive(Debug)]
pub(crate) struct Cgroups {
    /// The target's.
    pub(crate) target: File,
    /// That of all others.
    pub(crate) root: File,
}

impl Cgroups {
    pub(crate) fn open(target: &Target, root: &Path) -> Result<Cgroups, Error> {
        let open = |path: &Path| File::open(path).tried(format!("open {}", path.display()));
        let path = target.cgroup.as_deref().unwrap_or(root);
        if !is_cgroup2(path) {
            return Err(Error::NotACgroup {
                path: path.to_owned(),
            });
        }
        Ok(Cgroups {
            target: open(path)?,
            root: open(root)?,
        })
    }

    /// Return the one that a hook needs, if any.
    pub(crate) fn of(&self, hook: Hook) -> Option<&File> {
        match hook {
            Hook::Sockops | Hook::Cgroup(_) => Some(&self.target),
            Hook::EveryCgroup(_) => Some(&self.root),
            Hook::Timer
            | Hook::Tracepoint(_)
            | Hook::Entry(_)
            | Hook::Return(_)
            | Hook::Walk(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_whatever_it_calls_itself() {
        let name = fs::read("/proc/self/comm").unwrap();
        fs::write("/proc/self/comm", b"\xff\xfe").unwrap();
        let found = require_process(std::process::id());
        fs::write("/proc/self/comm", name).unwrap();
        found.unwrap();
    }

    #[test]
    fn a_process_that_ends_is_told_from_one_that_goes_on() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut processes = Processes::default();
        assert!(!processes.have_ended());
        processes.hold(std::process::id()).unwrap();
        processes.hold(child.id()).unwrap();
        assert!(processes.take_ended().unwrap().is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(processes.take_ended().unwrap(), [child.id()]);
        assert!(!processes.have_ended());
        processes.held.clear();
        assert!(processes.have_ended());
    }
}
