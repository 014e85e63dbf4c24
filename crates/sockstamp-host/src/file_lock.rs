//! Who holds a lock on a file that a process waits for: proc(5)'s `/proc/locks`.

use std::fs;
use std::path::{Path, PathBuf};

use sockstamp_model::name::Name;

/// Descriptors of a process that are looked at.
const MOST: usize = 256;
/// Of more locks, nobody can tell in time.
const MOST_LOCKS: usize = 4096;

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
    inode: u64,
}

/// Return the lock for which a task of a process sleeps.
#[must_use]
pub fn awaited(pid: u32) -> Option<Held> {
    let text = fs::read_to_string("/proc/locks").ok()?;
    let lock = blocker(lines(&text), pid)?;
    held(lock)
}

/// Return a lock of another process on a file that a process has open: it may try again by a timer.
/// A parent hands its own files on, such as that with its PID.
#[must_use]
pub fn tried(pid: u32) -> Option<Held> {
    let text = fs::read_to_string("/proc/locks").ok()?;
    let own = [0, pid, parent(pid)?];
    let of_others = |line: &Line| !line.waits && line.writes && !own.contains(&line.pid);
    let locks: Vec<_> = lines(&text).filter(of_others).collect();
    if locks.is_empty() {
        return None;
    }
    let open: Vec<_> = files(pid).map(|(inode, _)| inode).collect();
    held(locks.into_iter().find(|lock| open.contains(&lock.inode))?)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, after) = stat.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(1)?.parse().ok()
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
            inode: fields.next()?.rsplit(':').next()?.parse().ok()?,
        })
    };
    text.lines().take(MOST_LOCKS).filter_map(line)
}

fn held(lock: Line) -> Option<Held> {
    let name = fs::read(format!("/proc/{}/comm", lock.pid)).ok()?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    let path = files(lock.pid).find(|(inode, _)| *inode == lock.inode);
    Some(Held {
        holder: Name::from(name),
        file: match path {
            Some((_, path)) => Name::from(path.as_os_str()),
            None => Name::from(format!("inode {}", lock.inode)),
        },
    })
}

/// Return the files that a process has open: inode and path. Nothing of that asks a file system,
/// which may not answer.
fn files(pid: u32) -> impl Iterator<Item = (u64, PathBuf)> {
    let process = Path::new("/proc").join(pid.to_string());
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    open.flatten().take(MOST).filter_map(move |descriptor| {
        let path = fs::read_link(descriptor.path()).ok()?;
        let is_file = path.is_absolute() && !path.starts_with("/dev");
        let inode = is_file.then(|| inode(&process, &descriptor.file_name()))??;
        Some((inode, path))
    })
}

/// Return the inode of a descriptor; the kernel tells it since v5.14.
fn inode(process: &Path, descriptor: &std::ffi::OsStr) -> Option<u64> {
    let about = fs::read_to_string(process.join("fdinfo").join(descriptor)).ok()?;
    let line = about.lines().find_map(|line| line.strip_prefix("ino:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 2512 fd:01:5678 0 EOF\n\
                         1: -> POSIX  ADVISORY  WRITE 2600 fd:01:5678 0 EOF\n\
                         2: FLOCK  ADVISORY  READ 9 00:1a:44 0 EOF\n\
                         3: OFDLCK ADVISORY  WRITE -1 00:1a:45 0 0\n";

    #[test]
    fn who_waits_stands_below_who_holds() {
        let of = |pid| blocker(lines(LOCKS), pid).map(|lock| (lock.pid, lock.inode));
        assert_eq!(of(2600), Some((2512, 5678)));
        assert_eq!(of(2512), None);
        let all: Vec<_> = lines(LOCKS).map(|lock| (lock.pid, lock.writes)).collect();
        assert_eq!(all, [(2512, true), (2600, true), (9, false), (0, true)]);
    }

    #[test]
    fn an_open_file_has_its_inode_and_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let inode = file.as_file().metadata().unwrap().ino();
        let open: Vec<_> = files(std::process::id()).collect();
        assert!(open.contains(&(inode, file.path().to_owned())), "{open:?}");
        assert_eq!(
            parent(std::process::id()),
            Some(std::os::unix::process::parent_id())
        );
    }
}
