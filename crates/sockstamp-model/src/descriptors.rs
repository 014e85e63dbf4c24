//! The descriptors that a process has open, and those that it may have.

/// The descriptors of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Open ones.
    pub open: u64,
    /// The most that it may have (RLIMIT_NOFILE): beyond them, accept() fails (EMFILE).
    pub limit: u64,
}

impl Descriptors {
    /// Return true if it has no room for a twentieth more.
    #[must_use]
    pub const fn are_used_up(&self) -> bool {
        self.open.saturating_mul(20) >= self.limit.saturating_mul(19)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_is_room() {
        let of = |open, limit| Descriptors { open, limit }.are_used_up();
        assert!(of(27, 28) && of(1024, 1024));
        assert!(!of(26, 28) && !of(900, 1024));
    }
}
