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

    /// Return the change that comes nearest to one that is found.
    pub(super) fn suspect(&self) -> Option<&Change> {
        suspect(&self.changes)
    }
}

/// Return the change that chance makes least often, among those that matter: first of times that
/// somebody waits for.
fn suspect(changes: &[Change]) -> Option<&Change> {
    let matter = changes.iter().filter(|change| change.matters);
    matter.min_by(|one, other| {
        (other.is_waited_for().cmp(&one.is_waited_for()))
            .then_with(|| one.chance.total_cmp(&other.chance))
            .then_with(|| one.by_weight(other))
    })
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

#[cfg(test)]
mod tests {
    use sockstamp_explain::diff::Measure;
    use sockstamp_model::stage::Stage;

    use super::*;

    fn change(stage: Stage, chance: f64, matters: bool) -> Change {
        Change {
            measure: Measure::Stage(stage),
            quantile: 0,
            before: 1e6,
            after: 2e6,
            interval: None,
            chance,
            needed: 2.0,
            matters,
        }
    }

    #[test]
    fn a_suspect_is_a_time_that_somebody_waits_for() {
        let network = change(Stage::TxNetwork, 0.1, true);
        let small = change(Stage::RxApp, 0.01, false);
        let answer = change(Stage::PeerAnswer, 0.4, true);
        let wakeup = change(Stage::RxWakeup, 0.3, true);
        let all = [network, small, answer, wakeup];
        assert_eq!(suspect(&all), Some(&wakeup));
        assert_eq!(suspect(&all[..2]), Some(&network));
        assert_eq!(suspect(&all[1..2]), None);
    }
}
