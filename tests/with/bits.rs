//! The bit on a socket by which another sockstamp is called.

use std::fs;

use sockstamp_bpf::ProgramCost;
use sockstamp_bpf::plan::Stamps;
use testbed::Host;

use crate::{plan, skip, start};

pub const ROUNDS: usize = 500;

/// Return how often the sockops program of another measurement runs during `work`: the kernel calls
/// it for every stamp of a socket with the bit, whichever program set the bit.
pub fn calls_of_others(work: impl FnOnce()) -> u64 {
    let nowhere = Host::new("nowhere").unwrap();
    let other = start(&["stat", "--new-only", "--netns", nowhere.netns_name()]);
    let account = ProgramCost::keep_account().unwrap();
    let calls = sockops_calls(other.id());
    work();
    let calls = sockops_calls(other.id()) - calls;
    drop(account);
    calls
}

/// proc(5), `/proc/pid/fdinfo`, of a program (`bpf_prog_show_fdinfo()`, kernel/bpf/syscall.c).
fn sockops_calls(pid: u32) -> u64 {
    const SOCK_OPS: &str = "13";
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let found = entries.flatten().find_map(|entry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key))
                .map(str::trim)
        };
        (value("prog_type:")? == SOCK_OPS).then(|| value("run_cnt:").unwrap().parse().unwrap())
    });
    found.unwrap()
}

/// Return true if connections are selected by their bit here; print a skip otherwise.
pub fn selects_by_bit(test: &str) -> bool {
    let by_bit = plan().tx == Some(Stamps::Callbacks);
    if !by_bit {
        skip(
            test,
            "without BPF timestamping sockets have no bit to be taken back",
        );
    }
    by_bit
}
