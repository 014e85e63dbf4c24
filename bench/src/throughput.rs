//! Bulk transfer over one connection, in writes of iperf3's size.

use std::time::Duration;

use anyhow::Result;

use crate::condition::Condition;
use crate::effort::Effort;
use crate::load::{Load, Outcome, Traffic};
use crate::paired::{Spread, in_turn, values};
use crate::report::Report;

const ROUND: Duration = Duration::from_millis(120);

const CONDITIONS: [Condition; 8] = [
    Condition::Off,
    Condition::Unselected,
    Condition::UnselectedCallback,
    Condition::Default,
    Condition::DefaultCallback,
    Condition::Selected,
    Condition::SelectedCallback,
    Condition::Recorded,
];

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let [off, others @ ..] = in_turn(effort.rounds(12), CONDITIONS, |condition| {
        condition.round(load, Traffic::Bulk, ROUND)
    })?;
    let off = values(&off, Outcome::bytes_per_second);
    for (condition, outcomes) in CONDITIONS.iter().skip(1).zip(&others) {
        let spread = Spread::of_ratios(&values(outcomes, Outcome::bytes_per_second), &off);
        report.add(
            format!("throughput.{}", condition.name()),
            "×",
            spread,
            None,
        );
    }
    let gigabits = values(&off, |bytes| bytes * 8.0 / 1e9);
    report.add("throughput.off", "Gb/s", Spread::of(&gigabits), None);
    Ok(())
}
