//! The files of a recording.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sockstamp_bpf::packets;
use sockstamp_model::message::Message;
use sockstamp_model::summary::Lost;
use sockstamp_record::{Detail, PacketReader, Reader};

use crate::escape;
use crate::progress::Progress;

/// The extension of files with messages.
pub(crate) const MESSAGES: &str = "parquet";
/// The extension of files with packets.
pub(crate) const PACKETS: &str = "packets";

/// The place of a number of losses.
type Loss = fn(&mut Lost) -> &mut u64;
/// The facts that say what a recording lacks, by the reason; absent if its writer was killed. The
/// first one is as old as recordings are. A recording has no groups, and so no losses of them.
pub(crate) const LOST: [(&str, Loss); 10] = [
    ("lost", |lost| &mut lost.ring),
    ("lost_evicted", |lost| &mut lost.evicted),
    ("lost_unmatched", |lost| &mut lost.unmatched),
    ("lost_flows", |lost| &mut lost.flows),
    ("lost_mptcp", |lost| &mut lost.mptcp),
    ("lost_host_path", |lost| &mut lost.host_path),
    ("lost_turned_away", |lost| &mut lost.turned_away),
    ("lost_datagrams", |lost| &mut lost.datagrams),
    ("lost_skipped", |lost| &mut lost.skipped),
    ("lost_not_adopted", |lost| &mut lost.not_adopted),
];
/// A number of packets that a recording lacks.
type Lack = fn(packets::Lost) -> u64;
/// The facts that say how many packets it lacks, by the reason.
pub(crate) const LOST_PACKETS: [(&str, Lack); 5] = [
    ("lost_ring", |lost| lost.ring),
    ("lost_headers", |lost| lost.headers),
    ("lost_fragments", |lost| lost.fragments),
    ("lost_flows", |lost| lost.flows),
    ("lost_forgotten", |lost| lost.forgotten),
];

/// Recordings that are read, several times if needed.
pub(crate) struct Recordings(Vec<Reader>);

impl Recordings {
    /// Open files, and those of directories.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self> {
        open(&all_files(paths)?).map(Self)
    }

    /// Return what the recordings lack, as far as their writers came to note it.
    pub(crate) fn lost(&self) -> Lost {
        let mut sum = Lost::default();
        for recording in &self.0 {
            for (key, loss) in LOST {
                let count = recording.fact(key).and_then(|count| count.parse().ok());
                let all = loss(&mut sum);
                *all = all.saturating_add(count.unwrap_or(0));
            }
        }
        sum
    }

    /// Pass each message, with these columns.
    pub(crate) fn each(
        &self,
        detail: Detail,
        mut take: impl FnMut(&Message) -> Result<()>,
    ) -> Result<()> {
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

/// Return the packets that a recording lacks.
pub(crate) fn lost_packets(recording: &PacketReader) -> packets::Lost {
    let [ring, headers, fragments, flows, forgotten] = LOST_PACKETS.map(|(key, _)| {
        let count = recording.fact(key).and_then(|count| count.parse().ok());
        count.unwrap_or(0)
    });
    packets::Lost {
        ring,
        headers,
        fragments,
        flows,
        forgotten,
    }
}

/// Return these files, and all of these directories.
pub(crate) fn all_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let files: Result<Vec<_>> = paths.iter().map(|path| files(path)).collect();
    Ok(files?.concat())
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
                } else if entry
                    .extension()
                    .is_some_and(|extension| extension == MESSAGES)
                {
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
