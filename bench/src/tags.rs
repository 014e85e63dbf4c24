//! Measure the cost of tags (`record --tag`): how much more often the program of sockets runs per
//! message, over one that writes an option into every segment. A connection lasts a round.

use std::time::Duration;

use anyhow::Result;
use sockstamp_bpf::ProgramCost;

use crate::condition::Condition;
use crate::effort::Effort;
use crate::hooks::Sample;
use crate::load::{Load, Traffic};
use crate::paired::{Spread, in_turn, values};
use crate::report::{Budget, Report};

/// A bulk flow has no room for the tag, and the kernel asks for it in each of its first 64
/// segments: a round is longer than those take.
const ROUND: Duration = Duration::from_secs(3);

const CONDITIONS: [Condition; 4] = [
    Condition::Off,
    Condition::NaiveTags,
    Condition::InStep,
    Condition::Tagged,
];

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    for (name, traffic) in [
        ("request", Traffic::RequestResponse),
        ("bulk", Traffic::Bulk),
    ] {
        let account = ProgramCost::keep_account()?;
        let round = if effort == Effort::Smoke {
            ROUND / 12
        } else {
            ROUND
        };
        let [off, naive, untagged, tagged] = in_turn(effort.rounds(4), CONDITIONS, |condition| {
            Sample::over(load, condition, traffic, round)
        })?;
        drop(account);
        let of_sockets =
            |samples: &[Sample]| values(samples, |sample| sample.runs(|hook| hook == "sockops"));
        let time = |samples: &[Sample]| {
            values(samples, |sample| {
                sample.nanoseconds(|hook| hook == "sockops")
            })
        };
        let rate = |samples: &[Sample]| values(samples, Sample::messages);
        let more = |tagged: Vec<f64>, untagged: Vec<f64>| -> Vec<f64> {
            let both = tagged.into_iter().zip(untagged);
            both.map(|(tagged, untagged)| tagged - untagged).collect()
        };
        let runs = more(of_sockets(&tagged), of_sockets(&untagged));
        report.add(
            format!("tags.{name}.naive"),
            "runs",
            Spread::of(&of_sockets(&naive)),
            None,
        );
        report.add(
            format!("tags.{name}.naive"),
            "ns",
            Spread::of(&time(&naive)),
            None,
        );
        report.add(
            format!("tags.{name}.naive.rate"),
            "x",
            Spread::of_ratios(&rate(&naive), &rate(&off)),
            None,
        );
        report.add(
            format!("tags.{name}"),
            "x",
            Spread::of_ratios(&runs, &of_sockets(&naive)),
            Some(Budget::AtMost(0.05)),
        );
        report.add(format!("tags.{name}"), "runs", Spread::of(&runs), None);
        report.add(
            format!("tags.{name}"),
            "ns",
            Spread::of(&more(time(&tagged), time(&untagged))),
            None,
        );
        report.add(
            format!("tags.{name}.rate"),
            "x",
            Spread::of_ratios(&rate(&tagged), &rate(&untagged)),
            None,
        );
    }
    Ok(())
}
