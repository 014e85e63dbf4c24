//! Capabilities are out of effect while sockstamp measures, and stay with its command.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use testbed::{Cgroup, PATIENCE, Process};
use with::leftovers::Leftovers;
use with::unprivileged::{NOBODY, Unprivileged};

/// include/uapi/linux/capability.h
const NET_ADMIN: u64 = 1 << 12;
const SYS_ADMIN: u64 = 1 << 21;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;
const NEEDED: u64 = BPF | PERFMON | NET_ADMIN;

/// A set of `/proc/PID/status`: proc_pid_status(5).
fn capabilities(pid: u32, set: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(set))
        .unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

/// The process id that the measured command, a shell, printed.
fn printed_pid(process: &mut Process) -> u32 {
    process.wait_for_stdout("\n", PATIENCE).unwrap();
    process.stdout().trim().parse().unwrap()
}

fn wait_until_lowered(pid: u32) {
    let start = Instant::now();
    while capabilities(pid, "CapEff") & (NEEDED | SYS_ADMIN) != 0 {
        assert!(
            start.elapsed() < PATIENCE,
            "CapEff {:x}",
            capabilities(pid, "CapEff")
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// `sockstamp stat` over a shell that prints its process id and waits.
fn measure(mut command: Command, arguments: &[&str]) -> Process {
    command.arg("stat").args(arguments);
    Process::spawn(command).unwrap()
}

const WAITING: &[&str] = &["--", "sh", "-c", "echo $$; exec sleep 60"];

fn end(mut process: Process) {
    process.signal(Signal::SIGTERM).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    // The command was ended by the signal that we passed on.
    assert_eq!(
        status.code(),
        Some(128 + Signal::SIGTERM as i32),
        "{}",
        process.stderr()
    );
}

#[test]
fn capabilities_of_root_are_out_of_effect_while_it_measures() {
    let before = Leftovers::before();
    let mut process = measure(Command::new(with::sockstamp()), WAITING);
    let command = printed_pid(&mut process);
    wait_until_lowered(process.id());
    assert_eq!(capabilities(process.id(), "CapPrm") & NEEDED, NEEDED);
    let own = std::process::id();
    for set in ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"] {
        assert_eq!(capabilities(command, set), capabilities(own, set), "{set}");
    }
    end(process);
    before.assert_none();
}

/// Given to a user by ambient capabilities, which a command inherits, in a cgroup that is the
/// user's.
#[test]
fn a_user_with_three_capabilities_can_measure() {
    let before = Leftovers::before();
    let copy = Unprivileged::new();
    let cgroup = Cgroup::new("user").unwrap();
    for path in [cgroup.path().to_owned(), cgroup.path().join("cgroup.procs")] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut command = copy.with_capabilities("-all,+bpf,+perfmon,+net_admin");
    cgroup.start_in(&mut command).unwrap();
    let mut process = measure(command, WAITING);
    let command = printed_pid(&mut process);
    wait_until_lowered(process.id());
    assert_eq!(capabilities(process.id(), "CapPrm"), NEEDED);
    for set in ["CapEff", "CapPrm", "CapAmb"] {
        assert_eq!(capabilities(command, set), NEEDED, "{set}");
    }
    end(process);
    before.assert_none();
}
