use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, setns};

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Namespace {
    /// The namespace of the thread that adds the target.
    #[default]
    Own,
    /// The namespace of this file. It counts as ended when the file vanishes or belongs to another
    /// namespace: a process ended, or a name was removed.
    Path(PathBuf),
}

impl Namespace {
    /// The one that `ip netns` knows by this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::Path(Path::new("/run/netns").join(name))
    }

    /// The namespace of a process.
    #[must_use]
    pub fn of_process(pid: u32) -> Self {
        Self::Path(format!("/proc/{pid}/ns/net").into())
    }

    /// Move the calling thread there permanently, and return how to check that it still exists.
    pub(crate) fn enter(&self) -> io::Result<Presence> {
        let Self::Path(path) = self else {
            return Ok(Presence(None));
        };
        let file = File::open(path)?;
        let identity = identity(&file.metadata()?);
        setns(file, CloneFlags::CLONE_NEWNET)?;
        Ok(Presence(Some((path.clone(), identity))))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("our own network namespace"),
            Self::Path(path) => write!(f, "the network namespace {}", path.display()),
        }
    }
}

/// Tests if an entered namespace still has other users. The thread inside keeps it alive, so it
/// never vanishes: only its file shows the end.
#[derive(Debug)]
pub(crate) struct Presence(Option<(PathBuf, (u64, u64))>);

impl Presence {
    pub(crate) fn is_gone(&self) -> bool {
        self.0.as_ref().is_some_and(|(path, entered)| {
            !fs::metadata(path).is_ok_and(|metadata| identity(&metadata) == *entered)
        })
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_gone_or_another_is_no_presence() {
        let here = identity(&fs::metadata("/proc/self/ns/net").unwrap());
        let at = |path: &str, identity| Presence(Some((path.into(), identity))).is_gone();
        assert!(!at("/proc/self/ns/net", here));
        assert!(at("/proc/self/ns/net", (here.0, here.1 + 1)));
        assert!(at("/proc/self/ns/nothing", here));
        assert!(!Presence(None).is_gone());
    }

    #[test]
    fn names_and_processes_have_their_files() {
        assert_eq!(
            Namespace::named("blue"),
            Namespace::Path("/run/netns/blue".into())
        );
        assert_eq!(
            Namespace::of_process(1).to_string(),
            "the network namespace /proc/1/ns/net"
        );
    }
}
