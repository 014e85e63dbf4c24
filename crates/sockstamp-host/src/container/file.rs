//! Files that users may have put in the place of a runtime's.
//!
//! sockstamp reads these files as root. A FIFO would block it, a device may act when it is opened,
//! a link may lead to a file that is not the user's to show, an endless file would fill the memory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

/// A container takes some 2 kB in podman's list, and as much in docker's file of its own.
const LARGEST: u64 = 4 << 20;

/// Read the file at the path `below` a directory, if both belong to `owner`: a regular file, on
/// the way to which is no link and no other mount, which may be a FUSE server of the user's.
pub(super) fn read(directory: &Path, below: &Path, owner: u32) -> io::Result<Vec<u8>> {
    let at_path = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let top = OpenOptions::new()
        .read(true)
        .custom_flags((at_path | OFlag::O_DIRECTORY).bits())
        .open(directory)?;
    belongs(&top, owner)?;
    let how = OpenHow::new().flags(at_path).resolve(
        ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS
            | ResolveFlag::RESOLVE_NO_XDEV,
    );
    let place = File::from(openat2(top.as_fd(), below, how)?);
    belongs(&place, owner)?;
    let metadata = place.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // Reopen by the descriptor: O_PATH has opened nothing yet, and the descriptor refers to the
    // same file whatever its name now refers to. Use O_NONBLOCK, because open() would wait for a
    // lease (fcntl(2), "Leases").
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(format!("/proc/self/fd/{}", place.as_raw_fd()))?;
    let mut bytes = Vec::new();
    file.by_ref().take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!(
            "it has more than {LARGEST} bytes"
        )));
    }
    Ok(bytes)
}

/// List what is in a directory, if it can be read.
pub(super) fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn belongs(file: &File, owner: u32) -> io::Result<()> {
    if file.metadata()?.uid() == owner {
        Ok(())
    } else {
        Err(io::Error::other("it belongs to another user"))
    }
}

/// Do work that may last forever, as where a home is on a server that does not answer: it is left
/// to itself, and ends with this process.
pub(super) fn in_time<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> impl FnOnce(Duration) -> io::Result<T> {
    let (sender, result) = mpsc::channel();
    let begun = thread::Builder::new().spawn(move || sender.send(work()));
    move |patience| {
        begun?;
        let late = |_| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "it cannot be read in time",
            ))
        };
        result.recv_timeout(patience).unwrap_or_else(late)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};
    use std::time::Instant;

    use nix::sys::stat::{Mode, SFlag, mknod};
    use nix::unistd::{geteuid, mkfifo};

    use super::*;

    const BELOW: &str = "a/b/list";

    /// A home, and the place of the file in it.
    fn home() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("a/b")).unwrap();
        let file = home.path().join(BELOW);
        (home, file)
    }

    fn outcome(home: &Path) -> Result<Vec<u8>, String> {
        let start = Instant::now();
        let result = read(home, Path::new(BELOW), geteuid().as_raw());
        assert!(start.elapsed() < Duration::from_secs(2));
        result.map_err(|error| error.to_string())
    }

    #[test]
    fn an_ordinary_file_is_read_whole() {
        let (home, file) = home();
        fs::write(file, vec![b'x'; 100_000]).unwrap();
        assert_eq!(outcome(home.path()).unwrap().len(), 100_000);
    }

    #[test]
    fn a_fifo_is_not_opened_and_blocks_nothing() {
        let (home, file) = home();
        mkfifo(&file, Mode::S_IRWXU).unwrap();
        // Opening it for writing succeeds once a reader has it open, and not before (fifo(7)).
        let writer = thread::spawn({
            let file = file.clone();
            move || OpenOptions::new().write(true).open(file)
        });
        assert_eq!(
            outcome(home.path()).unwrap_err(),
            "it is not a regular file"
        );
        thread::sleep(Duration::from_millis(50));
        assert!(!writer.is_finished());
        let _reader = File::open(file).unwrap();
        assert!(writer.join().unwrap().is_ok());
    }

    #[test]
    fn devices_and_directories_are_no_files() {
        for kind in [SFlag::S_IFCHR, SFlag::S_IFDIR, SFlag::S_IFSOCK] {
            let (home, file) = home();
            match kind {
                // /dev/zero, which has no end.
                SFlag::S_IFCHR => {
                    mknod(&file, kind, Mode::S_IRWXU, nix::sys::stat::makedev(1, 5)).unwrap()
                }
                SFlag::S_IFSOCK => drop(std::os::unix::net::UnixListener::bind(&file).unwrap()),
                _ => fs::create_dir(&file).unwrap(),
            }
            assert_eq!(
                outcome(home.path()).unwrap_err(),
                "it is not a regular file",
                "{kind:?}"
            );
        }
    }

    #[test]
    fn no_link_is_followed_wherever_on_the_way_it_is() {
        let (home, file) = home();
        symlink("/etc/passwd", &file).unwrap();
        assert!(outcome(home.path()).unwrap_err().contains("symbolic links"));
        let (home, _) = self::home();
        fs::remove_dir(home.path().join("a/b")).unwrap();
        symlink("/etc", home.path().join("a/b")).unwrap();
        assert!(outcome(home.path()).unwrap_err().contains("symbolic links"));
        let (home, file) = self::home();
        symlink("../c", &file).unwrap();
        fs::write(home.path().join("a/c"), "x").unwrap();
        assert!(outcome(home.path()).unwrap_err().contains("symbolic links"));
    }

    #[test]
    fn a_file_without_end_is_refused_before_it_fills_the_memory() {
        let (home, file) = home();
        File::create(file).unwrap().set_len(1 << 40).unwrap();
        assert!(outcome(home.path()).unwrap_err().contains("more than"));
    }

    /// A hard link to a file of another user is no file of this one's.
    #[test]
    fn a_file_of_another_user_is_refused() {
        let (home, file) = home();
        fs::write(&file, "[]").unwrap();
        lchown(&file, Some(54_321), None).unwrap();
        assert!(outcome(home.path()).unwrap_err().contains("another user"));
        lchown(&file, Some(geteuid().as_raw()), None).unwrap();
        lchown(home.path(), Some(54_321), None).unwrap();
        assert!(outcome(home.path()).unwrap_err().contains("another user"));
    }

    #[test]
    fn a_file_under_a_lease_is_not_waited_for() {
        let (home, file) = home();
        fs::write(&file, "[]").unwrap();
        let mut program = std::process::Command::new("python3")
            .args(["-c", LEASE])
            .arg(&file)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        program
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut [0])
            .unwrap();
        let refused = outcome(home.path()).unwrap_err();
        assert!(refused.contains("temporarily unavailable"), "{refused}");
        program.kill().unwrap();
        program.wait().unwrap();
    }

    const LEASE: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('x', end='', flush=True)
sys.stdin.read()
";

    #[test]
    fn a_read_that_takes_too_long_is_abandoned() {
        let start = Instant::now();
        let wait = in_time(|| -> io::Result<()> {
            loop {
                thread::park();
            }
        });
        let waited = wait(Duration::from_millis(50));
        assert_eq!(waited.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() < Duration::from_secs(10));
        assert_eq!(in_time(|| Ok(7))(Duration::from_secs(60)).unwrap(), 7);
    }
}
