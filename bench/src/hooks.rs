//! Measure time in our programs per send and read, over that in empty programs on the same hooks
//! with the same traffic. Connections are long, so costs per flow do not count. Also measure
//! programs run for unselected flows, while the sockops program is attached to the flow's own
//! cgroup.

use std::time::Duration;

use anyhow::Result;
use sockstamp_bpf::ProgramCost;

use crate::condition::{Condition, State};
use crate::effort::Effort;
use crate::load::{Load, Outcome, Traffic};
use crate::paired::{Spread, in_turn, to_float, values};
use crate::program_statistics::{self, Runs};
use crate::report::{Budget, HookCost, PerMessage, Report};

const ROUND: Duration = Duration::from_millis(250);

/// A message is a send and, at the other end, a read. These hooks run for the read; all others,
/// except those below, for the send.
const READ_HOOKS: [&str; 2] = ["sk_data_ready", "sock_recv_length"];
/// Hooks of UDP, which are attached on demand: none of ours runs here. The empty programs on them
/// are part of neither ratio.
const UDP_HOOKS: [&str; 8] = [
    "net_dev_queue",
    "net_dev_start_xmit",
    "kfree_skb",
    "cgroup_ingress",
    "sock_create",
    "sock_release",
    "sendmsg4",
    "sendmsg6",
];

fn of_reads(hook: &str) -> bool {
    READ_HOOKS.contains(&hook)
}

fn of_sends(hook: &str) -> bool {
    !of_reads(hook) && !of_udp(hook)
}

fn of_udp(hook: &str) -> bool {
    UDP_HOOKS.contains(&hook)
}

/// A round: runs and time of each program, and the number of messages.
pub(crate) struct Sample {
    programs: Vec<Runs>,
    messages: f64,
    pub(crate) outcome: Outcome,
}

impl Sample {
    pub(crate) fn take(load: &mut Load, condition: Condition, traffic: Traffic) -> Result<Self> {
        Self::over(load, condition, traffic, ROUND)
    }

    /// As long as `round`.
    pub(crate) fn over(
        load: &mut Load,
        condition: Condition,
        traffic: Traffic,
        round: Duration,
    ) -> Result<Self> {
        let mut state = condition.enter(load)?;
        Self::of_round(load, &mut state, traffic, round)
    }

    /// On a connection of its own.
    pub(crate) fn of_state(load: &mut Load, state: &mut State, traffic: Traffic) -> Result<Self> {
        Self::of_round(load, state, traffic, ROUND)
    }

    fn of_round(
        load: &mut Load,
        state: &mut State,
        traffic: Traffic,
        round: Duration,
    ) -> Result<Self> {
        load.open(traffic)?;
        let before = state.account()?;
        let outcome = load.run(round, state.session())?;
        let programs = program_statistics::since(state.account()?, &before);
        load.close()?;
        Ok(Self {
            programs,
            messages: outcome.messages(traffic),
            outcome,
        })
    }

    pub(crate) fn nanoseconds(&self, wanted: impl Fn(&str) -> bool) -> f64 {
        self.per_message(wanted, |program| program.nanoseconds)
    }

    pub(crate) fn runs(&self, wanted: impl Fn(&str) -> bool) -> f64 {
        self.per_message(wanted, |program| program.runs)
    }

    /// Return how many programs run for a message: an acknowledgement may run one again.
    fn programs_of_a_message(&self) -> f64 {
        let programs = self.programs.iter();
        let often = programs.filter(|program| to_float(program.runs) > self.messages / 2.0);
        to_float(u64::try_from(often.count()).unwrap_or(u64::MAX))
    }

    pub(crate) fn messages(&self) -> f64 {
        self.messages
    }

    fn per_message(&self, wanted: impl Fn(&str) -> bool, count: impl Fn(&Runs) -> u64) -> f64 {
        let programs = self.programs.iter().filter(|program| wanted(&program.hook));
        to_float(programs.map(count).sum()) / self.messages
    }
}

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let account = ProgramCost::keep_account()?;
    let conditions = [
        Condition::EmptySelected,
        Condition::Selected,
        Condition::Unselected,
        Condition::SelectedCallback,
        Condition::UnselectedCallback,
        Condition::UnselectedNoCauses,
        Condition::UnselectedFewest,
        Condition::Default,
        Condition::DefaultCallback,
    ];
    let [floor, selected, unselected, others @ ..] =
        in_turn(effort.rounds(6), conditions, |condition| {
            Sample::take(load, condition, Traffic::RequestResponse)
        })?;
    let bulk = in_turn(effort.rounds(6), conditions, |condition| {
        Sample::take(load, condition, Traffic::Bulk)
    })?;
    drop(account);
    total(
        report,
        "hooks.send",
        Budget::AtMost(2.0),
        &selected,
        &floor,
        of_sends,
    );
    total(
        report,
        "hooks.read",
        Budget::AtMost(2.5),
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
    let samples = [&floor, &selected, &unselected].into_iter().chain(&others);
    for (condition, samples) in conditions.iter().zip(samples) {
        let name = format!("hooks.{}", condition.name());
        whole(report, &name, samples, time_budget(*condition));
        if let Some(budget) = programs_budget(*condition) {
            let programs = values(samples, Sample::programs_of_a_message);
            report.add(
                format!("{name}.programs"),
                "count",
                Spread::of(&programs),
                Some(budget),
            );
        }
    }
    for (condition, samples) in conditions.iter().zip(&bulk) {
        whole(
            report,
            &format!("hooks.bulk.{}", condition.name()),
            samples,
            None,
        );
    }
    report.add_hooks(costs(&floor, &selected, &unselected));
    Ok(())
}

/// The time of programs for a message that is passed over, and for one that is measured.
fn time_budget(condition: Condition) -> Option<Budget> {
    match condition {
        Condition::Default => Some(Budget::AtMost(250.0)),
        Condition::Selected => Some(Budget::AtMost(600.0)),
        _ => None,
    }
}

/// The number of programs that a message of an unselected flow runs; the target is a cgroup.
fn programs_budget(condition: Condition) -> Option<Budget> {
    match condition {
        Condition::Unselected
        | Condition::UnselectedCallback
        | Condition::UnselectedNoCauses
        | Condition::UnselectedFewest => Some(Budget::AtMost(2.0)),
        _ => None,
    }
}

/// Report all programs together.
fn whole(report: &mut Report, name: &str, samples: &[Sample], budget: Option<Budget>) {
    let all = values(samples, |sample| sample.nanoseconds(|_| true));
    report.add(name, "ns", Spread::of(&all), budget);
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
