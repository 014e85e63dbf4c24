//! Errors: which file could not be written or read, and where.

use std::io;
use std::path::{Path, PathBuf};

use crate::footer::GROUPS;

/// The failure of writing or reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("cannot {doing} {}", path.display())]
    System {
        /// The call, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is a file of this name, which may be a recording.
    #[error("{} exists: name another, or remove it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// There is an empty file of this name that others may read or change.
    #[error("{} is there already, and {reason}: name another, or remove it", path.display())]
    Shared {
        /// The file.
        path: PathBuf,
        /// Its owner, its mode or its names.
        reason: String,
    },
    /// Another process writes the file.
    #[error("{} is still being recorded", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// An earlier write has failed.
    #[error("{} takes no more rows: it was cut after a write that failed", path.display())]
    Cut {
        /// The file.
        path: PathBuf,
    },
    /// The encoder refused.
    #[error("cannot write {}: {reason}", path.display())]
    Encoder {
        /// The file.
        path: PathBuf,
        /// Its reason.
        reason: String,
    },
    /// The file has no footer: it is no Parquet file, or it was cut off before the first.
    #[error("{}: no messages up to byte {length}: it is not a recording, or it ends before its first rows", path.display())]
    NoFooter {
        /// The file.
        path: PathBuf,
        /// Its length.
        length: u64,
    },
    /// The file has as many row groups as one may have.
    #[error("{} has {GROUPS} row groups, as many as a file can have: record into a directory", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file was not written by `sockstamp record`, or by another version.
    #[error("{}: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The reason, such as a column that it lacks.
        reason: String,
    },
    /// Bytes of the file contradict its footer.
    #[error("{}: damaged at byte {offset}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The place of the part that cannot be read.
        offset: u64,
        /// The reason.
        reason: String,
    },
}

impl Error {
    pub(crate) fn system(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::System {
            doing,
            path,
            source,
        }
    }

    /// Return true if the device has no more room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::System { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}
