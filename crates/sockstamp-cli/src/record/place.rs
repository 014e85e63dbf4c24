//! The files of a recording: their names, their sizes, and the room that is left for them.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use nix::sys::statvfs::statvfs;
use sockstamp_record::{FileWriter, Rows};

/// The limits of a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) file_bytes: u64,
    pub(crate) file_time: Duration,
    /// None: no limit.
    pub(crate) all_bytes: Option<u64>,
    pub(crate) free_bytes: u64,
}

/// The file that is written, and those before it.
#[derive(Debug)]
pub(crate) struct Place<T> {
    path: PathBuf,
    /// That of files in a directory.
    extension: &'static str,
    is_directory: bool,
    limits: Limits,
    host: String,
    in_step: Option<u32>,
    current: Option<Current<T>>,
    /// Finished files with their sizes, the oldest first.
    finished: VecDeque<(PathBuf, u64)>,
    /// The rows and bytes of all files, removed ones included.
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) removed: u64,
}

#[derive(Debug)]
struct Current<T> {
    writer: FileWriter<T>,
    since: Instant,
    hour: u64,
}

impl<T: Rows> Place<T> {
    /// Messages are chosen by multiples of 2^`in_step`, if any.
    pub(crate) fn new(
        path: &Path,
        extension: &'static str,
        limits: Limits,
        in_step: Option<u32>,
    ) -> Result<Self> {
        let is_directory = is_directory(path);
        let mut place = Self {
            path: path.to_owned(),
            extension,
            is_directory,
            limits,
            host: host(),
            in_step,
            current: None,
            finished: VecDeque::new(),
            rows: 0,
            bytes: 0,
            files: 0,
            removed: 0,
        };
        // A path that cannot be written is reported before anything is measured.
        place.begin()?;
        place.check_free()?;
        Ok(place)
    }

    /// Append a batch.
    pub(crate) fn write(&mut self, batch: &T) -> Result<()> {
        if self.is_directory && self.current.as_ref().is_some_and(|current| self.is_over(current)) {
            self.end()?;
        }
        if self.current.is_none() {
            self.begin()?;
        }
        self.check_free()?;
        if let Some(current) = &mut self.current {
            current.writer.write(batch)?;
        }
        self.keep_below_limit()
    }

    /// Finish the last file.
    pub(crate) fn end(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let path = current.writer.path().to_owned();
        let (rows, bytes) = current.writer.finish()?;
        self.rows += rows;
        self.bytes += bytes;
        self.finished.push_back((path, bytes));
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        let (seconds, hour) = now();
        let path = match self.is_directory {
            false => self.path.clone(),
            true => self.path_in_directory(seconds)?,
        };
        let mut facts = vec![
            ("host", self.host.clone()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        facts.extend(self.in_step.map(|bits| ("in_step", bits.to_string())));
        let writer = FileWriter::create(&path, &facts)?;
        self.files += 1;
        self.current = Some(Current {
            writer,
            since: Instant::now(),
            hour,
        });
        Ok(())
    }

    /// Form a path of numbers and the host's name, none of which leads elsewhere.
    fn path_in_directory(&self, seconds: u64) -> Result<PathBuf> {
        let [date, hour, time] = utc(seconds);
        let directory = self
            .path
            .join(format!("date={date}"))
            .join(format!("hour={hour}"))
            .join(format!("host={}", self.host));
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let free = (0..10_000)
            .map(|number| directory.join(format!("{time}-{number}.{}", self.extension)))
            .find(|path| !path.exists());
        free.with_context(|| format!("{} has too many files", directory.display()))
    }

    fn is_over(&self, current: &Current<T>) -> bool {
        current.writer.bytes() >= self.limits.file_bytes
            || current.since.elapsed() >= self.limits.file_time
            || current.hour != now().1
    }

    fn check_free(&self) -> Result<()> {
        let Some(current) = &self.current else {
            return Ok(());
        };
        let path = current.writer.path();
        let system =
            statvfs(path).with_context(|| format!("cannot read the free space of {}", path.display()))?;
        let free = system.blocks_available().saturating_mul(system.fragment_size());
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
        let Some(limit) = self.limits.all_bytes else {
            return Ok(());
        };
        let current = self.current.as_ref().map_or(0, |current| current.writer.bytes());
        let mut all = current + self.finished.iter().map(|(_, bytes)| bytes).sum::<u64>();
        while all > limit {
            // Only files that this process has made are removed.
            let Some((path, bytes)) = self.finished.pop_front() else {
                if self.is_directory {
                    // The next batch begins the file that this one makes room for.
                    return self.end();
                }
                bail!("{} has reached --max-size: recording stops", self.path.display());
            };
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            self.removed += 1;
            all -= bytes;
        }
        Ok(())
    }
}

/// Return true if files are made in this directory, and none of this name.
pub(super) fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The seconds since 1970, and the hours.
fn now() -> (u64, u64) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    (seconds, seconds / 3600)
}

/// Return `2026-11-22`, `19` and `190507`.
pub(crate) fn utc(seconds: u64) -> [String; 3] {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Years of 400 years' cycles, begun in March (Howard Hinnant, "chrono-compatible low-level date
    // algorithms").
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    [
        format!("{year:04}-{month:02}-{day:02}"),
        format!("{hour:02}"),
        format!("{hour:02}{minute:02}{second:02}"),
    ]
}

/// Return the host's name, with `_` for all that could have a meaning in a path.
fn host() -> String {
    let name = nix::sys::utsname::uname().map(|uname| uname.nodename().to_owned());
    part_of_path(&name.unwrap_or_default().to_string_lossy())
}

fn part_of_path(name: &str) -> String {
    let plain = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' => character,
        _ => '_',
    };
    let name: String = name.chars().map(plain).collect();
    match name.trim_matches('.') {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_paths_are_utc() {
        assert_eq!(utc(0), ["1970-01-01", "00", "000000"]);
        assert_eq!(utc(951_827_696), ["2000-02-29", "12", "123456"]);
        assert_eq!(utc(1_795_374_307), ["2026-11-22", "19", "190507"]);
        assert_eq!(utc(4_102_444_799), ["2099-12-31", "23", "235959"]);
    }

    #[test]
    fn a_host_name_cannot_leave_the_directory() {
        assert_eq!(part_of_path("db-1.example.org"), "db-1.example.org");
        assert_eq!(part_of_path("../../etc/x"), "_.._etc_x");
        assert_eq!(part_of_path(".."), "unknown");
        assert_eq!(part_of_path("a\u{1b}[2J b"), "a__2J_b");
    }
}
