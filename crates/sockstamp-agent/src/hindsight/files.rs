//! The files of the last minutes, and copies of them that stay.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use nix::sys::statvfs::statvfs;
use sockstamp_host::places::Places;
use sockstamp_record::{Batch, Writer};
use sockstamp_run::directory::{self, Trusted};
use sockstamp_run::utc::utc;

use crate::config::HindsightTable;

/// The number of files that share the time and the room: one file is removed at a time.
const SHARES: u32 = 8;
/// Snapshots that may exist.
const SNAPSHOTS: usize = 16;
/// Snapshots that nobody asked for, and the end of their names.
const UNASKED: usize = 8;
const UNASKED_END: &str = "-auto";
/// Numbers that distinguish files and snapshots of the same second.
const SAME_SECOND: u32 = 10_000;

/// The bounds of the time until files are looked at.
const LEAST: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Finished {
    path: PathBuf,
    bytes: u64,
    ended: Instant,
}

/// The files in `recent`, and the directories in `snapshots`.
#[derive(Debug)]
pub(super) struct Files {
    recent: PathBuf,
    snapshots: PathBuf,
    keep: Duration,
    max_bytes: u64,
    min_free: u64,
    current: Option<(Writer, Instant)>,
    /// The oldest first.
    finished: VecDeque<Finished>,
    early: u64,
}

impl Files {
    /// Make the directories; take over the files of an earlier recording.
    pub(super) fn new(table: &HindsightTable) -> Result<Self> {
        let files = Self {
            recent: table.directory.join("recent"),
            snapshots: table.directory.join("snapshots"),
            keep: table.keep,
            max_bytes: u64::from(table.max_size) << 20,
            min_free: u64::from(table.min_free) << 20,
            current: None,
            finished: VecDeque::new(),
            early: 0,
        };
        make(&table.directory)?;
        make(&files.recent)?;
        make(&files.snapshots)?;
        Ok(Self {
            finished: earlier(&files.recent)?,
            ..files
        })
    }

    /// Find the files of an earlier recording again: it may have ended since.
    pub(super) fn take_over(&mut self) -> Result<()> {
        make(&self.recent)?;
        self.finished = earlier(&self.recent)?;
        Ok(())
    }

    /// Return the time until a file is full, or too old.
    pub(super) fn until_age(&self) -> Duration {
        let full = self
            .current
            .as_ref()
            .map(|(_, since)| (since, self.keep / SHARES));
        let old = self
            .finished
            .front()
            .map(|oldest| (&oldest.ended, self.keep));
        let dues = [full, old].into_iter().flatten();
        let left = dues.map(|(since, time)| time.saturating_sub(since.elapsed()));
        left.min().map_or(LONG, |left| left.clamp(LEAST, LONG))
    }

    /// Append a batch; return false if the file system has no room for it.
    pub(super) fn write(&mut self, batch: &Batch) -> Result<bool> {
        self.age()?;
        self.make_again()?;
        if !self.make_room()? {
            return Ok(false);
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => {
                let path = unused(&self.recent, ".parquet")?;
                let mut facts = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
                facts.extend(Places::here().facts());
                self.current
                    .insert((Writer::create(&path, &facts)?, Instant::now()))
            }
        };
        if let Err(error) = current.0.write(batch) {
            // The file is readable up to its last footer, and takes no more.
            self.end()?;
            return Err(error.into());
        }
        self.age()?;
        Ok(true)
    }

    /// End the file that is full, and remove those that are too old or too many.
    pub(super) fn age(&mut self) -> Result<()> {
        let shares = u64::from(SHARES);
        let is_full = |(writer, since): &(Writer, Instant)| {
            since.elapsed() >= self.keep / SHARES || writer.bytes() >= self.max_bytes / shares
        };
        if self.current.as_ref().is_some_and(is_full) {
            self.end()?;
        }
        while self
            .finished
            .front()
            .is_some_and(|oldest| oldest.ended.elapsed() > self.keep)
        {
            self.remove_oldest()?;
        }
        while self.bytes() > self.max_bytes && self.remove_oldest()? {
            self.early += 1;
        }
        Ok(())
    }

    /// Finish the file that is written.
    pub(super) fn end(&mut self) -> Result<()> {
        let Some((writer, _)) = self.current.take() else {
            return Ok(());
        };
        let (path, bytes) = (writer.path().to_owned(), writer.bytes());
        let finished = writer.finish();
        self.finished.push_back(Finished {
            path,
            bytes: finished.as_ref().map_or(bytes, |&(_, bytes)| bytes),
            ended: Instant::now(),
        });
        finished.map(|_| ()).map_err(Into::into)
    }

    /// Keep all files under a name of their own, and return it.
    pub(super) fn snapshot(&mut self) -> Result<PathBuf> {
        self.snapshot_as("")
    }

    /// As [`snapshot`](Self::snapshot), unasked: the oldest of this kind makes room.
    pub(super) fn keep(&mut self) -> Result<PathBuf> {
        make(&self.snapshots)?;
        let kept = fs::read_dir(&self.snapshots)
            .with_context(|| format!("cannot read {}", self.snapshots.display()))?;
        let is_unasked = |path: &PathBuf| path.to_string_lossy().ends_with(UNASKED_END);
        let paths = kept.flatten().map(|entry| entry.path());
        let mut unasked: Vec<_> = paths.filter(is_unasked).collect();
        // Their names begin with their time.
        unasked.sort();
        for oldest in unasked.iter().rev().skip(UNASKED - 1) {
            fs::remove_dir_all(oldest)
                .with_context(|| format!("cannot remove {}", oldest.display()))?;
        }
        self.snapshot_as(UNASKED_END)
    }

    fn snapshot_as(&mut self, end: &str) -> Result<PathBuf> {
        self.end()?;
        self.age()?;
        // Somebody may have removed them.
        if !self.finished.iter().any(|file| file.path.exists()) {
            bail!("no message was recorded yet");
        }
        make(&self.snapshots)?;
        let kept = fs::read_dir(&self.snapshots)
            .with_context(|| format!("cannot read {}", self.snapshots.display()))?;
        if kept.count() >= SNAPSHOTS {
            bail!(
                "{} has {SNAPSHOTS} snapshots: remove some",
                self.snapshots.display()
            );
        }
        let place = unused(&self.snapshots, end)?;
        make(&place)?;
        if let Err(error) = self.link_all(&place) {
            // This file is no snapshot, and must not count as one.
            let _ = fs::remove_dir_all(&place);
            return Err(error);
        }
        Ok(place)
    }

    fn link_all(&self, place: &Path) -> Result<()> {
        for file in &self.finished {
            let link = place.join(file.path.file_name().unwrap_or_default());
            match fs::hard_link(&file.path, &link) {
                // Somebody has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                linked => linked.with_context(|| format!("cannot create {}", link.display()))?,
            }
        }
        Ok(())
    }

    /// Return the newest files of up to this many bytes together, at least one if there is any, and
    /// none that somebody has removed. The file being written is ended, so its messages are among
    /// them.
    pub(super) fn newest(&mut self, most: u64) -> Result<Vec<PathBuf>> {
        self.end()?;
        let mut bytes = 0;
        let there = self.finished.iter().rev().filter(|file| file.path.exists());
        let newest = there.take_while(|file| {
            let fits = bytes == 0 || bytes + file.bytes <= most;
            bytes += file.bytes;
            fits
        });
        Ok(newest.map(|file| file.path.clone()).collect())
    }

    /// Return the bytes of all files but those of snapshots.
    pub(super) fn bytes(&self) -> u64 {
        let current = self
            .current
            .as_ref()
            .map_or(0, |(writer, _)| writer.bytes());
        current + self.finished.iter().map(|file| file.bytes).sum::<u64>()
    }

    /// Return the files that were removed before their time since the last call.
    pub(super) fn take_early(&mut self) -> u64 {
        std::mem::take(&mut self.early)
    }

    /// Make `recent` again, if somebody has removed it with all of its files.
    fn make_again(&mut self) -> Result<()> {
        if fs::symlink_metadata(&self.recent).is_ok_and(|there| there.is_dir()) {
            return Ok(());
        }
        self.current = None;
        self.finished.clear();
        make(&self.recent)
    }

    /// Remove files until enough room is free; return false if that was not enough.
    fn make_room(&mut self) -> Result<bool> {
        loop {
            let system = statvfs(&self.recent).with_context(|| {
                format!("cannot read the free space of {}", self.recent.display())
            })?;
            let free = system
                .blocks_available()
                .saturating_mul(system.fragment_size());
            if free >= self.min_free {
                return Ok(true);
            }
            self.end()?;
            if !self.remove_oldest()? {
                return Ok(false);
            }
            self.early += 1;
        }
    }

    /// Remove the oldest file; return false if there is none.
    fn remove_oldest(&mut self) -> Result<bool> {
        let Some(oldest) = self.finished.pop_front() else {
            return Ok(false);
        };
        match fs::remove_file(&oldest.path) {
            // Somebody else has removed it.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", oldest.path.display()))
            }
            _ => Ok(true),
        }
    }
}

/// Make a directory, unless it is there. Refuse one that others can change: they could have files
/// of root's written and removed by links.
fn make(directory: &Path) -> Result<()> {
    Ok(directory::make(directory, &Trusted::ours())?)
}

/// Return the files that an earlier recording has left, the oldest first.
fn earlier(directory: &Path) -> Result<VecDeque<Finished>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let about = entry.metadata().ok().filter(fs::Metadata::is_file);
        let Some(about) = about.filter(|_| path.extension().is_some_and(|end| end == "parquet"))
        else {
            continue;
        };
        let age = about.modified().ok().and_then(|time| time.elapsed().ok());
        let now = Instant::now();
        found.push(Finished {
            path,
            bytes: about.len(),
            ended: now.checked_sub(age.unwrap_or_default()).unwrap_or(now),
        });
    }
    found.sort_by_key(|file| file.ended);
    Ok(found.into())
}

/// Return a path of the time, in UTC, that nothing has, no link either.
fn unused(directory: &Path, end: &str) -> Result<PathBuf> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let [date, _, time] = utc(since.map_or(0, |since| since.as_secs()));
    (0..SAME_SECOND)
        .map(|number| directory.join(format!("{date}-{time}-{number}{end}")))
        .find(|path| fs::symlink_metadata(path).is_err())
        .with_context(|| format!("{} has too many files", directory.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

    use sockstamp_model::fixture;
    use sockstamp_model::stage::Direction;
    use tempfile::TempDir;

    use super::*;

    fn table(directory: &TempDir, keep: Duration) -> HindsightTable {
        HindsightTable {
            keep,
            min_free: 1,
            ..HindsightTable::in_directory(directory.path())
        }
    }

    fn batch() -> Batch {
        let mut batch = Batch::new();
        for _ in 0..100 {
            batch.push(&fixture::message(Direction::Tx));
        }
        batch
    }

    fn count(directory: PathBuf) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn files_go_with_their_time_and_stay_in_snapshots() {
        let directory = TempDir::new().unwrap();
        let mut files = Files::new(&table(&directory, Duration::ZERO)).unwrap();
        assert!(
            files
                .snapshot()
                .unwrap_err()
                .to_string()
                .contains("no message")
        );
        files.keep = Duration::from_secs(60);
        assert!(files.write(&batch()).unwrap());
        let kept = files.snapshot().unwrap();
        assert_eq!((files.finished.len(), count(kept.clone())), (1, 1));
        files.keep = Duration::ZERO;
        files.age().unwrap();
        assert_eq!((files.bytes(), files.take_early()), (0, 0));
        assert_eq!(
            (count(directory.path().join("recent")), count(kept)),
            (0, 1)
        );
    }

    #[test]
    fn files_beyond_the_size_go_early() {
        let directory = TempDir::new().unwrap();
        let mut files = Files::new(&table(&directory, Duration::from_secs(60))).unwrap();
        assert!(files.write(&batch()).unwrap());
        let one = files.bytes();
        files.max_bytes = 3 * one;
        for _ in 0..9 {
            assert!(files.write(&batch()).unwrap());
        }
        assert!(files.bytes() <= 3 * one && files.take_early() >= 6);
        let left = count(directory.path().join("recent"));
        assert!((1..=3).contains(&left), "{left}");
    }

    #[test]
    fn a_full_file_system_costs_files_and_then_messages() {
        let directory = TempDir::new().unwrap();
        let mut files = Files::new(&table(&directory, Duration::from_secs(60))).unwrap();
        assert!(files.write(&batch()).unwrap());
        files.min_free = u64::MAX;
        assert!(!files.write(&batch()).unwrap());
        assert_eq!((files.bytes(), files.take_early()), (0, 1));
        files.min_free = 0;
        assert!(files.write(&batch()).unwrap());
    }

    #[test]
    fn the_files_of_an_earlier_agent_are_taken_over() {
        let directory = TempDir::new().unwrap();
        let table = table(&directory, Duration::from_secs(60));
        let mut files = Files::new(&table).unwrap();
        assert!(files.write(&batch()).unwrap());
        // As when it is killed.
        drop(files);
        let mut files = Files::new(&table).unwrap();
        let kept = files.snapshot().unwrap();
        assert_eq!(count(kept), 1);
        files.keep = Duration::ZERO;
        files.age().unwrap();
        assert_eq!(count(directory.path().join("recent")), 0);
    }

    #[test]
    fn directories_that_somebody_removes_are_made_again() {
        let directory = TempDir::new().unwrap();
        let mut files = Files::new(&table(&directory, Duration::from_secs(60))).unwrap();
        for _ in 0..2 {
            assert!(files.write(&batch()).unwrap());
            files.end().unwrap();
            assert!(files.write(&batch()).unwrap());
            fs::remove_dir_all(directory.path().join("recent")).unwrap();
            fs::remove_dir_all(directory.path().join("snapshots")).unwrap();
            let told = files.keep().unwrap_err().to_string();
            assert!(told.contains("no message"), "{told}");
        }
        assert!(files.write(&batch()).unwrap());
        assert_eq!(count(files.snapshot().unwrap()), 1);
    }

    #[test]
    fn files_that_somebody_removes_are_not_among_the_newest() {
        let directory = TempDir::new().unwrap();
        let mut files = Files::new(&table(&directory, Duration::from_secs(60))).unwrap();
        for _ in 0..3 {
            assert!(files.write(&batch()).unwrap());
            files.end().unwrap();
        }
        let all = files.newest(u64::MAX).unwrap();
        assert_eq!(all.len(), 3);
        fs::remove_file(&all[0]).unwrap();
        assert_eq!(files.newest(u64::MAX).unwrap(), all[1..]);
        // One is returned whatever its size.
        assert_eq!(files.newest(1).unwrap(), all[1..2]);
    }

    #[test]
    fn a_directory_that_another_user_can_change_is_refused() {
        let parent = TempDir::new().unwrap();
        let victim = TempDir::new().unwrap();
        let precious = victim.path().join("precious.parquet");
        fs::write(&precious, "precious").unwrap();
        let directory = parent.path().join("directory");
        fs::create_dir(&directory).unwrap();
        let table = HindsightTable {
            keep: Duration::ZERO,
            ..HindsightTable::in_directory(&directory)
        };
        let refused = |reason: &str| {
            let told = Files::new(&table).unwrap_err().to_string();
            assert!(told.contains(reason), "{told}");
            assert_eq!(fs::read(&precious).unwrap(), b"precious");
        };
        for name in ["recent", "snapshots"] {
            let link = directory.join(name);
            symlink(victim.path(), &link).unwrap();
            lchown(&link, Some(54_321), None).unwrap();
            refused("is a link of user 54321");
            fs::remove_file(&link).unwrap();
            fs::create_dir(&link).unwrap();
            lchown(&link, Some(54_321), None).unwrap();
            refused("belongs to user 54321");
            fs::remove_dir(&link).unwrap();
        }
        fs::set_permissions(&directory, Permissions::from_mode(0o1777)).unwrap();
        refused("directory can be written by others");
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        Files::new(&table).unwrap();
    }

    #[test]
    fn no_link_at_the_name_of_a_file_is_followed() {
        let directory = TempDir::new().unwrap();
        let mut files = Files::new(&table(&directory, Duration::from_secs(60))).unwrap();
        let victim = directory.path().join("victim");
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        for second in 0..30 {
            let [date, _, time] = utc(since.as_secs() + second);
            let name = format!("{date}-{time}-0.parquet");
            symlink(&victim, directory.path().join("recent").join(name)).unwrap();
        }
        assert!(files.write(&batch()).unwrap());
        assert!(!victim.exists());
        files.end().unwrap();
        let written = &files.newest(u64::MAX).unwrap()[0];
        assert_eq!(fs::symlink_metadata(written).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn snapshots_have_a_limit() {
        let directory = TempDir::new().unwrap();
        let mut files = Files::new(&table(&directory, Duration::from_secs(60))).unwrap();
        assert!(files.write(&batch()).unwrap());
        for _ in 0..SNAPSHOTS {
            files.snapshot().unwrap();
        }
        assert!(
            files
                .snapshot()
                .unwrap_err()
                .to_string()
                .contains("remove some")
        );
    }

    #[test]
    fn snapshots_that_nobody_asked_for_leave_room_for_others() {
        let directory = TempDir::new().unwrap();
        let mut files = Files::new(&table(&directory, Duration::from_secs(60))).unwrap();
        assert!(files.write(&batch()).unwrap());
        let kept: Vec<_> = (0..=UNASKED).map(|_| files.keep().unwrap()).collect();
        assert_eq!(count(files.snapshots.clone()), UNASKED);
        assert!(kept[1..].iter().all(|path| path.exists()));
        for _ in UNASKED..SNAPSHOTS {
            files.snapshot().unwrap();
        }
        assert!(files.snapshot().is_err() && files.keep().is_ok());
    }
}
