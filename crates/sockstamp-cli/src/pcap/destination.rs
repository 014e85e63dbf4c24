//! Open the destination of packets, and say how many it did not get.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result, bail};
use sockstamp_bpf::packets::Lost;

use crate::escape::complain;
use crate::output;

/// Open a file, or standard output if it is not a terminal.
pub(super) fn create(path: &Path) -> Result<Box<dyn Write>> {
    if path != Path::new("-") {
        return output::create(path);
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
pub(super) fn tell(written: u64, lost: Lost) {
    complain(format_args!("{written} packets written"));
    tell_lost(lost);
}

/// Say how many packets are missing, by the reason.
pub(crate) fn tell_lost(lost: Lost) {
    let reasons = [
        (lost.ring, "the buffer was full (--buffer)"),
        (lost.headers, "their headers are not in one piece of memory"),
        (
            lost.fragments,
            "they are fragments of which the first was not seen",
        ),
        (lost.flows, "there was no room for their flows"),
    ];
    for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
        complain(format_args!("{count} packets are missing: {reason}"));
    }
    if lost.forgotten > 0 {
        complain(format_args!(
            "{} flows were forgotten because there were too many: packets may be missing until they are known again",
            lost.forgotten
        ));
    }
}
