//! The cgroup of the target: a service or a container that starts again has another one, often at
//! the same path. Programs stay attached to the old one, which nothing uses any more.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sockstamp_bpf::Options as SessionOptions;

/// The directory is checked for this often.
const REST: Duration = Duration::from_secs(10);

/// Watches the directory of the target's cgroup, if the target is one.
#[derive(Debug)]
pub(crate) struct TargetWatch {
    path: Option<PathBuf>,
    inode: Option<u64>,
    checked: Instant,
    /// The log has said that it is gone.
    is_told: bool,
}

impl TargetWatch {
    /// Take the cgroup that is there now for the one that is measured.
    pub(crate) fn of(wanted: &SessionOptions) -> Self {
        let path = wanted.target.cgroup.clone();
        Self {
            inode: path.as_deref().and_then(inode),
            path,
            checked: Instant::now(),
            is_told: false,
        }
    }

    /// Return true if the cgroup is gone, or another one has its path. Looks now and then.
    pub(crate) fn is_another(&mut self) -> bool {
        if self.path.is_none() || self.checked.elapsed() < REST {
            return false;
        }
        self.checked = Instant::now();
        self.differs()
    }

    /// The same, at once.
    pub(crate) fn differs(&self) -> bool {
        self.path
            .as_deref()
            .is_some_and(|path| inode(path) != self.inode)
    }

    /// Return true if the cgroup is gone, and none has its path.
    pub(crate) fn is_absent(&self) -> bool {
        self.inode.is_some() && self.path.as_deref().and_then(inode).is_none()
    }

    /// Return the time until the next look, if there is one.
    pub(crate) fn due(&self) -> Option<Duration> {
        let left = REST.saturating_sub(self.checked.elapsed());
        self.path.is_some().then_some(left)
    }

    /// Return true once.
    pub(crate) fn tell(&mut self) -> bool {
        !std::mem::replace(&mut self.is_told, true)
    }
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|directory| directory.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_made_again_is_another() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("cgroup");
        fs::create_dir(&path).unwrap();
        let mut wanted = SessionOptions::default();
        assert!(!TargetWatch::of(&wanted).differs());
        wanted.target.cgroup = Some(path.clone());
        let watch = TargetWatch::of(&wanted);
        assert!(!watch.differs());
        // The kernel may reuse the number of an inode that is free.
        fs::rename(&path, parent.path().join("old")).unwrap();
        assert!(watch.differs() && watch.is_absent());
        fs::create_dir(&path).unwrap();
        assert!(watch.differs() && !watch.is_absent());
    }
}
