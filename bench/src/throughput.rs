//! Bulk transfer over one connection, in writes of iperf3's size.

use std::time::Duration;

use anyhow::Result;

use crate::Effort;
use crate::condition::Condition;
use crate::load::{Load, Outcome, Traffic};
use crate::paired::{Spread, in_turn, values};
use crate::report::Report;

const ROUND: Duration = Duration::from_millis(250);

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let compared = [Condition::Unselected, Condition::Selected, Condition::Recorded];
    let sides = [&[Condition::Off], compared.as_slice()].concat();
    let outcomes = in_turn(effort.rounds(12), &sides, |condition| {
        let mut session = condition.enter(load.cgroup())?;
        load.round(Traffic::Bulk, ROUND, session.as_mut())
    })?;
    let (off, others) = outcomes
        .split_first()
        .unwrap_or_else(|| unreachable!("four sides were asked for"));
    let off = values(off, Outcome::bytes_per_second);
    for (condition, outcomes) in compared.iter().zip(others) {
        let spread = Spread::of_ratios(&values(outcomes, Outcome::bytes_per_second), &off);
        report.add(format!("throughput.{}", condition.name()), "×", spread, None);
    }
    let gigabits: Vec<_> = off.iter().map(|bytes| bytes * 8.0 / 1e9).collect();
    report.add("throughput.off", "Gb/s", Spread::of(&gigabits), None);
    Ok(())
}
