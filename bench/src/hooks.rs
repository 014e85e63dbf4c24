//! Time in our programs a message and a read, over that in empty programs on the same hooks with the
//! same traffic. Long connections: what a flow costs once is no part of it.

use std::time::Duration;

use anyhow::{Context, Result};
use sockstamp_bpf::Session;
use sockstamp_bpf::floor::Floor;

use crate::Effort;
use crate::condition::Condition;
use crate::load::{Load, Traffic};
use crate::paired::{Spread, in_turn, to_float, values};
use crate::program_statistics::{self, Accounting, Runs};
use crate::report::{Budget, HookCost, PerMessage, Report};

const ROUND: Duration = Duration::from_millis(250);
const TX_BUDGET: Budget = Budget::AtMost(2.5);
const READ_BUDGET: Budget = Budget::AtMost(2.0);

/// What runs for arriving data and for reads. All others run for sends.
const READ_HOOKS: [&str; 2] = ["sk_data_ready", "sock_recv_length"];

#[derive(Debug, Clone, Copy)]
enum Side {
    Floor,
    Ours,
}

enum Attached {
    Floor(Floor),
    Ours(Session),
}

impl Attached {
    fn attach(side: Side, load: &Load) -> Result<Self> {
        Ok(match side {
            Side::Floor => Self::Floor(Floor::attach(load.cgroup())?),
            Side::Ours => Self::Ours(Condition::Selected.enter(load.cgroup())?.context("no session")?),
        })
    }

    fn account(&self) -> Result<Vec<Runs>> {
        match self {
            Self::Floor(floor) => program_statistics::read(&floor.programs(), "floor_"),
            Self::Ours(session) => program_statistics::read(&session.programs(), "on_"),
        }
    }

    fn session(&mut self) -> Option<&mut Session> {
        match self {
            Self::Floor(_) => None,
            Self::Ours(session) => Some(session),
        }
    }
}

/// A round: what each program did, and for how many messages.
struct Sample {
    programs: Vec<Runs>,
    messages: f64,
}

impl Sample {
    fn take(side: Side, load: &mut Load) -> Result<Self> {
        let mut attached = Attached::attach(side, load)?;
        load.open(Traffic::RequestResponse)?;
        let before = attached.account()?;
        let outcome = load.run(ROUND, attached.session())?;
        let programs = program_statistics::since(attached.account()?, &before);
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
    let samples = in_turn(effort.rounds(10), &[Side::Floor, Side::Ours], |side| {
        Sample::take(side, load)
    })?;
    drop(accounting);
    let [floor, ours] = samples.as_slice() else {
        unreachable!("two sides were asked for")
    };
    total(report, "hooks.send", TX_BUDGET, ours, floor, |hook| {
        !READ_HOOKS.contains(&hook)
    });
    total(report, "hooks.read", READ_BUDGET, ours, floor, |hook| {
        READ_HOOKS.contains(&hook)
    });
    report.add_hooks(costs(ours, floor));
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
fn costs(ours: &[Sample], floor: &[Sample]) -> Vec<HookCost> {
    let hooks = ours.iter().take(1).flat_map(|sample| &sample.programs);
    let costs = hooks.map(|program| HookCost {
        hook: program.hook.clone(),
        ours: per_message(ours, &program.hook),
        floor: per_message(floor, &program.hook),
    });
    costs
        .filter(|cost| cost.ours.runs + cost.floor.runs > 0.0)
        .collect()
}

fn per_message(samples: &[Sample], hook: &str) -> PerMessage {
    let median = |value: &dyn Fn(&Sample) -> f64| Spread::of(&values(samples, value)).median;
    PerMessage {
        runs: median(&|sample| sample.runs(|name| name == hook)),
        ns: median(&|sample| sample.nanoseconds(|name| name == hook)),
    }
}
