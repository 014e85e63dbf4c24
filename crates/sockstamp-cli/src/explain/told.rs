//! The content of a report.

use sockstamp_explain::diagnosis::Diagnosis;
use sockstamp_model::clock::Nanos;
use sockstamp_model::listener::ListenerSummary;

use super::causes::Explained;
use super::failed::Failed;
use crate::recordings::SlowOnly;

/// The whole report.
pub(super) struct Told {
    /// Where time is lost, as `stat` has it.
    pub(super) diagnosis: Diagnosis,
    /// The time from which on a wait counts as slow for that.
    pub(super) slow: Nanos,
    pub(super) explained: Vec<Explained>,
    pub(super) failed: Failed,
    /// Other messages were not recorded.
    pub(super) slow_only: Option<SlowOnly>,
    /// Listeners of the target that dropped anything, or that have waiting connections.
    pub(super) listeners: Vec<ListenerSummary>,
}
