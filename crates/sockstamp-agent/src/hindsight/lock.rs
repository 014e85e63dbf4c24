//! The lock of a directory: each of two agents would remove the other's files.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// The directories of this process. A reload prepares a recording before the one before it ends,
/// which may have the same directory: they share the lock.
static LOCKED: Mutex<Vec<Locked>> = Mutex::new(Vec::new());

struct Locked {
    place: Place,
    shares: usize,
    /// None where the file system knows no locks.
    _lock: Option<Flock<File>>,
}

/// Device and inode: several paths may lead to a directory.
type Place = (u64, u64);

/// A share of this process in the lock of a directory, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(Place);

impl Lock {
    /// Lock a directory, or share the lock.
    ///
    /// # Errors
    ///
    /// If another process has locked it.
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let failed = || format!("cannot read {}", directory.display());
        let opened = File::open(directory).with_context(failed)?;
        let about = opened.metadata().with_context(failed)?;
        let place = (about.dev(), about.ino());
        let mut locked = locked();
        match locked.iter_mut().find(|locked| locked.place == place) {
            Some(known) => known.shares += 1,
            None => locked.push(Locked {
                place,
                shares: 1,
                _lock: lock(opened, directory)?,
            }),
        }
        Ok(Self(place))
    }
}

fn lock(opened: File, directory: &Path) -> Result<Option<Flock<File>>> {
    match Flock::lock(opened, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => bail!(
            "another agent records in {}: name another directory in [hindsight]",
            directory.display()
        ),
        Err(_) => Ok(None),
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut locked = locked();
        for known in locked.iter_mut().filter(|known| known.place == self.0) {
            known.shares -= 1;
        }
        locked.retain(|known| known.shares > 0);
    }
}

fn locked() -> MutexGuard<'static, Vec<Locked>> {
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// As another process does.
    fn is_free(directory: &Path) -> bool {
        let opened = File::open(directory).unwrap();
        Flock::lock(opened, FlockArg::LockExclusiveNonblock).is_ok()
    }

    #[test]
    fn a_directory_is_locked_until_its_last_recording_has_ended() {
        let parent = TempDir::new().unwrap();
        let [directory, link] = ["directory", "link"].map(|name| parent.path().join(name));
        fs::create_dir(&directory).unwrap();
        symlink(&directory, &link).unwrap();
        let before = Lock::take(&directory).unwrap();
        let after = Lock::take(&link).unwrap();
        drop(before);
        assert!(!is_free(&directory));
        drop(after);
        assert!(is_free(&directory));
    }

    #[test]
    fn a_directory_of_another_process_is_refused_by_its_name() {
        let directory = TempDir::new().unwrap();
        let opened = File::open(directory.path()).unwrap();
        let other = Flock::lock(opened, FlockArg::LockExclusive).unwrap();
        let told = Lock::take(directory.path()).unwrap_err().to_string();
        let expected = format!("another agent records in {}: ", directory.path().display());
        assert!(told.starts_with(&expected), "{told}");
        drop(other);
        assert!(Lock::take(directory.path()).is_ok());
    }
}
