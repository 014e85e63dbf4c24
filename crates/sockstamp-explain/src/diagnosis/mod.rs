//! Diagnose in one sentence where the time goes, if there is a clear cause. Pure: figures in,
//! sentence out.

mod figures;
mod finding;
mod owners;
mod rules;
#[cfg(test)]
mod tests;

use sockstamp_model::group::GroupSummary;
use sockstamp_model::stage::Stage;
use sockstamp_model::summary::Summary;

use figures::Figures;
use finding::Finding;
pub use owners::Owners;
pub use rules::{RULES, Rule, full_queue};

/// Return the sentence of the rule whose cause took the most time, with the program that it holds
/// for if that is one; `None` if no condition holds.
#[must_use]
pub fn of(summary: &Summary, owners: &Owners) -> Option<String> {
    let mut figures = Figures::from(summary);
    figures.slowest_peer = owners.slowest_peer(figures.stages[Stage::PeerAnswer]);
    let Finding {
        sentence, cause, ..
    } = largest(&figures)?;
    Some(match owners.program(cause) {
        Some(program) => format!("{program}: {sentence}"),
        None => sentence,
    })
}

/// Do the same for a group, of which less is known; also return the time that the cause took.
#[must_use]
pub fn of_group(group: &GroupSummary) -> Option<(u128, String)> {
    largest(&Figures::from(group)).map(|finding| (finding.ns, finding.sentence))
}

fn largest(figures: &Figures) -> Option<Finding> {
    let found = RULES.iter().filter_map(|rule| (rule.find)(figures));
    // Prefer the first in the table if several are equal.
    found.reduce(|largest, next| if next.ns > largest.ns { next } else { largest })
}
