//! The option of whose messages they are.

use clap::Args;
use sockstamp_run::target::process_name;

use super::filter::HEADING;

/// Processes, by number and by name. Where both are given, both must hold.
#[derive(Debug, Clone, Default, Args)]
pub struct Processes {
    /// Messages that these processes send or read, on connections they opened, listened for or hold
    /// at the start; the end of the last one ends the measurement
    #[arg(
        short,
        long = "pid",
        value_name = "PID",
        value_delimiter = ',',
        value_parser = process,
        help_heading = HEADING,
    )]
    pub pids: Vec<u32>,
    /// The same, for processes of this name (as ps -C), including those that start later
    #[arg(
        long = "comm",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = process_name,
        help_heading = HEADING,
    )]
    pub comms: Vec<String>,
}

impl Processes {
    /// Return true if any are named.
    pub(crate) fn are_named(&self) -> bool {
        !self.pids.is_empty() || !self.comms.is_empty()
    }
}

fn process(text: &str) -> Result<u32, String> {
    let number = text.parse();
    number.map_err(|_| "a process is a number (--comm has names)".to_owned())
}
