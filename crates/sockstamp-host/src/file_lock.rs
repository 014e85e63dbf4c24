//! Who holds a lock on a file that a process waits for: proc(5)'s `/proc/locks`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use sockstamp_model::name::Name;

use crate::cut;
use crate::sessions::parent;
use crate::slept_for::bounded;

/// Descriptors of a process that are looked at.
const MOST: usize = 256;
/// Of more locks, nobody can tell in time. A line has some 60 bytes.
const MOST_LOCKS: usize = 4096;
const MOST_BYTES: u64 = 64 * MOST_LOCKS as u64;

/// A lock, and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The name of the process.
    pub holder: Name,
    /// The path of the file, or its inode where that may not be seen.
    pub file: Name,
}

/// A line of the list: a lock, or a wait for the one above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    waits: bool,
    writes: bool,
    pid: u32,
    file: File,
}

/// A file: its inode, and the file system that numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct File {
    device: (u32, u32),
    inode: u64,
}

/// Return the lock for which a task of a process sleeps.
#[must_use]
pub fn awaited(pid: u32) -> Option<Held> {
    let text = first_lines(Path::new("/proc/locks"));
    let lock = blocker(lines(&text), pid)?;
    held(lock)
}

/// Return a lock of another process on a file that a process has open: it may try again by a timer.
/// A parent hands its own files on, such as that with its PID, or one by which its children take
/// turns.
#[must_use]
pub fn tried(pid: u32) -> Option<Held> {
    let text = first_lines(Path::new("/proc/locks"));
    let parent = parent(pid)?;
    let own = [0, pid, parent];
    let of_others = |line: &Line| !line.waits && line.writes && !own.contains(&line.pid);
    let locks: Vec<_> = lines(&text).filter(of_others).collect();
    if locks.is_empty() {
        return None;
    }
    let open: Vec<_> = files(pid).map(|(file, _)| file).collect();
    let lock = locks.into_iter().find(|lock| open.contains(&lock.file))?;
    let is_handed_on = files(parent).any(|(file, _)| file == lock.file);
    held(lock).filter(|_| !is_handed_on)
}

/// Read whole lines from the beginning of a list, which users may make any length.
fn first_lines(path: &Path) -> String {
    let mut text = String::new();
    let list = fs::File::open(path);
    // A list that is not there has no lines.
    let read = list.and_then(|list| list.take(MOST_BYTES).read_to_string(&mut text));
    if read.is_ok_and(|length| length as u64 == MOST_BYTES) {
        cut::count();
    }
    text.truncate(text.rfind('\n').map_or(0, |last| last + 1));
    text
}

/// Return what keeps a process waiting.
fn blocker(lines: impl Iterator<Item = Line>, pid: u32) -> Option<Line> {
    let mut lock = None;
    for line in lines {
        match line.waits {
            true if line.pid == pid => return lock,
            true => {}
            false => lock = Some(line),
        }
    }
    None
}

/// `1: -> POSIX  ADVISORY  WRITE 2512 fd:01:5678 0 EOF`, the arrow where it waits.
fn lines(text: &str) -> impl Iterator<Item = Line> {
    let line = |line: &str| {
        let fields = line.split_ascii_whitespace().skip(1);
        let waits = line.contains("->");
        let mut fields = fields.filter(|field| *field != "->").skip(2);
        let writes = fields.next()? == "WRITE";
        Some(Line {
            waits,
            writes,
            // Locks of an open file have no process: -1.
            pid: fields.next()?.parse().unwrap_or(0),
            file: file(fields.next()?)?,
        })
    };
    text.lines().take(MOST_LOCKS).filter_map(line)
}

/// Read a file of the list: its device in hexadecimal, then its inode.
fn file(text: &str) -> Option<File> {
    let mut fields = text.split(':');
    let mut number = || u32::from_str_radix(fields.next()?, 16).ok();
    let device = (number()?, number()?);
    let inode = fields.next()?.parse().ok()?;
    Some(File { device, inode })
}

fn held(lock: Line) -> Option<Held> {
    let name = fs::read(format!("/proc/{}/comm", lock.pid)).ok()?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    let path = files(lock.pid).find(|(file, _)| *file == lock.file);
    Some(Held {
        holder: Name::from(name),
        file: match path {
            Some((_, path)) => Name::from(path.as_os_str()),
            None => Name::from(format!("inode {}", lock.file.inode)),
        },
    })
}

/// Return the files that a process has open, with their paths. Nothing of that asks a file system,
/// which may not answer.
fn files(pid: u32) -> impl Iterator<Item = (File, PathBuf)> {
    let process = Path::new("/proc").join(pid.to_string());
    let devices = devices(&bounded(&process.join("mountinfo")));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    open.flatten().take(MOST).filter_map(move |descriptor| {
        let path = fs::read_link(descriptor.path()).ok()?;
        let is_file = path.is_absolute() && !path.starts_with("/dev");
        let about = process.join("fdinfo").join(descriptor.file_name());
        let about = is_file.then(|| fs::read_to_string(about).ok())??;
        let field = |name| {
            let line = about.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<u64>().ok()
        };
        let file = File {
            device: *devices.get(&field("mnt_id:")?)?,
            // The kernel tells it since v5.14.
            inode: field("ino:")?,
        };
        Some((file, path))
    })
}

/// Return the devices of mounts by their numbers, from proc(5)'s `mountinfo`: there they are
/// decimal.
fn devices(mounts: &str) -> BTreeMap<u64, (u32, u32)> {
    let device = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let mount = fields.next()?.parse().ok()?;
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        Some((mount, (major.parse().ok()?, minor.parse().ok()?)))
    };
    mounts.lines().filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 2512 fd:01:5678 0 EOF\n\
                         1: -> POSIX  ADVISORY  WRITE 2600 fd:01:5678 0 EOF\n\
                         2: FLOCK  ADVISORY  READ 9 00:1a:44 0 EOF\n\
                         3: OFDLCK ADVISORY  WRITE -1 00:1a:45 0 0\n";

    #[test]
    fn who_waits_stands_below_who_holds() {
        let of = |pid| blocker(lines(LOCKS), pid).map(|lock| (lock.pid, lock.file));
        let device = (0xfd, 1);
        let file = File {
            device,
            inode: 5678,
        };
        assert_eq!(of(2600), Some((2512, file)));
        assert_eq!(of(2512), None);
        let all: Vec<_> = lines(LOCKS).map(|lock| (lock.pid, lock.writes)).collect();
        assert_eq!(all, [(2512, true), (2600, true), (9, false), (0, true)]);
    }

    #[test]
    fn an_open_file_has_its_inode_and_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let inode = file.as_file().metadata().unwrap().ino();
        let open: Vec<_> = files(std::process::id()).collect();
        let found = open.iter().find(|(_, path)| path == file.path());
        assert!(
            found.is_some_and(|(found, _)| found.inode == inode),
            "{open:?}"
        );
    }

    /// The witnesses are lock(2) and the kernel's list of such locks.
    #[test]
    fn a_lock_of_this_process_is_on_a_file_that_it_has_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().lock().unwrap();
        let text = fs::read_to_string("/proc/locks").unwrap();
        let own = std::process::id();
        let locked = lines(&text).filter(|line| line.pid == own);
        let locked: Vec<_> = locked.map(|line| line.file).collect();
        let mut open = files(own).filter(|(open, _)| locked.contains(open));
        assert!(open.any(|(_, path)| path == file.path()), "{locked:?}");
    }

    #[test]
    fn a_list_without_end_is_read_in_part() {
        let line = "1: POSIX  ADVISORY  WRITE 2512 fd:01:5678 0 EOF\n";
        let mut list = tempfile::NamedTempFile::new().unwrap();
        list.write_all(line.repeat(100_000).as_bytes()).unwrap();
        let before = cut::lists();
        let text = first_lines(list.path());
        assert!(cut::lists() > before);
        assert!(text.len() as u64 <= MOST_BYTES && text.ends_with(line));
        assert_eq!(lines(&text).count(), MOST_LOCKS);
        assert_eq!(first_lines(Path::new("/nowhere")), "");
    }

    #[test]
    fn a_device_is_decimal_in_the_list_of_mounts() {
        let mounts = "36 35 253:1 / /data rw,noatime master:1 - ext4 /dev/vda rw\n";
        assert_eq!(devices(mounts), BTreeMap::from([(36, (0xfd, 1))]));
    }
}
