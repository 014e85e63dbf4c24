//! Hold everything that is printed.

use sockstamp_explain::diff::{Change, Population};

/// Both sides, and what changed.
pub(super) struct Difference {
    pub(super) before: Population,
    pub(super) after: Population,
    pub(super) changes: Vec<Change>,
    /// The conditions that hold.
    pub(super) held: Vec<String>,
}
