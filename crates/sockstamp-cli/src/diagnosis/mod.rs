//! Say in one sentence where the time goes, if it goes anywhere. Pure: figures in, sentence out.

mod figures;
mod peers;
mod rules;
#[cfg(test)]
mod tests;

use sockstamp_model::group::GroupSummary;
use sockstamp_model::stage::Stage;
use sockstamp_model::summary::Summary;

use figures::Figures;
pub(crate) use peers::Peers;
pub use rules::{RULES, Rule};

/// A rule whose condition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// Time that the cause took; the largest is told.
    ns: u128,
    sentence: String,
}

/// Return the sentence of the rule whose cause took the most time; `None` if no condition holds.
pub(crate) fn of(summary: &Summary, peers: &Peers) -> Option<String> {
    let mut figures = Figures::from(summary);
    figures.slowest_peer = peers.outstanding(figures.stages[Stage::PeerAnswer]);
    largest(&figures).map(|finding| finding.sentence)
}

/// Do the same for a group, of which less is known; also return the time that the cause took.
pub(crate) fn of_group(group: &GroupSummary) -> Option<(u128, String)> {
    largest(&Figures::from(group)).map(|finding| (finding.ns, finding.sentence))
}

fn largest(figures: &Figures) -> Option<Finding> {
    let found = RULES.iter().filter_map(|rule| (rule.find)(figures));
    // Of equals, the first of the table.
    found.reduce(|largest, next| if next.ns > largest.ns { next } else { largest })
}
