//! What a rule finds.

use sockstamp_model::part::Part;
use sockstamp_model::stage::Stage;

/// A rule whose condition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// Time that the cause took; the largest is reported.
    pub(super) ns: u128,
    pub(super) sentence: String,
    pub(super) cause: Cause,
}

/// The stage or part that a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Stage(Stage),
    Part(Part),
    /// No time of messages, or one whose owner the sentence names itself.
    Other,
}
