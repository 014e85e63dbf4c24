//! Check that a run of the program leaves nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::query::ProgInfoIter;
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

    /// Nothing of ours exists that did not exist before. Other instances that started meanwhile may
    /// end meanwhile.
    pub fn assert_none(&self) {
        let start = Instant::now();
        loop {
            let programs: Vec<_> = programs().difference(&self.programs).copied().collect();
            let cgroups: Vec<_> = cgroups().difference(&self.cgroups).cloned().collect();
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
