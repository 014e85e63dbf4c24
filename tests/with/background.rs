//! Start sockstamp in the background, wait until it measures, and end it as a user does.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use testbed::{PATIENCE, Process};

use crate::{hooks, sockstamp};

/// Start a subcommand with these options and return when it measures: every message from here on is
/// in it.
pub fn start(words: &[&str]) -> Process {
    let mut command = Command::new(sockstamp());
    command.arg(words[0]).args(hooks()).args(&words[1..]);
    let mut process = Process::spawn(command).unwrap();
    wait_attached(&mut process);
    process
}

/// End it as Ctrl-C does; return the process for its output.
pub fn end(mut process: Process) -> Process {
    process.signal(Signal::SIGINT).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    assert!(status.success(), "{status}: {}", process.stderr());
    process
}

/// Wait until the sockstamp in `process` measures.
pub fn wait_attached(process: &mut Process) {
    try_wait_attached(process).unwrap();
}

/// Do the same as [`wait_attached`]; if sockstamp ends, return its error output.
pub(crate) fn try_wait_attached(process: &mut Process) -> Result<(), String> {
    let start = Instant::now();
    while !(is_attached(process.id()) && is_lowered(process.id())) {
        if !process.is_running().unwrap() {
            process.wait_status(PATIENCE).unwrap();
            return Err(process.stderr());
        }
        assert!(start.elapsed() < PATIENCE, "not attached in time");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Its capabilities are out of effect once it measures, existing connections adopted:
/// proc_pid_status(5). Where it never had one, there is no telling.
pub fn is_lowered(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & NET_ADMIN == 0)
}

/// include/uapi/linux/capability.h
const NET_ADMIN: u64 = 1 << 12;

/// The program that selects TCP flows is attached last: proc(5), `/proc/pid/fdinfo`, of a bpf_link
/// (`bpf_cgroup_link_show_fdinfo()`, kernel/bpf/cgroup.c).
fn is_attached(pid: u32) -> bool {
    /// `BPF_CGROUP_SOCK_OPS` of include/uapi/linux/bpf.h.
    const SOCK_OPS: &str = "3";
    let directory = PathBuf::from(format!("/proc/{pid}/fdinfo"));
    let Ok(entries) = fs::read_dir(directory) else {
        return false;
    };
    entries.flatten().any(|entry| {
        // A descriptor may be closed while its directory is read.
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        text.lines()
            .any(|line| line.split_whitespace().eq(["attach_type:", SOCK_OPS]))
    })
}
