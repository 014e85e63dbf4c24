//! The files of a recording: their names, and when the next ones begin.

mod room;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use sockstamp_bpf::packets;
use sockstamp_host::places::Places;
use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::Lost;
use sockstamp_model::wait::Waits;
use sockstamp_record::{Batch, Error, FileWriter, Packets, Rows, WaitRows};
use sockstamp_run::directory::{self, Trusted};
use sockstamp_run::utc::utc;

use super::host;
use super::turn::{HOUR, Turn};
use crate::recordings::ENDED;
use crate::recordings::waits::{
    ATTEMPTS, LOST_WAITS, OLDER, OWED, PROCESSES, UNIX_ATTEMPTS, of_attempts, of_sockets,
    of_unix_attempts,
};
use crate::recordings::{
    LOST, LOST_PACKETS, MESSAGES, RECORDING, SLOW_ONLY, UNWRITTEN, packets_beside, waits_beside,
};

/// The limits of a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) file_bytes: u64,
    pub(crate) file_time: Duration,
    /// Row groups of a file in a directory: its writer and its readers hold what describes them.
    pub(crate) file_groups: usize,
    /// None: no limit.
    pub(crate) all_bytes: Option<u64>,
    pub(crate) free_bytes: u64,
}

/// The contents of all files of one kind, removed ones included.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) removed: u64,
}

impl Written {
    fn add(&mut self, (rows, bytes): (u64, u64)) {
        self.rows += rows;
        self.bytes += bytes;
    }
}

/// Rows that were measured, and could not be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) messages: u64,
    pub(crate) packets: u64,
    pub(crate) waits: u64,
}

/// The choice of messages and how it was made, for their readers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// Multiples of two to the power of this.
    pub(crate) in_step: Option<u32>,
    /// The limit above which messages are recorded.
    pub(crate) slow_only: Option<Duration>,
    /// Facts of its making.
    pub(crate) provenance: Vec<(&'static str, String)>,
}

/// The file that is written, and those before it. Those of packets and of waits have the same name.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    is_directory: bool,
    limits: Limits,
    host: String,
    /// The moment at which the recording began, in nanoseconds since 1970: no other has it.
    began: u128,
    choice: Choice,
    has_packets: bool,
    current: Option<Current>,
    /// The oldest first.
    finished: VecDeque<Finished>,
    pub(crate) messages: Written,
    pub(crate) packets: Option<Written>,
    pub(crate) waits: Written,
    pub(crate) missing: Missing,
}

#[derive(Debug)]
struct Current {
    messages: FileWriter<Batch>,
    packets: Option<FileWriter<Packets>>,
    /// The file begins with the first wait: most recordings have few of them, or none.
    waits: Option<FileWriter<WaitRows>>,
    /// Since 1970.
    hour: u64,
}

impl Current {
    fn bytes(&self) -> u64 {
        self.messages.bytes()
            + self.packets.as_ref().map_or(0, FileWriter::bytes)
            + self.waits.as_ref().map_or(0, FileWriter::bytes)
    }

    /// The bytes of all files once they are finished.
    fn length(&self) -> u64 {
        self.messages.length()
            + self.packets.as_ref().map_or(0, FileWriter::length)
            + self.waits.as_ref().map_or(0, FileWriter::length)
    }

    fn rows(&self) -> u64 {
        self.messages.rows()
            + self.packets.as_ref().map_or(0, FileWriter::rows)
            + self.waits.as_ref().map_or(0, FileWriter::rows)
    }

    fn groups(&self) -> usize {
        let packets = self.packets.as_ref().map_or(0, FileWriter::groups);
        let waits = self.waits.as_ref().map_or(0, FileWriter::groups);
        self.messages.groups().max(packets).max(waits)
    }
}

/// The files of messages and of packets.
type Files = (FileWriter<Batch>, Option<FileWriter<Packets>>);

#[derive(Debug)]
struct Finished {
    messages: PathBuf,
    /// Files beside it.
    others: Vec<PathBuf>,
    bytes: u64,
}

impl Place {
    /// Create the first files. Files that exist remain as they are.
    pub(crate) fn new(
        path: &Path,
        has_packets: bool,
        limits: Limits,
        choice: Choice,
    ) -> Result<Self> {
        let mut place = Self {
            path: path.to_owned(),
            is_directory: is_directory(path),
            limits,
            host: host::name(),
            began: since_1970().as_nanos(),
            choice,
            has_packets,
            current: None,
            finished: VecDeque::new(),
            messages: Written::default(),
            packets: has_packets.then(Written::default),
            waits: Written::default(),
            missing: Missing::default(),
        };
        if !place.is_directory {
            refuse_special(path)?;
            if has_packets {
                refuse_special(&packets_beside(path))?;
            }
        }
        // A path that cannot be written is reported before anything is measured.
        place.begin(now())?;
        if let Err(error) = place.check_free() {
            place.discard();
            return Err(error);
        }
        Ok(place)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Return the time of the files of a directory.
    pub(super) fn turn(&self) -> Option<Turn> {
        let current = self.current.as_ref().filter(|_| self.is_directory)?;
        Some(Turn::new(current.hour, self.limits.file_time))
    }

    /// Append messages.
    pub(crate) fn write(&mut self, batch: &Batch) -> Result<()> {
        let written = self.append(batch, |current| Some(&mut current.messages));
        written.inspect_err(|_| self.miss_messages(batch))?;
        self.keep_below_limit()
    }

    /// Append packets.
    pub(crate) fn write_packets(&mut self, batch: &Packets) -> Result<()> {
        let written = self.append(batch, |current| current.packets.as_mut());
        written.inspect_err(|_| self.miss_packets(batch))?;
        self.keep_below_limit()
    }

    /// Append waits.
    pub(crate) fn write_waits(&mut self, batch: &WaitRows) -> Result<()> {
        let written = self
            .begin_waits()
            .and_then(|()| self.append(batch, |current| current.waits.as_mut()));
        written.inspect_err(|_| self.miss_waits(batch))?;
        self.keep_below_limit()
    }

    /// Begin the file of waits, if there is none.
    fn begin_waits(&mut self) -> Result<()> {
        self.make_ready()?;
        let facts = self.facts();
        if let Some(current) = &mut self.current
            && current.waits.is_none()
        {
            let path = waits_beside(current.messages.path());
            current.waits = Some(FileWriter::create(&path, &facts)?);
            self.waits.files += 1;
        }
        Ok(())
    }

    /// Count messages that are not written.
    pub(crate) fn miss_messages(&mut self, batch: &Batch) {
        self.missing.messages += batch.len() as u64;
    }

    /// Count packets that are not written.
    pub(crate) fn miss_packets(&mut self, batch: &Packets) {
        self.missing.packets += batch.len() as u64;
    }

    /// Count waits that are not written.
    pub(crate) fn miss_waits(&mut self, batch: &WaitRows) {
        self.missing.waits += batch.len() as u64;
    }

    /// Append a batch to one of the current files, which `file` returns.
    fn append<T: Rows>(
        &mut self,
        batch: &T,
        file: impl FnOnce(&mut Current) -> Option<&mut FileWriter<T>>,
    ) -> Result<()> {
        self.make_ready()?;
        let all = self.current.as_ref().map_or(0, Current::length);
        let Some(file) = self.current.as_mut().and_then(file) else {
            return Ok(());
        };
        let others = all.saturating_sub(file.length());
        // In a directory, older files make room.
        let limit = self.limits.all_bytes.filter(|_| !self.is_directory);
        let most = limit.map_or(u64::MAX, |limit| limit.saturating_sub(others));
        if !file.write_within(batch, most)? {
            bail!(
                "{} has reached --max-size: recording stops",
                self.path.display()
            );
        }
        Ok(())
    }

    /// Note what the recording lacks, in its last file. Missing messages count as lost; packets
    /// have a fact of their own, because a larger buffer would not have kept them.
    pub(crate) fn note_lost(&mut self, mut messages: Lost, packets: packets::Lost) {
        messages.ring += self.missing.messages;
        let Some(current) = &mut self.current else {
            return;
        };
        for (key, loss) in LOST {
            current
                .messages
                .add_fact(key, loss(&mut messages).to_string());
        }
        let end = since_1970().as_nanos();
        current.messages.add_fact(ENDED, end.to_string());
        // Some have got their names meanwhile.
        for (key, fact) in Places::here().facts() {
            current.messages.add_fact(key, fact);
        }
        if let Some(file) = &mut current.packets {
            for (key, of) in LOST_PACKETS {
                file.add_fact(key, of(packets).to_string());
            }
            if self.missing.packets > 0 {
                file.add_fact(UNWRITTEN, self.missing.packets.to_string());
            }
        }
    }

    /// Note what is known of waits without a row: all attempts, whose answers were owed, which
    /// connections are older, the number of those that are missing, and the names of processes.
    pub(crate) fn note_waits(&mut self, waits: &Waits, processes: String) {
        let missing = self.missing.waits.saturating_add(waits.lost);
        let Some(current) = &mut self.current else {
            return;
        };
        let file = &mut current.messages;
        file.add_fact(LOST_WAITS, missing.to_string());
        file.add_fact(PROCESSES, processes);
        file.add_fact(OWED, of_sockets(&waits.owed));
        file.add_fact(OLDER, of_sockets(&waits.older));
        if let Ok(attempts) = of_attempts(&waits.attempts) {
            file.add_fact(ATTEMPTS, attempts);
        }
        if let Ok(attempts) = of_unix_attempts(&waits.unix_attempts) {
            file.add_fact(UNIX_ATTEMPTS, attempts);
        }
    }

    /// Return true if no row was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.files <= 1 && self.current.as_ref().map_or(0, Current::rows) == 0
    }

    /// Remove the current files: nothing was measured.
    pub(crate) fn discard(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        self.discard_files(current);
    }

    fn discard_files(&mut self, files: Current) {
        // The reason why nothing was measured is reported, not a file that remains.
        let _ = files.messages.discard();
        let _ = files.packets.map(FileWriter::discard);
        self.messages.files -= 1;
        if let Some(written) = &mut self.packets {
            written.files -= 1;
        }
        if let Some(waits) = files.waits {
            let _ = waits.discard();
            self.waits.files -= 1;
        }
    }

    /// Finish the last files.
    pub(crate) fn end(&mut self) -> Result<()> {
        match self.current.take() {
            Some(current) => self.finish(current),
            None => Ok(()),
        }
    }

    fn finish(&mut self, current: Current) -> Result<()> {
        let path = current.messages.path().to_owned();
        let packets = current.packets.as_ref().map(|file| file.path().to_owned());
        let waits = current.waits.as_ref().map(|file| file.path().to_owned());
        let others = packets.into_iter().chain(waits).collect();
        // All are finished, whichever fails.
        let messages = current.messages.finish();
        let packets = current.packets.map(FileWriter::finish).transpose();
        let waits = current.waits.map(FileWriter::finish).transpose();
        let (messages, packets, waits) = (messages?, packets?, waits?);
        self.messages.add(messages);
        if let (Some(written), Some(packets)) = (&mut self.packets, packets) {
            written.add(packets);
        }
        waits.into_iter().for_each(|waits| self.waits.add(waits));
        let bytes = [Some(messages), packets, waits].into_iter().flatten();
        self.finished.push_back(Finished {
            messages: path,
            others,
            bytes: bytes.map(|(_, bytes)| bytes).sum(),
        });
        Ok(())
    }

    /// Begin new files for rows of this time, in seconds since 1970, and finish the last ones, or
    /// remove them if they have no row. If that is refused, these can still note it.
    pub(crate) fn begin_next(&mut self, seconds: u64) -> Result<()> {
        let last = self.current.take();
        if let Err(error) = self.begin(seconds) {
            self.current = last;
            return Err(error);
        }
        match last {
            Some(last) if last.rows() == 0 => self.discard_files(last),
            Some(last) => self.finish(last)?,
            None => {}
        }
        Ok(())
    }

    /// Begin new files in the hour of the last ones: their rows have waited since then.
    fn begin_another(&mut self) -> Result<()> {
        let begin = self.current.as_ref().map(|current| current.hour * HOUR);
        let seconds = begin.map_or_else(now, |begin| now().clamp(begin, begin + HOUR - 1));
        self.begin_next(seconds)
    }

    /// Begin new files if the last ones have reached a limit of size. [`Turn`] has those of time.
    fn make_ready(&mut self) -> Result<()> {
        if self.is_directory
            && self
                .current
                .as_ref()
                .is_some_and(|current| self.is_over(current))
        {
            self.begin_another()?;
        }
        self.check_free()
    }

    fn begin(&mut self, seconds: u64) -> Result<()> {
        let (messages, packets) = match self.is_directory {
            false => self.create(&self.path)?,
            true => self.create_in_directory(seconds)?,
        };
        self.messages.files += 1;
        if let Some(written) = &mut self.packets {
            written.files += 1;
        }
        self.current = Some(Current {
            messages,
            packets,
            waits: None,
            hour: seconds / HOUR,
        });
        Ok(())
    }

    /// Return the facts that all files have.
    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("host", self.host.clone()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            (RECORDING, self.began.to_string()),
        ]
    }

    /// Create a file of messages, and one of packets beside it.
    fn create(&self, path: &Path) -> Result<Files, Error> {
        let beside = packets_beside(path);
        let waits = waits_beside(path);
        if waits.exists() {
            return Err(Error::Exists { path: waits });
        }
        let mut facts = self.facts();
        let packets = match self.has_packets {
            true => Some(FileWriter::create(&beside, &facts)?),
            // Readers would take them for those of these messages.
            false if beside.exists() => return Err(Error::Exists { path: beside }),
            false => None,
        };
        let Choice {
            in_step,
            slow_only,
            provenance,
        } = &self.choice;
        facts.extend(provenance.iter().cloned());
        facts.extend(in_step.map(|bits| ("in_step", bits.to_string())));
        facts.extend(slow_only.map(|time| (SLOW_ONLY, Nanos::from(time).0.to_string())));
        facts.extend(Places::here().facts());
        match FileWriter::create(path, &facts) {
            Ok(messages) => Ok((messages, packets)),
            Err(error) => {
                // The first error is reported.
                let _ = packets.map(FileWriter::discard);
                Err(error)
            }
        }
    }

    /// Create files at a path of numbers and the host's name, none of which leads elsewhere.
    fn create_in_directory(&self, seconds: u64) -> Result<Files> {
        let [date, hour, time] = utc(seconds);
        let directory = self
            .path
            .join(format!("date={date}"))
            .join(format!("hour={hour}"))
            .join(format!("host={}", self.host));
        // Files are removed there later: nobody else may turn it into a link.
        directory::make(&directory, &Trusted::ours_and_sudos())?;
        for number in 0..10_000 {
            let path = directory.join(format!("{time}-{number}.{MESSAGES}"));
            match self.create(&path) {
                // Another recording has this name.
                Err(Error::Exists { .. } | Error::Busy { .. }) => {}
                created => return Ok(created?),
            }
        }
        bail!("{} has too many files", directory.display())
    }

    fn is_over(&self, current: &Current) -> bool {
        current.bytes() >= self.limits.file_bytes || current.groups() >= self.limits.file_groups
    }
}

/// Return true if files are made in this directory, and none of this name.
pub(super) fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Refuse a pipe or a device: a pipe waits for its reader, and neither can be read back.
fn refuse_special(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(there) if !there.is_file() => bail!(
            "{} is not a regular file, as a recording has to be: name a new file or a directory",
            path.display()
        ),
        _ => Ok(()),
    }
}

/// The seconds since 1970.
fn now() -> u64 {
    since_1970().as_secs()
}

fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}
