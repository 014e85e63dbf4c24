//! The files of a recording.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sockstamp_model::message::Message;
use sockstamp_record::{Detail, Reader};

use crate::escape;
use crate::progress::Progress;

/// The extension of files with packets.
pub(crate) const PACKETS: &str = "packets";

/// Recordings that are read, several times if needed.
pub(crate) struct Recordings(Vec<Reader>);

impl Recordings {
    pub(crate) fn open(files: &[PathBuf]) -> Result<Self> {
        open(files).map(Self)
    }

    /// Pass each message, with these columns.
    pub(crate) fn each(&self, detail: Detail, mut take: impl FnMut(&Message) -> Result<()>) -> Result<()> {
        let mut progress = Progress::new(self.0.iter().map(Reader::rows).sum())?;
        self.0.iter().try_for_each(|recording| {
            recording.each(detail, |message| {
                progress.step()?;
                take(message)
            })
        })
    }
}

/// Open files; report rows that their writers had no time to finish.
pub(crate) fn open(files: &[PathBuf]) -> Result<Vec<Reader>> {
    let readers: Result<Vec<_>, _> = files.iter().map(|path| Reader::open(path)).collect();
    let readers = readers?;
    readers.iter().for_each(tell_what_is_unread);
    Ok(readers)
}

fn tell_what_is_unread(recording: &Reader) {
    if recording.unread() > 0 {
        escape::complain(format_args!(
            "{}: its last {} bytes belong to unfinished messages: the recording was killed",
            recording.path().display(),
            recording.unread()
        ));
    }
}

/// Return the path, or all files of a recording below it by time:
/// `date=…/hour=…/host=…/….parquet`.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    const LEVELS: usize = 3;
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut directories = vec![path.to_owned()];
    let mut files = Vec::new();
    for _ in 0..=LEVELS {
        for directory in std::mem::take(&mut directories) {
            let entries = directory
                .read_dir()
                .with_context(|| format!("cannot read {}", directory.display()))?;
            for entry in entries {
                let entry = entry
                    .with_context(|| format!("cannot read {}", directory.display()))?
                    .path();
                if entry.is_dir() {
                    directories.push(entry);
                } else if entry.extension().is_some_and(|extension| extension == "parquet") {
                    files.push(entry);
                }
            }
        }
    }
    if files.is_empty() {
        bail!("{} contains no recording", path.display());
    }
    files.sort();
    Ok(files)
}
