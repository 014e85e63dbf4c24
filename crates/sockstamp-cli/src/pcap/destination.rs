//! Open the destination of packets, and say how many it did not get.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result, bail};
use sockstamp_bpf::packets::Lost;
use sockstamp_print::lost_packets::tell_lost;
use sockstamp_print::output;
use sockstamp_run::escape::complain;

/// Open a file, or standard output if it is not a terminal.
pub(super) fn create(path: &Path) -> Result<Box<dyn Write>> {
    if path != Path::new("-") {
        return output::create_new(path);
    }
    let stdout = io::stdout();
    if stdout.is_terminal() {
        bail!("packets are not text: - needs a pipe or a file");
    }
    let stdout = stdout
        .as_fd()
        .try_clone_to_owned()
        .context("cannot write")?;
    Ok(Box::new(BufWriter::new(File::from(stdout))))
}

/// Say how many packets were written, and how many were not.
pub(super) fn tell(written: u64, lost: Lost, all_stages: bool) {
    match all_stages {
        true => complain(format_args!(
            "{written} records written, one of a packet for each stage at which it was seen, each \
             stage an interface: take one of them (frame.interface_name), or the repeats look \
             sent again"
        )),
        false => complain(format_args!(
            "{written} packets written, each with the time where it was seen first; \
             --all-stages writes each stage"
        )),
    }
    tell_lost(lost);
}

/// Say how many packets a recording could not take.
pub(super) fn tell_unwritten(unwritten: u64) {
    if unwritten > 0 {
        complain(format_args!(
            "{unwritten} packets are missing: the recording had to end before they were written \
             (disk, --min-free or --max-size)"
        ));
    }
}
