//! Find whether processes of the target have connected to services behind Unix sockets.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sockstamp_host::unix::Unix;
use sockstamp_host::{descriptors, netns};
use sockstamp_model::name::Name;
use sockstamp_model::wait::UnixWait;

use crate::options::Target;

/// Look at this many processes at most: others are seen when they are among the first.
const MOST: usize = 256;
/// Looks that show nothing, after which programs go: connections for single requests come again.
const IDLE: u32 = 10;

/// Looks at what the target has open.
#[derive(Debug)]
pub(super) struct Asking {
    unix: Unix,
    is_always: bool,
    /// True after a look at what the target had open.
    has_looked: bool,
    /// Sockets that were looked at.
    known: BTreeSet<u64>,
    /// Sockets that ask.
    asking: BTreeSet<u64>,
    /// Looks since one has shown some, up to [`IDLE`].
    idle: u32,
}

impl Asking {
    pub(super) fn new(unix: Unix) -> Self {
        Self {
            unix,
            is_always: false,
            has_looked: false,
            known: BTreeSet::new(),
            asking: BTreeSet::new(),
            idle: IDLE,
        }
    }

    /// Look once, for what is open when measuring begins: the first question may be the only one.
    pub(super) fn is_always(&mut self) {
        self.is_always = true;
    }

    pub(super) const fn is_of_command(&self) -> bool {
        self.is_always
    }

    /// Return the sockets that ask.
    pub(super) fn asking(&self) -> &BTreeSet<u64> {
        &self.asking
    }

    /// Name the process that serves a question, which is not known.
    pub(super) fn name_server(&mut self, wait: &mut UnixWait) {
        let accepted = self.unix.server(wait.netns, wait.inode);
        // A socket of a unit of systemd is listened at by init, which serves nothing there.
        let listens = wait.server.take().map(|(pid, _)| pid);
        let listens = listens.filter(|pid| *pid != 1);
        let listens = listens.and_then(|pid| Some((pid, name_of(pid)?)));
        wait.server = accepted.or(listens);
    }

    pub(super) fn sockets(&self) -> &Unix {
        &self.unix
    }

    /// Return true if a process of the target asks, or has asked a while ago.
    pub(super) fn look(&mut self, target: &Target) -> bool {
        if self.is_always && self.has_looked {
            return true;
        }
        self.has_looked = true;
        let mut open = BTreeSet::new();
        for pid in processes(target).into_iter().take(MOST) {
            self.look_at(pid, &mut open);
        }
        self.asking.retain(|socket| open.contains(socket));
        self.known = open;
        self.idle = match self.asking.is_empty() {
            true => (self.idle + 1).min(IDLE),
            false => 0,
        };
        self.is_always || self.idle < IDLE
    }

    /// Ask the kernel of the sockets that are new.
    fn look_at(&mut self, pid: u32, open: &mut BTreeSet<u64>) {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let Ok(netns) = netns::inode(&process.join("ns/net")) else {
            return;
        };
        for socket in descriptors::sockets(&process) {
            if open.insert(socket) && !self.known.contains(&socket) && self.unix.asks(netns, socket)
            {
                self.asking.insert(socket);
            }
        }
    }
}

fn name_of(pid: u32) -> Option<Name> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(Name::from(name.trim_ascii_end()))
}

/// Return the processes of a target that names tasks.
pub(crate) fn processes(target: &Target) -> Vec<u32> {
    if !target.pids.is_empty() {
        return target.pids.clone();
    }
    if !target.comms.is_empty() {
        return named(&target.comms);
    }
    let mut found = Vec::new();
    if let Some(cgroup) = &target.cgroup {
        in_cgroup(cgroup, &mut found);
    }
    found
}

fn named(comms: &[String]) -> Vec<u32> {
    let is_named = |pid: &u32| {
        let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let mut comms = comms.iter();
        comms.any(|comm| comm.as_bytes() == name.trim_ascii_end())
    };
    netns::pids().filter(is_named).collect()
}

/// Add the processes of a cgroup and of those below it.
fn in_cgroup(cgroup: &Path, found: &mut Vec<u32>) {
    let processes = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    found.extend(processes.lines().filter_map(|pid| pid.parse::<u32>().ok()));
    let below = fs::read_dir(cgroup).into_iter().flatten().flatten();
    for entry in below {
        if found.len() < MOST && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            in_cgroup(&entry.path(), found);
        }
    }
}
