//! The kernel's own account of the time that programs ran.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};

use anyhow::{Context, Result};

/// Runs and time of one program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) hook: String,
    pub(crate) runs: u64,
    pub(crate) nanoseconds: u64,
}

impl Runs {
    fn since(self, earlier: &Self) -> Self {
        Self {
            runs: self.runs - earlier.runs,
            nanoseconds: self.nanoseconds - earlier.nanoseconds,
            ..self
        }
    }
}

/// Return the runs and times so far. `prefix` precedes the hook in the names of programs.
pub(crate) fn read(programs: &[(String, BorrowedFd<'_>)], prefix: &str) -> Result<Vec<Runs>> {
    let of_one = |(name, program): &(String, BorrowedFd<'_>)| {
        let hook = name.strip_prefix(prefix).unwrap_or(name).to_owned();
        // bpf_prog_show_fdinfo(), kernel/bpf/syscall.c, v6.18.
        let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        parse(hook, &text).with_context(|| format!("{path} does not say how long {name} ran"))
    };
    programs.iter().map(of_one).collect()
}

pub(crate) fn since(now: Vec<Runs>, earlier: &[Runs]) -> Vec<Runs> {
    now.into_iter()
        .zip(earlier)
        .map(|(now, earlier)| now.since(earlier))
        .collect()
}

fn parse(hook: String, fdinfo: &str) -> Option<Runs> {
    let field = |name: &str| {
        let value = fdinfo.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse().ok()
    };
    Some(Runs {
        hook,
        runs: field("run_cnt:")?,
        nanoseconds: field("run_time_ns:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_read_from_fdinfo() {
        let text = "pos:\t0\nprog_id:\t7\nrun_time_ns:\t1200\nrun_cnt:\t8\nrecursion_misses:\t0\n";
        let runs = parse("sockops".to_owned(), text).unwrap();
        assert_eq!((runs.runs, runs.nanoseconds), (8, 1200));
        assert_eq!(parse("sockops".to_owned(), "pos:\t0\n"), None);
    }
}
