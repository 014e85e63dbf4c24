//! Descriptors of a program that accepts late: without a free one, accept() fails.

/// The descriptors of a process, of which it has no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Open ones.
    pub open: u64,
    /// The most that the process may have (RLIMIT_NOFILE).
    pub limit: u64,
}
