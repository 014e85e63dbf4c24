use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::error::{Context, Error, Result};
use crate::sys;

/// A priority below the threads of a relay, which may need the same CPU. At equal priority the
/// running thread continues: SCHED_FIFO of sched(7).
const PRIORITY: i32 = 1;

/// Keeps a processor from all ordinary tasks for some time: a thread of real-time priority that
/// computes.
///
/// The kernel gives real-time threads 95 % of each second (`sched_rt_runtime_us`), so keep it
/// shorter than that.
#[derive(Debug)]
pub struct Hog(JoinHandle<io::Result<Duration>>);

impl Hog {
    /// Starts on a processor, and returns when it has it.
    pub fn start(processor: usize, time: Duration) -> Result<Hog> {
        let (started, has_started) = mpsc::channel();
        let thread = thread::spawn(move || {
            run_first_on(processor)?;
            let end = now()? + time;
            // Ignore the error: the waiting thread may be gone.
            let _ = started.send(());
            while now()? < end {
                std::hint::spin_loop();
            }
            now()
        });
        // Let finish() report the reason if the thread ended before it had started.
        match has_started.recv() {
            Ok(()) => Ok(Hog(thread)),
            Err(_) => Err(Hog(thread)
                .finish()
                .err()
                .unwrap_or(Error::Missing("a hog"))),
        }
    }

    /// Wait for its end. When it gave the processor back, by CLOCK_MONOTONIC.
    pub fn finish(self) -> Result<Duration> {
        let result = self.0.join().expect("the hog does not panic");
        result.context("keep", "a processor busy")
    }
}

/// Let the calling thread run on one processor alone, before all ordinary tasks; a [`Hog`] it lets
/// finish first.
pub fn run_first_on(processor: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor)?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    sys::become_real_time(PRIORITY)
}

fn now() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}
