//! Request/response over one connection: how much longer it takes with sockstamp than without.

use std::time::Duration;

use anyhow::Result;

use crate::Effort;
use crate::condition::Condition;
use crate::load::{Load, Outcome, Traffic};
use crate::paired::{Spread, in_turn, to_float, values};
use crate::report::{Budget, Report};

const ROUND: Duration = Duration::from_millis(250);

/// One figure of a round, and what may become of it in each condition.
struct Measure {
    name: &'static str,
    value: fn(&Outcome) -> f64,
    budget: fn(Condition) -> Option<Budget>,
}

const MEASURES: [Measure; 3] = [
    Measure {
        name: "rate",
        value: Outcome::transactions_per_second,
        budget: |_| None,
    },
    Measure {
        name: "p50",
        value: |outcome| to_float(outcome.p50_ns),
        budget: p50_budget,
    },
    Measure {
        name: "p99",
        value: |outcome| to_float(outcome.p99_ns),
        budget: p99_budget,
    },
];

fn p50_budget(condition: Condition) -> Option<Budget> {
    match condition {
        Condition::Off => None,
        Condition::Unselected => Some(Budget::AtMost(1.005)),
        Condition::Selected => Some(Budget::AtMost(1.01)),
        Condition::Recorded => Some(Budget::AtMost(1.1)),
    }
}

/// A flow that nobody selected has a budget for its median alone.
fn p99_budget(condition: Condition) -> Option<Budget> {
    (condition != Condition::Unselected)
        .then(|| p50_budget(condition))
        .flatten()
}

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let compared = [Condition::Unselected, Condition::Selected, Condition::Recorded];
    let sides = [&[Condition::Off], compared.as_slice()].concat();
    let outcomes = in_turn(effort.rounds(20), &sides, |condition| {
        let mut session = condition.enter(load.cgroup())?;
        load.round(Traffic::RequestResponse, ROUND, session.as_mut())
    })?;
    let (off, others) = outcomes
        .split_first()
        .unwrap_or_else(|| unreachable!("four sides were asked for"));
    for measure in MEASURES {
        let off = values(off, measure.value);
        for (condition, outcomes) in compared.iter().zip(others) {
            let spread = Spread::of_ratios(&values(outcomes, measure.value), &off);
            let name = format!("latency.{}.{}", measure.name, condition.name());
            report.add(name, "×", spread, (measure.budget)(*condition));
        }
    }
    report.add(
        "latency.p50.off",
        "µs",
        Spread::of(&values(off, |outcome| to_float(outcome.p50_ns) / 1e3)),
        None,
    );
    report.add(
        "latency.p99.off",
        "µs",
        Spread::of(&values(off, |outcome| to_float(outcome.p99_ns) / 1e3)),
        None,
    );
    Ok(())
}
