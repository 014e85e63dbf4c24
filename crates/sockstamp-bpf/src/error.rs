//! What can go wrong, in one line that says what to do.

use std::io;
use std::path::PathBuf;

use crate::plan::Obstacle;

/// Why a measurement could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] Obstacle),
    /// libbpf or the kernel refused a step.
    #[error("cannot {step}")]
    Bpf {
        /// What was tried, as a verb.
        step: String,
        /// What libbpf says.
        source: libbpf_rs::Error,
    },
    /// A file or a system call failed.
    #[error("cannot {step}")]
    Io {
        /// What was tried, as a verb.
        step: String,
        /// The errno.
        source: io::Error,
    },
    /// The programs sent what this version does not know.
    #[error("{records} records have an unknown direction or verdict")]
    UnknownRecords {
        /// How many.
        records: u64,
    },
    /// A cgroup that does not exist, or is not one of version 2.
    #[error("{} is not a cgroup2 directory", path.display())]
    NotACgroup {
        /// The directory that was named.
        path: PathBuf,
    },
    /// A process that does not exist.
    #[error("no process {pid}")]
    NoProcess {
        /// The thread group id that was named.
        pid: u32,
    },
    /// A thread that is not the first of its process: `/proc` has it, too, though it does not list it.
    #[error("{tid} is a thread of process {pid}: name the process")]
    IsThread {
        /// What was named.
        tid: u32,
        /// The thread group id of its process.
        pid: u32,
    },
}

/// Adds what was tried to a failure.
pub(crate) trait Tried<T> {
    fn tried(self, step: impl Into<String>) -> Result<T, Error>;
}

impl<T> Tried<T> for Result<T, libbpf_rs::Error> {
    fn tried(self, step: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Bpf {
            step: step.into(),
            source,
        })
    }
}

impl<T> Tried<T> for io::Result<T> {
    fn tried(self, step: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Io {
            step: step.into(),
            source,
        })
    }
}
