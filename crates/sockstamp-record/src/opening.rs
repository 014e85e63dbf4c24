//! Open files of unknown origin.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

use crate::error::Error;

/// Open a regular file; return its length as well.
///
/// # Errors
///
/// If it cannot be opened, or is a directory, a pipe or a device.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> Result<(File, u64), Error> {
    // Without O_NONBLOCK, open() would wait for the other end of a pipe.
    let options = options.custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(path).map_err(Error::system("open", path))?;
    let metadata = file.metadata().map_err(Error::system("open", path))?;
    match metadata.is_file() {
        true => Ok((file, metadata.len())),
        false => Err(Error::Foreign {
            path: path.to_owned(),
            reason: "it is not a regular file".to_owned(),
        }),
    }
}

/// Open a regular file to read it.
///
/// # Errors
///
/// Those of [`open`].
pub(crate) fn to_read(path: &Path) -> Result<(File, u64), Error> {
    open(path, OpenOptions::new().read(true))
}
