//! Keep kernels between runs, outside the tree.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};

/// Debian's kernels.
pub(crate) fn kernels() -> PathBuf {
    folder().join("kernels")
}

/// Kernels that were built here.
pub(crate) fn series() -> PathBuf {
    folder().join("series")
}

/// The emulator of NICs that stamp, and the programs of PTP.
pub(crate) fn igb() -> PathBuf {
    folder().join("igb")
}

/// Programs of other processors.
pub(crate) fn trees() -> PathBuf {
    folder().join("trees")
}

/// `$XDG_CACHE_HOME/sockstamp`, else `~/.cache/sockstamp`, else in /var/cache.
fn folder() -> PathBuf {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("XDG_CACHE_HOME")
        .or_else(|| Some(set("HOME")?.join(".cache")))
        .unwrap_or_else(|| "/var/cache".into())
        .join("sockstamp")
}

/// Create a folder of the cache, and all above it.
pub(crate) fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Kept from other labs as long as the value lives.
pub(crate) fn lock(folder: &Path) -> Result<Flock<File>> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| errno)
        .with_context(|| format!("cannot lock {}", path.display()))
}

/// Have the file count as written now.
pub(crate) fn touch(file: &Path) -> Result<()> {
    let opened = File::options().append(true).open(file);
    opened
        .and_then(|opened| opened.set_modified(SystemTime::now()))
        .with_context(|| format!("cannot touch {}", file.display()))
}

/// Return true if the file exists and was written within `age`.
pub(crate) fn is_fresh(file: &Path, age: Duration) -> bool {
    let written = fs::metadata(file).and_then(|metadata| metadata.modified());
    written.is_ok_and(|written| {
        SystemTime::now()
            .duration_since(written)
            .is_ok_and(|since| since < age)
    })
}
