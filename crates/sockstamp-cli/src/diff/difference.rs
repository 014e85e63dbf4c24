//! Hold everything that is printed.

use sockstamp_explain::diff::{Change, OneSided, Population, Seen};

/// Both sides, and what changed.
pub(super) struct Difference {
    pub(super) before: Vec<Population>,
    pub(super) after: Vec<Population>,
    /// Whole times, the largest difference first.
    pub(super) seen: Vec<Seen>,
    pub(super) changes: Vec<Change>,
    pub(super) one_sided: Vec<OneSided>,
    /// The conditions that hold.
    pub(super) held: Vec<String>,
}

impl Difference {
    /// Return the changes that are found, the one first that adds most.
    pub(super) fn found(&self) -> Vec<&Change> {
        let mut found: Vec<&Change> = self.changes.iter().filter(|one| one.is_found()).collect();
        found.sort_by(|one, other| one.by_weight(other));
        found
    }

    /// Return the change that chance makes least often, among those that matter.
    pub(super) fn suspect(&self) -> Option<&Change> {
        let matter = self.changes.iter().filter(|change| change.matters);
        matter.min_by(|one, other| {
            (one.chance.total_cmp(&other.chance)).then_with(|| one.by_weight(other))
        })
    }
}

/// Return the valid messages of a side, by weight.
pub(super) fn messages(recordings: &[Population]) -> u64 {
    recordings.iter().map(Population::messages).sum()
}

/// Return the side that alone has a stage.
pub(super) const fn side(one: &OneSided) -> &'static str {
    match one.is_new {
        true => "after",
        false => "before",
    }
}
