//! Sockets that exist already: listeners of selected tasks at the start, marks taken off at the end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use libbpf_rs::{Iter, Link, ProgramMut};
use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, setns};

use crate::error::{Error, Tried};

/// Marks the TCP sockets on which a selected task listens.
pub(crate) fn mark_listeners(program: &ProgramMut<'_>) -> Result<(), Error> {
    let step = "look at the selected processes' sockets";
    let link = program.attach().tried(step)?;
    run(&link).tried(step)
}

/// Takes the selecting bit off every socket of ours, in every network namespace. Best effort: a
/// namespace that vanishes meanwhile takes its sockets along.
pub(crate) fn deselect(program: &ProgramMut<'_>) {
    let Ok(link) = program.attach() else { return };
    // Our own first: to enter a namespace, even this one, takes CAP_SYS_ADMIN (setns(2)).
    let _ = run(&link);
    let namespaces = network_namespaces();
    // The iterator walks the namespace of the thread that opens it (bpf_iter_init_seq_net(),
    // fs/proc/proc_net.c), and a thread that went elsewhere must not be used for anything else.
    let _ = thread::spawn(move || {
        for namespace in namespaces.into_values() {
            let entered = File::open(namespace).map(|file| setns(file, CloneFlags::CLONE_NEWNET));
            if matches!(entered, Ok(Ok(()))) {
                let _ = run(&link);
            }
        }
    })
    .join();
}

/// Runs an iterator program to its end; it has no output.
fn run(link: &Link) -> io::Result<()> {
    let mut iterator = Iter::new(link).map_err(io::Error::other)?;
    io::copy(&mut iterator.by_ref(), &mut io::sink()).map(drop)
}

/// A file for each network namespace that a process is in or that has a name (ip-netns(8)).
fn network_namespaces() -> BTreeMap<u64, PathBuf> {
    let of_processes = entries("/proc").map(|process| process.join("ns/net"));
    of_processes
        .chain(entries("/run/netns"))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.ino(), path)))
        .collect()
}

fn entries(directory: &str) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

/// One of the sockstamp processes of this host. They share the bit on the sockets, so only the last
/// one to go may take it off.
#[derive(Debug)]
pub(crate) struct Instances {
    lock: Option<Flock<File>>,
}

impl Instances {
    /// Counts this process in, by a shared lock on the root of the cgroup2 hierarchy, which is one
    /// file for the whole host, wherever it is mounted. The lock ends with the process, however it
    /// ends. Waits for one that is about to take the bits off.
    pub(crate) fn join(cgroup2: &Path) -> Self {
        let lock = File::open(cgroup2)
            .ok()
            .and_then(|root| Flock::lock(root, FlockArg::LockShared).ok());
        Self { lock }
    }

    /// Runs `clear` if no other process is left, and lets none in meanwhile. Without a lock nobody is
    /// known to be there.
    pub(crate) fn leave(&mut self, clear: impl FnOnce()) {
        let Some(lock) = self.lock.take() else {
            return clear();
        };
        if lock.relock(FlockArg::LockExclusiveNonblock).is_ok() {
            clear();
        }
    }
}
