//! Count runs of programs, by the kernel's account.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

use sockstamp_bpf::{ProgramCost, Session};

/// Keeps the kernel's count of program runs on while it lives.
pub(crate) struct Account {
    _kept: OwnedFd,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs {
    pub(crate) count: u64,
    /// Calls while the program ran on that CPU already: an interrupt came between. The kernel
    /// leaves them out (`bpf_prog_inc_misses_counter()`).
    pub(crate) missed: u64,
}

impl Account {
    pub(crate) fn open() -> Account {
        Account {
            _kept: ProgramCost::keep_account().unwrap(),
        }
    }

    /// Return how often each program runs for this traffic, if it does.
    pub(crate) fn of(&self, session: &Session, traffic: impl FnOnce()) -> BTreeMap<String, u64> {
        let before = self.runs(session);
        traffic();
        let after = self.runs(session).into_iter();
        let ran = after.map(|(program, runs)| {
            let count = runs.count - before[&program].count;
            (program, count)
        });
        ran.filter(|&(_, count)| count > 0).collect()
    }

    pub(crate) fn runs(&self, session: &Session) -> BTreeMap<String, Runs> {
        let programs = session.programs().into_iter();
        programs
            .map(|(name, program)| {
                // bpf_prog_show_fdinfo(), kernel/bpf/syscall.c, v6.1.
                let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))
                    .unwrap();
                let field = |name: &str| {
                    let value = text
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .unwrap();
                    value.trim().parse().unwrap()
                };
                let runs = Runs {
                    count: field("run_cnt:"),
                    missed: field("recursion_misses:"),
                };
                (name, runs)
            })
            .collect()
    }
}
