//! The programs and maps that a process has loaded into the kernel.

use std::collections::BTreeSet;
use std::fs;

use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use testbed::Process;

use crate::wait_until;

/// The programs and maps that a process has descriptors of: proc(5), `/proc/pid/fdinfo`.
pub fn bpf_objects(process: &Process) -> [BTreeSet<u32>; 2] {
    let entries = fs::read_dir(format!("/proc/{}/fdinfo", process.id())).unwrap();
    let texts: Vec<String> = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .collect();
    ["prog_id:", "map_id:"].map(|key| {
        let ids = texts.iter().flat_map(|text| text.lines());
        ids.filter_map(|line| line.strip_prefix(key)?.trim().parse().ok())
            .collect()
    })
}

/// The kernel frees what a process had some time after its end.
pub fn wait_unloaded([programs, maps]: &[BTreeSet<u32>; 2]) {
    assert!(!programs.is_empty() && !maps.is_empty());
    wait_until("the programs are gone", || {
        ProgInfoIter::default().all(|program| !programs.contains(&program.id))
    });
    wait_until("the maps are gone", || {
        MapInfoIter::default().all(|map| !maps.contains(&map.id))
    });
}
