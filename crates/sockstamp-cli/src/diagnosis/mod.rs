//! Say in one sentence where the time goes, if it goes anywhere. Pure: figures in, sentence out.

mod figures;
mod rules;
#[cfg(test)]
mod tests;

use sockstamp_model::summary::Summary;

use figures::Figures;
pub use rules::{RULES, Rule};

/// A rule whose condition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// Time that the cause took; the largest is told.
    ns: u128,
    sentence: String,
}

/// Return the sentence of the rule whose cause took the most time; `None` if no condition holds.
pub(crate) fn of(summary: &Summary) -> Option<String> {
    let figures = Figures::from(summary);
    let found = RULES.iter().filter_map(|rule| (rule.find)(&figures));
    // Of equals, the first of the table.
    let largest = found.reduce(|largest, next| if next.ns > largest.ns { next } else { largest });
    largest.map(|finding| finding.sentence)
}
