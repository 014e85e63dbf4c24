//! The files of a recording: their names, their sizes, and the room that is left for them.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use nix::sys::statvfs::statvfs;
use sockstamp_bpf::packets;
use sockstamp_host::places::Places;
use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::Lost;
use sockstamp_model::wait::Attempts;
use sockstamp_record::{Batch, Error, FileWriter, Packets, Rows, WaitRows};
use sockstamp_run::directory::{self, Trusted};
use sockstamp_run::utc::utc;

use super::host;
use super::turn::{HOUR, Turn};
use crate::recordings::waits::{ATTEMPTS, LOST_WAITS, PROCESSES, WAITS, of_attempts, waits_beside};
use crate::recordings::{
    LOST, LOST_PACKETS, MESSAGES, RECORDING, SLOW_ONLY, UNWRITTEN, packets_beside,
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

/// The choice of messages, for their readers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Choice {
    /// Multiples of two to the power of this.
    pub(crate) in_step: Option<u32>,
    /// The limit above which messages are recorded.
    pub(crate) slow_only: Option<Duration>,
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

    /// Note what is known of waits without a row: all attempts, the number of those that are
    /// missing, and the names of processes.
    pub(crate) fn note_waits(&mut self, attempts: &[Attempts], lost: u64, processes: String) {
        let missing = self.missing.waits.saturating_add(lost);
        let Some(current) = &mut self.current else {
            return;
        };
        let file = &mut current.messages;
        file.add_fact(LOST_WAITS, missing.to_string());
        file.add_fact(PROCESSES, processes);
        if let Ok(attempts) = of_attempts(attempts) {
            file.add_fact(ATTEMPTS, attempts);
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
        let Choice { in_step, slow_only } = self.choice;
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

    fn check_free(&self) -> Result<()> {
        let Some(current) = &self.current else {
            return Ok(());
        };
        let path = current.messages.path();
        let system = statvfs(path)
            .with_context(|| format!("cannot read the free space of {}", path.display()))?;
        let free = system
            .blocks_available()
            .saturating_mul(system.fragment_size());
        if free < self.limits.free_bytes {
            bail!(
                "the file system of {} has {} MB left, less than --min-free {}: recording stops",
                path.display(),
                free >> 20,
                self.limits.free_bytes >> 20
            );
        }
        Ok(())
    }

    fn keep_below_limit(&mut self) -> Result<()> {
        let Some(limit) = self.limits.all_bytes.filter(|_| self.is_directory) else {
            return Ok(());
        };
        let current = self.current.as_ref().map_or(0, Current::length);
        let mut all = current + self.finished.iter().map(|files| files.bytes).sum::<u64>();
        while all > limit {
            // Only files that this process has made are removed.
            let Some(oldest) = self.finished.pop_front() else {
                // This one makes room for the next batch.
                return self.begin_another();
            };
            self.remove(&oldest)?;
            all -= oldest.bytes;
        }
        Ok(())
    }

    fn remove(&mut self, files: &Finished) -> Result<()> {
        for path in [&files.messages].into_iter().chain(&files.others) {
            match fs::remove_file(path) {
                // Somebody else has removed it, or moved it away to keep it.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        self.messages.removed += 1;
        if let Some(written) = &mut self.packets {
            written.removed += 1;
        }
        let of_waits = |path: &&PathBuf| path.extension().is_some_and(|name| name == WAITS);
        self.waits.removed += files.others.iter().filter(of_waits).count() as u64;
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::lchown;

    use sockstamp_model::fixture;
    use sockstamp_model::stage::Direction;
    use sockstamp_record::{PacketReader, Reader};
    use tempfile::TempDir;

    use super::*;
    use crate::recordings::{PACKETS, Recordings};

    const ALL: Limits = Limits {
        file_bytes: u64::MAX,
        file_time: Duration::MAX,
        file_groups: usize::MAX,
        all_bytes: None,
        free_bytes: 0,
    };

    fn messages(count: u64) -> Batch {
        let mut batch = Batch::new();
        (0..count).for_each(|_| batch.push(&fixture::message(Direction::Tx)));
        batch
    }

    /// Record this many batches of ten messages each, and packets with each.
    fn recorded(limits: Limits, batches: u64) -> (TempDir, Place) {
        let directory = TempDir::new().unwrap();
        let mut place = Place::new(directory.path(), true, limits, Choice::default()).unwrap();
        for _ in 0..batches {
            place.write(&messages(10)).unwrap();
            place.write_packets(&Packets::default()).unwrap();
        }
        (directory, place)
    }

    fn files(directory: &TempDir) -> Vec<PathBuf> {
        crate::recordings::files(directory.path()).unwrap()
    }

    fn rows(files: &[PathBuf]) -> Vec<u64> {
        let rows = |path: &PathBuf| Reader::open(path).unwrap().rows();
        files.iter().map(rows).collect()
    }

    #[test]
    fn a_file_ends_with_its_row_groups_and_has_its_packets_beside_it() {
        let limits = Limits {
            file_groups: 4,
            ..ALL
        };
        let (directory, mut place) = recorded(limits, 9);
        place.end().unwrap();
        let files = files(&directory);
        let mut rows = rows(&files);
        rows.sort_unstable();
        assert_eq!(rows, [10, 40, 40], "unless an hour has ended meanwhile");
        assert_eq!((place.messages.rows, place.messages.files), (90, 3));
        for file in &files {
            let packets = PacketReader::open(&file.with_extension(PACKETS)).unwrap();
            assert_eq!(packets.rows(), 0);
        }
        let all = fs::read_dir(files[0].parent().unwrap()).unwrap().count();
        assert_eq!(all, 2 * files.len());
    }

    #[test]
    fn a_file_ends_with_its_size() {
        let limits = Limits {
            file_bytes: 1,
            ..ALL
        };
        let (directory, mut place) = recorded(limits, 3);
        place.end().unwrap();
        let rows = rows(&files(&directory));
        // Each batch of messages, and of packets, finds the file before it over.
        assert_eq!(rows.iter().sum::<u64>(), 30);
        assert!(rows.len() >= 3, "{rows:?}");
    }

    #[test]
    fn rows_that_waited_stay_in_their_hour_and_a_file_without_rows_goes() {
        let directory = TempDir::new().unwrap();
        let mut place = Place::new(directory.path(), true, ALL, Choice::default()).unwrap();
        let hour = place.current.as_ref().unwrap().hour;
        // No message came in the first hour.
        place.begin_next((hour - 2) * HOUR).unwrap();
        place.write(&messages(10)).unwrap();
        // A batch of this hour is written after it.
        place.begin_another().unwrap();
        place.write(&messages(5)).unwrap();
        place.begin_next((hour - 1) * HOUR).unwrap();
        place.write(&messages(1)).unwrap();
        assert_eq!(place.current.as_ref().unwrap().hour, hour - 1);
        place.end().unwrap();
        let files = files(&directory);
        assert_eq!((place.messages.files, files.len()), (3, 3));
        let of = |hour: u64| {
            let [date, hour, _] = utc(hour * HOUR);
            let parent = directory.path().join(format!("date={date}/hour={hour}"));
            let files = files.iter().filter(|file| file.starts_with(&parent));
            rows(&files.cloned().collect::<Vec<_>>())
                .iter()
                .sum::<u64>()
        };
        assert_eq!([hour - 2, hour - 1, hour].map(of), [15, 1, 0]);
    }

    #[test]
    fn devices_and_directories_cannot_be_files_of_rows() {
        for path in ["/dev/null", "/dev/full"] {
            let place = Place::new(Path::new(path), false, ALL, Choice::default());
            let told = place.unwrap_err().to_string();
            let expected = format!("{path} is not a regular file");
            assert!(told.starts_with(&expected), "{told}");
        }
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        fs::create_dir(packets_beside(&path)).unwrap();
        let place = Place::new(&path, true, ALL, Choice::default());
        let told = place.unwrap_err().to_string();
        assert!(
            told.contains("file.packets is not a regular file"),
            "{told}"
        );
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let directory = TempDir::new().unwrap();
        let theirs = directory.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        lchown(&theirs, Some(54_321), None).unwrap();
        for path in [theirs.clone(), theirs.join("new/")] {
            let place = Place::new(&path, true, ALL, Choice::default());
            let told = place.unwrap_err().to_string();
            assert!(told.contains("theirs belongs to user 54321"), "{told}");
        }
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
    }

    #[test]
    fn packets_that_could_not_be_written_are_noted_apart() {
        let (directory, mut place) = recorded(ALL, 1);
        place.missing.packets = 5;
        let lost = packets::Lost {
            ring: 2,
            ..packets::Lost::default()
        };
        place.note_lost(Lost::default(), lost);
        place.end().unwrap();
        let packets = files(&directory)[0].with_extension(PACKETS);
        let packets = PacketReader::open(&packets).unwrap();
        assert_eq!(packets.fact("lost_ring"), Some("2"));
        assert_eq!(packets.fact(UNWRITTEN), Some("5"));
    }

    #[test]
    fn the_oldest_files_go_with_their_packets() {
        let (_, place) = recorded(ALL, 1);
        let one = place.current.as_ref().unwrap().bytes();
        let limits = Limits {
            file_groups: 1,
            all_bytes: Some(4 * one),
            ..ALL
        };
        let (directory, mut place) = recorded(limits, 12);
        place.end().unwrap();
        let files = files(&directory);
        assert!((1..=4).contains(&files.len()), "{files:?}");
        assert_eq!(
            place.messages.removed + files.len() as u64,
            place.messages.files
        );
        for file in &files {
            assert!(file.with_extension(PACKETS).exists());
        }
        let all = fs::read_dir(files[0].parent().unwrap()).unwrap().count();
        assert_eq!(all, 2 * files.len());
    }

    #[test]
    fn too_little_room_ends_a_recording_under_way() {
        let (directory, mut place) = recorded(ALL, 2);
        place.limits.free_bytes = u64::MAX;
        let told = place.write(&messages(10)).unwrap_err().to_string();
        assert!(told.contains("less than --min-free"), "{told}");
        drop(place);
        assert_eq!(rows(&files(&directory)), [20]);
    }

    #[test]
    fn losses_are_in_the_last_file() {
        let (directory, mut place) = recorded(ALL, 1);
        let of_packets = packets::Lost {
            flows: 3,
            ..packets::Lost::default()
        };
        // Each kind has another number.
        let mut lost = Lost::default();
        for (number, (_, loss)) in (1..).zip(LOST) {
            *loss(&mut lost) = number;
        }
        assert_eq!((lost.ring, lost.not_adopted, lost.groups), (1, 10, 0));
        place.note_lost(lost, of_packets);
        place.end().unwrap();
        let file = &files(&directory)[0];
        assert_eq!(Reader::open(file).unwrap().fact("lost"), Some("1"));
        let recordings = Recordings::open(std::slice::from_ref(file)).unwrap();
        assert_eq!(recordings.lost(), lost);
        let packets = PacketReader::open(&file.with_extension(PACKETS)).unwrap();
        assert_eq!(crate::recordings::lost_packets(&packets), of_packets);
    }

    #[test]
    fn files_that_exist_are_refused_and_stay() {
        let directory = TempDir::new().unwrap();
        let [file, packets] = ["night.parquet", "night.packets"].map(|name| {
            let path = directory.path().join(name);
            fs::write(&path, "last night").unwrap();
            path
        });
        let told = |has_packets| {
            let place = Place::new(&file, has_packets, ALL, Choice::default());
            place.unwrap_err().to_string()
        };
        for has_packets in [false, true] {
            let expected = format!("{} exists: name another, or remove it", packets.display());
            assert_eq!(told(has_packets), expected);
        }
        fs::remove_file(&packets).unwrap();
        for has_packets in [false, true] {
            let expected = format!("{} exists: name another, or remove it", file.display());
            assert_eq!(told(has_packets), expected);
        }
        assert_eq!(fs::read(&file).unwrap(), b"last night");
        assert!(!packets.exists());
        // As of mktemp(1).
        fs::write(&file, "").unwrap();
        Place::new(&file, true, ALL, Choice::default()).unwrap();
    }

    #[test]
    fn too_little_room_at_the_start_leaves_no_file() {
        let directory = TempDir::new().unwrap();
        let limits = Limits {
            free_bytes: u64::MAX,
            ..ALL
        };
        let path = directory.path().join("file");
        assert!(Place::new(&path, true, limits, Choice::default()).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn recordings_into_one_directory_have_files_of_their_own() {
        let directory = TempDir::new().unwrap();
        let start = || Place::new(directory.path(), true, ALL, Choice::default()).unwrap();
        let mut places = [0; 4].map(|_| start());
        for place in &mut places {
            place.write(&messages(10)).unwrap();
            place.end().unwrap();
        }
        assert_eq!(rows(&files(&directory)), [10; 4]);
    }

    #[test]
    fn a_file_that_was_moved_away_counts_as_removed() {
        let limits = Limits {
            file_groups: 1,
            ..ALL
        };
        let (directory, mut place) = recorded(limits, 3);
        for file in files(&directory) {
            if !place.current.as_ref().unwrap().messages.path().eq(&file) {
                fs::remove_file(file).unwrap();
            }
        }
        place.limits.all_bytes = Some(1);
        place.write(&messages(10)).unwrap();
        assert!(place.messages.removed >= 2, "{:?}", place.messages);
    }

    #[test]
    fn a_single_file_stays_below_its_limit() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        let limits = Limits {
            all_bytes: Some(200_000),
            ..ALL
        };
        let mut place = Place::new(&path, true, limits, Choice::default()).unwrap();
        let mut written = 0;
        let told = loop {
            match place.write(&messages(10)) {
                Ok(()) => written += 10,
                Err(error) => break error.to_string(),
            }
        };
        assert!(told.contains("has reached --max-size"), "{told}");
        place.end().unwrap();
        let length = |path: &Path| path.metadata().unwrap().len();
        let all = length(&path) + length(&path.with_extension(PACKETS));
        assert!((100_000..=200_000).contains(&all), "{all}");
        let file = Reader::open(&path).unwrap();
        assert_eq!((file.rows(), file.unread()), (written, 0));
        assert_eq!(place.missing.messages, 10);
    }

    #[test]
    fn the_choice_of_messages_is_in_the_file() {
        let directory = TempDir::new().unwrap();
        let choice = Choice {
            in_step: Some(16),
            slow_only: Some(Duration::from_millis(50)),
        };
        let path = directory.path().join("file");
        Place::new(&path, false, ALL, choice)
            .unwrap()
            .end()
            .unwrap();
        let file = Reader::open(&path).unwrap();
        assert_eq!(file.fact("in_step"), Some("16"));
        assert_eq!(file.fact(SLOW_ONLY), Some("50000000"));
    }
}
