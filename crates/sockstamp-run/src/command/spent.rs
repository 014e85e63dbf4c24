//! The time that a command spends on CPUs.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use sockstamp_model::clock::Nanos;

/// The time that a command has spent on CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Of all its tasks.
    pub all: Nanos,
    /// Of the first task of its first process, on a CPU or waiting for one.
    pub first: Nanos,
    /// The least time in which any of its tasks waited for a CPU: that of the first one, or, where
    /// the kernel counts that (CONFIG_PSI), of any, the mean of the CPUs that had work for them.
    pub delayed: Nanos,
    /// The time in which tasks waited for a CPU, and none of them ran there: the mean of CPUs.
    pub held: Nanos,
    /// CPUs that it can use at once.
    pub cpus: usize,
}

/// The counters of one task: proc_pid_schedstat(), fs/proc/base.c.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Task {
    ran: Nanos,
    delayed: Nanos,
}

impl Task {
    /// Read those of a process' first task, which are there until it has been waited for.
    pub(super) fn of_process(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        let mut counters = text.split_whitespace().map(str::parse);
        let mut next = || counters.next()?.ok().map(Nanos);
        Some(Self {
            ran: next()?,
            delayed: next()?,
        })
    }
}

impl Spent {
    /// Return what the tasks of a cgroup have spent, `first` among them.
    pub(super) fn of_cgroup(cgroup: &Path, first: Task) -> Option<Self> {
        let stat = fs::read_to_string(cgroup.join("cpu.stat")).ok()?;
        let pressure = fs::read_to_string(cgroup.join("cpu.pressure")).unwrap_or_default();
        Some(Self {
            all: usage(&stat)?,
            first: first.ran + first.delayed,
            delayed: stalled(&pressure, "some")
                .unwrap_or_default()
                .max(first.delayed),
            held: stalled(&pressure, "full").unwrap_or_default(),
            cpus: thread::available_parallelism().map_or(1, NonZeroUsize::get),
        })
    }

    /// Return the least time in which one of its tasks ran, or waited for a CPU.
    ///
    /// Each is a bound: what the first task did; what all did, spread over the CPUs, where
    /// pressure is the mean of those that had work (kernel/sched/psi.c, v6.18); when any waited.
    #[must_use]
    pub fn least(&self) -> Nanos {
        let spread = self.all.0 / u64::try_from(self.cpus.max(1)).unwrap_or(1);
        let all = Nanos(spread) + self.held;
        all.max(self.first).max(self.delayed)
    }
}

/// `usage_usec 1234`
fn usage(stat: &str) -> Option<Nanos> {
    let micros = stat
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "))?;
    micros.parse().ok().map(Nanos::from_micros)
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`, or `full`.
fn stalled(pressure: &str, kind: &str) -> Option<Nanos> {
    let line = pressure
        .lines()
        .find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
    let (_, micros) = line.rsplit_once("total=")?;
    micros.parse().ok().map(Nanos::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_read() {
        assert_eq!(
            usage("usage_usec 1500\nuser_usec 1000\n"),
            Some(Nanos(1_500_000))
        );
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=42\nfull avg10=0.00 total=7\n";
        assert_eq!(stalled(pressure, "some"), Some(Nanos(42_000)));
        assert_eq!(stalled(pressure, "full"), Some(Nanos(7_000)));
        assert_eq!(stalled("", "full"), None);
        assert_eq!(usage("nr_periods 3\n"), None);
    }

    #[test]
    fn one_task_ran_or_waited_for_a_cpu_at_least_as_long_as_the_busiest() {
        let spent = Spent {
            all: Nanos(100),
            first: Nanos(60),
            delayed: Nanos(0),
            held: Nanos(0),
            cpus: 4,
        };
        assert_eq!(spent.least(), Nanos(60));
        let spread = Spent {
            first: Nanos(10),
            ..spent
        };
        assert_eq!(spread.least(), Nanos(25));
        let held = Spent {
            delayed: Nanos(30),
            held: Nanos(20),
            ..spread
        };
        assert_eq!(held.least(), Nanos(45));
        let delayed = Spent {
            delayed: Nanos(70),
            ..held
        };
        assert_eq!(delayed.least(), Nanos(70));
    }
}
