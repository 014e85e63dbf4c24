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
    /// Of the first task of its first process.
    pub first: Nanos,
    /// The time in which any of its tasks waited for a CPU; where the kernel does not count that
    /// (CONFIG_PSI), the first one alone.
    pub delayed: Nanos,
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
        let pressure = fs::read_to_string(cgroup.join("cpu.pressure")).ok();
        Some(Self {
            all: usage(&stat)?,
            first: first.ran,
            delayed: pressure
                .and_then(|text| some_pressure(&text))
                .unwrap_or(first.delayed),
            cpus: thread::available_parallelism().map_or(1, NonZeroUsize::get),
        })
    }

    /// Return the time in which at least one of its tasks ran.
    #[must_use]
    pub fn least(&self) -> Nanos {
        let spread = self.all.0 / u64::try_from(self.cpus.max(1)).unwrap_or(1);
        Nanos(spread).max(self.first)
    }
}

/// `usage_usec 1234`
fn usage(stat: &str) -> Option<Nanos> {
    let micros = stat
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "))?;
    micros.parse().ok().map(Nanos::from_micros)
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`
fn some_pressure(pressure: &str) -> Option<Nanos> {
    let some = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    let (_, micros) = some.rsplit_once("total=")?;
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
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=42\nfull avg10=0.00 total=0\n";
        assert_eq!(some_pressure(pressure), Some(Nanos(42_000)));
        assert_eq!(usage("nr_periods 3\n"), None);
    }

    #[test]
    fn one_task_ran_at_least_as_long_as_the_busiest() {
        let spent = Spent {
            all: Nanos(100),
            first: Nanos(60),
            delayed: Nanos(0),
            cpus: 4,
        };
        assert_eq!(spent.least(), Nanos(60));
        let spread = Spent {
            first: Nanos(10),
            ..spent
        };
        assert_eq!(spread.least(), Nanos(25));
    }
}
