//! What was measured, and what is slow.

use sockstamp_model::clock::Nanos;

/// What was measured, and what is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// A wait that takes less is no matter, whatever caused it.
    pub slow: Nanos,
    /// One command was run from its begin to its end: it waits for the whole.
    pub is_command: bool,
    /// The target is a program: what it does is what was asked about.
    pub is_program: bool,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            slow: Nanos(10_000_000),
            is_command: false,
            is_program: false,
        }
    }
}
