//! One of the two sides that are compared.

use super::population::{Cluster, Population};

/// The recordings of a side.
pub(super) struct Side<'a> {
    pub(super) recordings: &'a [Population],
    /// All messages of each.
    pub(super) each: Vec<Cluster>,
    /// All messages.
    pub(super) whole: Cluster,
}

impl<'a> Side<'a> {
    pub(super) fn of(recordings: &'a [Population]) -> Self {
        let each: Vec<Cluster> = recordings.iter().map(Population::all).collect();
        let mut whole = Cluster::default();
        each.iter().for_each(|one| whole.merge(one));
        Self {
            recordings,
            each,
            whole,
        }
    }
}
