//! Describe errors in one line that names the remedy.

use std::io;
use std::path::PathBuf;

use crate::plan::Obstacle;

/// The reason why a measurement could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] Obstacle),
    /// libbpf or the kernel refused a step.
    #[error("cannot {step}")]
    Bpf {
        /// The failed step, as a verb.
        step: String,
        /// The error of libbpf.
        source: libbpf_rs::Error,
    },
    /// A file or a system call failed.
    #[error("cannot {step}")]
    Io {
        /// The failed step, as a verb.
        step: String,
        /// The errno.
        source: io::Error,
    },
    /// The programs sent values that this version does not know.
    #[error("{records} records have an unknown direction or verdict")]
    UnknownRecords {
        /// Their number.
        records: u64,
    },
    /// Nothing could lower the cost of measuring every message, and it is above the ceiling.
    #[error(
        "measuring every message takes {percent:.1} % of a core here, more than {ceiling} %: allow it with --max-cost none"
    )]
    TooDear {
        /// The cost of the programs.
        percent: f64,
        /// The ceiling.
        ceiling: f64,
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
    /// Processes were named by numbers that are not the kernel's.
    #[error(
        "process numbers are of a PID namespace here, and the kernel has others: name processes by --comm or by their cgroup, or run sockstamp in the host's PID namespace"
    )]
    PidNamespace,
    /// A thread that is not the first of its process: `/proc` has it, too, though it does not list
    /// it.
    #[error("{tid} is a thread of process {pid}: name the process")]
    IsThread {
        /// The given id.
        tid: u32,
        /// The thread group id of its process.
        pid: u32,
    },
}

/// Adds the failed step to an error.
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
