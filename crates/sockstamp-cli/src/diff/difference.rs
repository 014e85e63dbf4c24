//! Hold everything that is printed.

use sockstamp_explain::diff::{Change, OneSided, Population};

/// Both sides, and what changed.
pub(super) struct Difference {
    pub(super) before: Population,
    pub(super) after: Population,
    pub(super) changes: Vec<Change>,
    pub(super) one_sided: Vec<OneSided>,
    /// The conditions that hold.
    pub(super) held: Vec<String>,
}

/// Return the side that alone has a stage.
pub(super) const fn side(one: &OneSided) -> &'static str {
    match one.is_new {
        true => "after",
        false => "before",
    }
}
