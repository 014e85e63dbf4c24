//! `sockstamp notifications`, which runs only while it is used: its program is called for the error
//! queue of every socket.

use std::env;
use std::path::PathBuf;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::signal::Signal;
use sockstamp::completions::Completions;
use testbed::Process;

use crate::command;

/// Time to load programs: usually some tenths of a second.
const STARTS_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

pub(crate) struct Service {
    process: Process,
    socket: PathBuf,
}

impl Service {
    pub(crate) fn start() -> Result<Self> {
        let socket = env::temp_dir().join(format!("sockstamp-bench-{}.socket", process::id()));
        let mut command = command::sockstamp()?;
        command.arg("notifications").arg("--socket").arg(&socket);
        let process = Process::spawn(command)?;
        Ok(Self { process, socket })
    }

    pub(crate) fn connect(&mut self) -> Result<Completions> {
        let began = Instant::now();
        loop {
            match Completions::connect(&self.socket) {
                Ok(completions) => return Ok(completions),
                Err(_) if self.process.is_running()? && began.elapsed() < STARTS_WITHIN => {
                    thread::sleep(LOOK_AGAIN);
                }
                Err(error) => bail!(
                    "sockstamp notifications: {error}\n{}",
                    self.process.stderr()
                ),
            }
        }
    }

    /// End it and wait, so that it disturbs no later round.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::SIGTERM)?;
        self.process.wait_status(STARTS_WITHIN)?;
        Ok(())
    }
}
