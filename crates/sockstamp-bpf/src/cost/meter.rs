//! The cost of programs by the kernel's own account, in short looks: while it keeps that account it
//! reads the clock twice per run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::account::ProgramCost;
use crate::clock::{monotonic_now, process_now};
use crate::error::{Error, Tried};
use crate::privilege::with_capabilities;

/// The time of entering and leaving a program, which the account leaves out: 10 to 20 ns on common
/// CPUs.
const ENTRY_NS: u64 = 15;

/// Over a shorter time the process's own part is meaningless.
const PROCESS: Duration = Duration::from_secs(1);

/// A reading of the account.
struct Look {
    since: u64,
    before: u64,
    /// The kernel keeps the account as long as this is open.
    _account: OwnedFd,
}

/// Samples of the cost of programs.
pub(super) struct Meter {
    programs: Vec<OwnedFd>,
    /// Programs that come and go with what the target does.
    passing: Vec<OwnedFd>,
    look: Option<Look>,
    process: (u64, u64),
}

impl Meter {
    pub(super) fn new<'a>(programs: impl Iterator<Item = &'a OwnedFd>) -> Result<Self, Error> {
        let programs = programs.map(OwnedFd::try_clone).collect::<io::Result<_>>();
        Ok(Self {
            programs: programs.tried("keep the programs open")?,
            passing: Vec::new(),
            look: None,
            process: (monotonic_now(), process_now()),
        })
    }

    /// Sample these beside the others from now on. A look that has begun did not see them begin.
    pub(super) fn sample_too(&mut self, programs: Vec<OwnedFd>) {
        self.passing = programs;
        self.discard();
    }

    /// Begin to count the process's own part.
    pub(super) fn begin_process(&mut self) {
        self.process = (monotonic_now(), process_now());
    }

    /// Begin a look. Without CAP_SYS_ADMIN the kernel keeps no account.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        let account = with_capabilities(|| {
            ProgramCost::keep_account().tried("have the kernel count the cost of programs")
        })?;
        self.look = Some(Look {
            since: monotonic_now(),
            before: self.spent(),
            _account: account,
        });
        Ok(())
    }

    /// Forget the look.
    pub(super) fn discard(&mut self) {
        self.look = None;
    }

    pub(super) fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// End the look; return the cost in parts of one core's time, and the seconds that it took.
    pub(super) fn end(&mut self) -> Option<(f64, f64)> {
        let look = self.look.take()?;
        let spent = self.spent().saturating_sub(look.before);
        let time = monotonic_now().saturating_sub(look.since);
        Some((part(spent, time)?, time as f64 / 1e9))
    }

    /// Leave out CPU time of the process that is accounted elsewhere.
    pub(super) fn leave_out(&mut self, spent: Duration) {
        let spent = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        self.process.1 = self.process.1.saturating_add(spent);
    }

    /// Return the process's own part of one core's time since the last call that returned one, and
    /// the seconds since.
    pub(super) fn process(&mut self) -> Option<(f64, f64)> {
        let now = (monotonic_now(), process_now());
        let (time, spent) = (now.0 - self.process.0, now.1.saturating_sub(self.process.1));
        if Duration::from_nanos(time) < PROCESS {
            return None;
        }
        self.process = now;
        Some((part(spent, time)?, time as f64 / 1e9))
    }

    fn spent(&self) -> u64 {
        let programs = self.programs.iter().chain(&self.passing);
        let costs = programs.map(|program| ProgramCost::of(program.as_fd()));
        costs.map(|cost| cost.time.0 + cost.runs * ENTRY_NS).sum()
    }
}

fn part(spent: u64, time: u64) -> Option<f64> {
    (time > 0).then(|| spent as f64 / time as f64)
}
