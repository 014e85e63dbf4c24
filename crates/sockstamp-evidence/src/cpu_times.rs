//! The CPU times of processes, from /proc.

use std::collections::BTreeMap;
use std::fs;

use nix::unistd::{SysconfVar, sysconf};
use sockstamp_explain::diagnosis::Cpu;
use sockstamp_host::clock;
use sockstamp_host::quota::Quotas;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

/// Processes that are looked at.
const MOST: usize = 64;

/// The CPU times of processes since they were looked at first.
#[derive(Debug, Default)]
pub(crate) struct CpuTimes(BTreeMap<u32, Look>);

#[derive(Debug, Clone)]
struct Look {
    at: Timestamp<Monotonic>,
    ran: u64,
    waited: u64,
    fetched: Option<u64>,
    quotas: Quotas,
}

impl CpuTimes {
    /// Look at a process for the first time.
    pub(crate) fn add(&mut self, pid: u32) {
        if pid != 0 && self.0.len() < MOST && !self.0.contains_key(&pid) {
            self.0.extend(look(pid).map(|look| (pid, look)));
        }
    }

    /// Return what those that are still there have spent since.
    pub(crate) fn since(&self) -> impl Iterator<Item = (u32, Cpu)> {
        self.0.iter().filter_map(|(&pid, first)| {
            let last = look(pid)?;
            let cpu = Cpu {
                since: first.at,
                ran: Nanos(last.ran.saturating_sub(first.ran)),
                waited: Nanos(last.waited.saturating_sub(first.waited)),
                held: last
                    .quotas
                    .most_used_since(&first.quotas)
                    .map_or(Nanos::ZERO, |quota| quota.time),
                fetched: last
                    .fetched
                    .zip(first.fetched)
                    .map(|(last, first)| last.saturating_sub(first)),
            };
            Some((pid, cpu))
        })
    }
}

fn look(pid: u32) -> Option<Look> {
    Some(Look {
        at: clock::now().ok()?,
        ran: ran(&fs::read(format!("/proc/{pid}/stat")).ok()?)?,
        waited: waited(pid),
        fetched: fetched(&fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default()),
        quotas: Quotas::of_processes(&[pid]),
    })
}

/// Return the CPU time of all tasks that a process has, or had: fields 14 and 15 of proc(5)'s
/// `/proc/PID/stat`, after a name that may have blanks and be no UTF-8.
fn ran(stat: &[u8]) -> Option<u64> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let after = str::from_utf8(&stat[name_ends + 1..]).ok()?;
    let mut fields = after.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let (user, system) = (ticks()?, ticks()?);
    let second = sysconf(SysconfVar::CLK_TCK).ok()??;
    let second = u64::try_from(second).ok().filter(|second| *second > 0)?;
    Some((user + system) * (1_000_000_000 / second))
}

/// Return the bytes that a process has had fetched from disks, by `/proc/PID/io` (proc(5)). What it
/// writes goes there later, by other tasks.
fn fetched(io: &str) -> Option<u64> {
    let mut lines = io.lines();
    let bytes = lines.find_map(|line| line.strip_prefix("read_bytes:"))?;
    bytes.trim().parse().ok()
}

/// Return the time that its tasks have waited for a CPU: the second field of `schedstat`.
fn waited(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let of_task = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(of_task)
        .sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::time::{ClockId, clock_gettime};

    use super::*;

    #[test]
    fn the_time_is_read_after_any_name() {
        let stat = b"7 (a b) \xff) R 1 7 7 0 -1 4194560 9 0 0 0 3 4 0 0 20 0 1 0 5";
        let second = sysconf(SysconfVar::CLK_TCK)
            .unwrap()
            .unwrap()
            .cast_unsigned();
        assert_eq!(ran(stat), Some(7 * (1_000_000_000 / second)));
        assert_eq!(ran(b"7 (a"), None);
    }

    #[test]
    fn bytes_from_disks_are_told_from_those_of_calls() {
        let io = "rchar: 900\nwchar: 5\nread_bytes: 4096\nwrite_bytes: 0\n";
        assert_eq!(fetched(io), Some(4096));
        assert_eq!(fetched(""), None);
    }

    #[test]
    fn our_own_work_counts() {
        let mut times = CpuTimes::default();
        times.add(std::process::id());
        let spent = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
        let begin = spent();
        while spent() - begin < Duration::from_millis(100) {}
        let (_, cpu) = times.since().next().unwrap();
        // The kernel rounds down to ticks.
        assert!(cpu.ran.0 >= 80_000_000, "{cpu:?}");
    }
}
