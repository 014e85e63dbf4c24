//! Sockops programs that run for messages of a flow that is not selected: none, on connections that
//! stand, with the program attached to the very cgroup that the flow is in.

use std::time::Duration;

use anyhow::{Context, Result};
use sockstamp_bpf::Session;

use crate::condition::Condition;
use crate::load::{Load, Traffic};
use crate::paired::{Spread, in_turn, to_float};
use crate::program_statistics::{self, Accounting};
use crate::report::{Budget, Report};

const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_millis(250);

pub(crate) fn run(load: &mut Load, report: &mut Report) -> Result<()> {
    let _accounting = Accounting::start()?;
    let sides = in_turn(
        ROUNDS,
        &[Condition::Unselected, Condition::Selected],
        |condition| sockops_runs_per_message(load, condition),
    )?;
    let [unselected, selected] = sides.as_slice() else {
        unreachable!("two sides were asked for")
    };
    report.add(
        "unselected.sockops",
        "runs",
        Spread::of(unselected),
        Some(Budget::Exactly(0.0)),
    );
    // That the first figure is not 0 for want of traffic.
    report.add("unselected.sockops.selected", "runs", Spread::of(selected), None);
    Ok(())
}

fn sockops_runs_per_message(load: &mut Load, condition: Condition) -> Result<f64> {
    let mut session = condition.enter(load.cgroup())?.context("no session")?;
    load.open(Traffic::RequestResponse)?;
    let before = sockops_runs(&session)?;
    let outcome = load.run(ROUND, Some(&mut session))?;
    let after = sockops_runs(&session)?;
    load.close()?;
    Ok(to_float(after - before) / to_float(outcome.messages()))
}

fn sockops_runs(session: &Session) -> Result<u64> {
    let programs = program_statistics::read(&session.programs(), "on_")?;
    let sockops = programs.iter().find(|program| program.hook == "sockops");
    Ok(sockops.context("no program is called on_sockops")?.runs)
}
