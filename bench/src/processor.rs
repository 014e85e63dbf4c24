//! Assign CPUs. Client and server share one: then the whole cost of a hook is part of the round
//! trip, nothing hides in idle time, and no wake-up crosses CPUs, which on a virtual machine takes
//! longer, and varies more, than everything measured here. The reader of records is on another one.

use std::thread;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::Serialize;

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Processors {
    pub(crate) count: usize,
    /// The CPU of the client and the server.
    pub(crate) load: usize,
    /// The CPU of the process that attaches the programs and reads their records.
    pub(crate) sockstamp: usize,
}

impl Processors {
    /// Choose among those that this process may use.
    pub(crate) fn find() -> Result<Self> {
        let set = sched_getaffinity(Pid::from_raw(0)).context("cannot ask for the processors")?;
        let is_ours = |&processor: &usize| set.is_set(processor).unwrap_or(false);
        let ours: Vec<_> = (0..CpuSet::count()).filter(is_ours).collect();
        let (first, last) = ours
            .first()
            .zip(ours.last())
            .context("no processor may be used")?;
        Ok(Self {
            count: ours.len(),
            load: *last,
            sockstamp: *first,
        })
    }
}

/// Keep the calling thread, and those it starts, on one processor.
pub(crate) fn stay_on(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor).context("no such processor")?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .with_context(|| format!("cannot pin to CPU {processor}"))
}

/// Work on a thread that runs, with all that it starts, on every processor of the machine.
pub(crate) fn on_all<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let work = || {
        roam()?;
        work()
    };
    thread::scope(|scope| scope.spawn(work).join().expect("it returns its errors"))
}

/// Let the calling thread, and those it starts, run on every processor of the machine.
fn roam() -> Result<()> {
    let mut set = CpuSet::new();
    (0..CpuSet::count()).try_for_each(|processor| set.set(processor))?;
    sched_setaffinity(Pid::from_raw(0), &set).context("cannot run on all processors")
}
