//! Check that a run of the program leaves nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::query::ProgInfoIter;
use nix::unistd::{Pid, getpgid, getpgrp};
use sockstamp_bpf::probe;
use testbed::PATIENCE;

/// The state before the run.
#[derive(Debug)]
pub struct Leftovers {
    programs: BTreeSet<u32>,
    cgroups: BTreeSet<PathBuf>,
}

impl Leftovers {
    /// Read the present state.
    pub fn before() -> Leftovers {
        Leftovers {
            programs: programs(),
            cgroups: cgroups(),
        }
    }

    /// Check that nothing of ours exists that did not exist before, but for what living instances
    /// of others have: test programs run beside each other, each in a process group of its own.
    pub fn assert_none(&self) {
        let start = Instant::now();
        loop {
            let mut programs: Vec<_> = programs().difference(&self.programs).copied().collect();
            if !programs.is_empty() {
                let held = held_by_others();
                programs.retain(|program| !held.contains(program));
            }
            let mut cgroups: Vec<_> = cgroups().difference(&self.cgroups).cloned().collect();
            cgroups.retain(|cgroup| !maker(cgroup).is_some_and(is_of_others));
            if programs.is_empty() && cgroups.is_empty() {
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "left behind: programs {programs:?}, cgroups {cgroups:?}"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The ids of loaded programs with a name of ours.
fn programs() -> BTreeSet<u32> {
    ProgInfoIter::default()
        .filter(|program| {
            let name = program.name.to_string_lossy();
            [
                "on_",
                "probe_",
                "mark_",
                "adopt_flows",
                "switch_flows",
                "deselect_flows",
            ]
            .iter()
            .any(|ours| name.starts_with(ours))
        })
        .map(|program| program.id)
        .collect()
}

/// The ids of programs that living processes of others hold, themselves or by a link: proc(5),
/// `/proc/pid/fdinfo`.
fn held_by_others() -> BTreeSet<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let others = processes.filter(|entry| {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        pid.is_some_and(is_of_others) && !is_janitor(&entry.path())
    });
    let files = others.flat_map(|other| fs::read_dir(other.path().join("fdinfo")));
    // Processes end, and files are closed, while this reads.
    let texts = files
        .flatten()
        .flatten()
        .flat_map(|file| fs::read_to_string(file.path()));
    let id = |line: &str| line.strip_prefix("prog_id:")?.trim().parse::<u32>().ok();
    texts
        .flat_map(|text| text.lines().filter_map(id).collect::<Vec<_>>())
        .collect()
}

/// Return true if a process lives that no process of this test has started.
fn is_of_others(pid: i32) -> bool {
    getpgid(Some(Pid::from_raw(pid))).is_ok_and(|group| group != getpgrp())
}

/// Return true for the process that removes the cgroup of a command: in every test, it has a
/// group of its own.
fn is_janitor(process: &Path) -> bool {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(&b"janitor"[..])
}

/// The process that made a cgroup, by the number in its name.
fn maker(cgroup: &Path) -> Option<i32> {
    let name = cgroup.file_name()?.to_str()?;
    name.strip_prefix("sockstamp-")?.parse().ok()
}

fn cgroups() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    collect(&probe::facts().cgroup2.unwrap(), &mut found);
    found
}

fn collect(directory: &Path, found: &mut BTreeSet<PathBuf>) {
    // A process that vanishes meanwhile is not ours.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("sockstamp-")
        {
            found.insert(entry.path());
        }
        collect(&entry.path(), found);
    }
}
