//! Open the destination of packets, and say how many it did not get.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
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
        refuse_recording(path)?;
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

/// Refuse to write over a recording: it is easily confused with the file of packets.
pub(super) fn refuse_recording(path: &Path) -> Result<()> {
    // To open a pipe is to wait for its other end.
    if !path.metadata().is_ok_and(|there| there.is_file()) {
        return Ok(());
    }
    let mut begin = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    if read.is_ok() && begin == *b"PAR1" {
        bail!(
            "{} is a Parquet file, as recordings are: name another, or remove it",
            path.display()
        );
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::fs;

    use sockstamp_record::Writer;
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_recording_is_not_written_over() {
        let directory = tempdir().unwrap();
        let [recording, packets] = ["recording", "packets"].map(|name| directory.path().join(name));
        Writer::create(&recording, &[]).unwrap().finish().unwrap();
        let before = fs::read(&recording).unwrap();
        let told = create(&recording).err().unwrap().to_string();
        assert!(told.contains("recording is a Parquet file"), "{told}");
        assert_eq!(fs::read(&recording).unwrap(), before);
        for content in ["", "PA", "packets of yesterday"] {
            fs::write(&packets, content).unwrap();
            assert!(create(&packets).is_ok(), "{content}");
        }
    }
}
