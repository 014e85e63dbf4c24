//! Keep a file from being recovered, or written by two processes.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::Error;

/// Lock a file until the lock is dropped, or this process ends. A device has no lock, nor has a
/// file where the file system knows none: `None`.
///
/// # Errors
///
/// If another process has locked the file.
pub(crate) fn lock(file: &File, path: &Path) -> Result<Option<Flock<File>>, Error> {
    let metadata = file.metadata().map_err(Error::system("open", path))?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let shared = file.try_clone().map_err(Error::system("open", path))?;
    match Flock::lock(shared, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Err(Error::Busy {
            path: path.to_owned(),
        }),
        Err(_) => Ok(None),
    }
}
