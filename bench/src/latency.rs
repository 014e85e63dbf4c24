//! Measure request/response over one connection with and without sockstamp. Two conditions with
//! less than sockstamp show the cost that no program of ours can avoid.

use std::time::Duration;

use anyhow::Result;

use crate::condition::Condition;
use crate::effort::Effort;
use crate::load::{Load, Outcome, Traffic};
use crate::paired::{Spread, in_turn, to_float, values};
use crate::report::{Budget, Report};

const ROUND: Duration = Duration::from_millis(200);

const CONDITIONS: [Condition; 13] = [
    Condition::Off,
    Condition::Stamping,
    Condition::Empty,
    Condition::Unselected,
    Condition::UnselectedNoEntry,
    Condition::UnselectedCallback,
    Condition::UnselectedNoCauses,
    Condition::UnselectedFewest,
    Condition::Default,
    Condition::DefaultCallback,
    Condition::Selected,
    Condition::SelectedCallback,
    Condition::Recorded,
];

/// A figure of a round, with its budget per condition.
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
        budget: |_| None,
    },
];

fn p50_budget(condition: Condition) -> Option<Budget> {
    match condition {
        Condition::Unselected
        | Condition::UnselectedNoEntry
        | Condition::UnselectedCallback
        | Condition::UnselectedNoCauses
        | Condition::UnselectedFewest => Some(Budget::AtMost(1.06)),
        Condition::Default | Condition::DefaultCallback => Some(Budget::AtMost(1.12)),
        Condition::Recorded => Some(Budget::AtMost(1.35)),
        _ => None,
    }
}

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let [off, others @ ..] = in_turn(effort.rounds(16), CONDITIONS, |condition| {
        condition.round(load, Traffic::RequestResponse, ROUND)
    })?;
    for measure in MEASURES {
        let off = values(&off, measure.value);
        for (condition, outcomes) in CONDITIONS.iter().skip(1).zip(&others) {
            let spread = Spread::of_ratios(&values(outcomes, measure.value), &off);
            let name = format!("latency.{}.{}", measure.name, condition.name());
            report.add(name, "×", spread, (measure.budget)(*condition));
        }
    }
    for (name, value) in [("p50", MEASURES[1].value), ("p99", MEASURES[2].value)] {
        let microseconds = values(&off, |outcome| value(outcome) / 1e3);
        report.add(
            format!("latency.{name}.off"),
            "µs",
            Spread::of(&microseconds),
            None,
        );
    }
    Ok(())
}
