//! The kernel's account of a program.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};

use sockstamp_model::clock::Nanos;

/// The cost of a program since it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramCost {
    /// Runs, counted while `kernel.bpf_stats_enabled` is 1.
    pub runs: u64,
    /// The time of these runs.
    pub time: Nanos,
    /// Times that the kernel skipped the program: it runs none that it has interrupted, on that
    /// CPU.
    pub skipped: u64,
}

impl ProgramCost {
    /// All of it is 0 where /proc cannot be read.
    pub(crate) fn of(program: BorrowedFd<'_>) -> Self {
        let account = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()));
        account.map_or_else(|_| Self::default(), |account| Self::parse(&account))
    }

    /// Parse an account (`bpf_prog_show_fdinfo()`, kernel/bpf/syscall.c, v5.12).
    fn parse(account: &str) -> Self {
        let field = |name: &str| {
            let value = account.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().parse().ok()
        };
        Self {
            runs: field("run_cnt:").unwrap_or(0),
            time: Nanos(field("run_time_ns:").unwrap_or(0)),
            skipped: field("recursion_misses:").unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_account_is_read() {
        let account =
            "prog_type:\t26\nrun_time_ns:\t900\nrun_cnt:\t7\nrecursion_misses:\t3\nverified_insns:\t1054\n";
        let cost = ProgramCost {
            runs: 7,
            time: Nanos(900),
            skipped: 3,
        };
        assert_eq!(ProgramCost::parse(account), cost);
        assert_eq!(ProgramCost::parse("prog_type:\t26\n"), ProgramCost::default());
    }
}
