//! Time in our programs a send and a read, over that in empty programs on the same hooks with the
//! same traffic. Long connections: what a flow costs once is no part of it. And what runs for a flow
//! that is not selected, with the sockops program attached to the very cgroup that the flow is in.

use std::time::Duration;

use anyhow::Result;

use crate::Effort;
use crate::condition::Condition;
use crate::load::{Load, Traffic};
use crate::paired::{Spread, in_turn, to_float, values};
use crate::program_statistics::{self, Accounting, Runs};
use crate::report::{Budget, HookCost, PerMessage, Report};

const ROUND: Duration = Duration::from_millis(250);

/// A message is a send and, at the other end, a read. These run for the read; all others for the send.
const READ_HOOKS: [&str; 2] = ["sk_data_ready", "sock_recv_length"];

fn of_reads(hook: &str) -> bool {
    READ_HOOKS.contains(&hook)
}

fn of_sends(hook: &str) -> bool {
    !of_reads(hook)
}

/// A round: what each program did, and for how many messages.
struct Sample {
    programs: Vec<Runs>,
    messages: f64,
}

impl Sample {
    fn take(load: &mut Load, condition: Condition) -> Result<Self> {
        let mut state = condition.enter(load)?;
        load.open(Traffic::RequestResponse)?;
        let before = state.account()?;
        let outcome = load.run(ROUND, state.session())?;
        let programs = program_statistics::since(state.account()?, &before);
        load.close()?;
        Ok(Self {
            programs,
            messages: to_float(outcome.messages()),
        })
    }

    fn nanoseconds(&self, wanted: impl Fn(&str) -> bool) -> f64 {
        self.per_message(wanted, |program| program.nanoseconds)
    }

    fn runs(&self, wanted: impl Fn(&str) -> bool) -> f64 {
        self.per_message(wanted, |program| program.runs)
    }

    fn per_message(&self, wanted: impl Fn(&str) -> bool, count: impl Fn(&Runs) -> u64) -> f64 {
        let programs = self.programs.iter().filter(|program| wanted(&program.hook));
        to_float(programs.map(count).sum()) / self.messages
    }
}

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let accounting = Accounting::start()?;
    let conditions = [
        Condition::EmptySelected,
        Condition::Selected,
        Condition::Unselected,
    ];
    let [floor, selected, unselected] = in_turn(effort.rounds(10), conditions, |condition| {
        accounting.during(|| Sample::take(load, condition))
    })?;
    drop(accounting);
    total(
        report,
        "hooks.send",
        Budget::AtMost(2.5),
        &selected,
        &floor,
        of_sends,
    );
    total(
        report,
        "hooks.read",
        Budget::AtMost(2.0),
        &selected,
        &floor,
        of_reads,
    );
    let sockops = values(&unselected, |sample| sample.runs(|hook| hook == "sockops"));
    report.add(
        "unselected.sockops",
        "runs",
        Spread::of(&sockops),
        Some(Budget::Exactly(0.0)),
    );
    let all = values(&unselected, |sample| sample.nanoseconds(|_| true));
    report.add("unselected.hooks", "ns", Spread::of(&all), None);
    report.add_hooks(costs(&floor, &selected, &unselected));
    Ok(())
}

fn total(
    report: &mut Report,
    name: &str,
    budget: Budget,
    ours: &[Sample],
    floor: &[Sample],
    wanted: fn(&str) -> bool,
) {
    let ours = values(ours, |sample| sample.nanoseconds(wanted));
    let floor = values(floor, |sample| sample.nanoseconds(wanted));
    report.add(name, "×", Spread::of_ratios(&ours, &floor), Some(budget));
    report.add(format!("{name}.ours"), "ns", Spread::of(&ours), None);
    report.add(format!("{name}.floor"), "ns", Spread::of(&floor), None);
}

/// A line for each hook that ran.
fn costs(floor: &[Sample], selected: &[Sample], unselected: &[Sample]) -> Vec<HookCost> {
    let hooks = selected.iter().take(1).flat_map(|sample| &sample.programs);
    let costs = hooks.map(|program| HookCost {
        hook: program.hook.clone(),
        floor: per_message(floor, &program.hook),
        selected: per_message(selected, &program.hook),
        unselected: per_message(unselected, &program.hook),
    });
    costs.filter(HookCost::ran).collect()
}

fn per_message(samples: &[Sample], hook: &str) -> PerMessage {
    let median = |value: &dyn Fn(&Sample) -> f64| Spread::of(&values(samples, value)).median;
    PerMessage {
        runs: median(&|sample| sample.runs(|name| name == hook)),
        ns: median(&|sample| sample.nanoseconds(|name| name == hook)),
    }
}
