//! Track memory by its existence: a map lives as long as anything has a descriptor or a mapping of
//! it, which may be long after its application has left.

use std::collections::{HashMap, HashSet};

/// Maps that were given away and may still exist: their user, by id.
#[derive(Debug, Default)]
pub(super) struct Areas {
    given: HashMap<u32, u32>,
}

impl Areas {
    pub(super) fn give(&mut self, map: u32, user: u32) {
        self.given.insert(map, user);
    }

    /// Forget those that are not among the maps that exist.
    pub(super) fn keep(&mut self, existing: &HashSet<u32>) {
        self.given.retain(|map, _| existing.contains(map));
    }

    /// Count those of one user.
    pub(super) fn of(&self, user: u32) -> usize {
        self.given.values().filter(|owner| **owner == user).count()
    }

    /// Count all.
    pub(super) fn count(&self) -> usize {
        self.given.len()
    }
}
