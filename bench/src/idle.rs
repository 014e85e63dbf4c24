//! Measure the cost of idle selected connections: a message of another connection, with them and
//! without. The same with nothing loaded gives the kernel's part.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use sockstamp_bpf::ProgramCost;

use crate::condition::{Condition, State};
use crate::effort::Effort;
use crate::hooks::Sample;
use crate::load::{Load, Traffic};
use crate::paired::{Spread, in_turn, to_float, values};
use crate::report::{Budget, Report};

/// Both ends are selected: 100 000 sockets.
const CONNECTIONS: usize = 50_000;
/// Enough to see that it works.
const FEW: usize = 500;
/// Limit of the ratio of times in programs, and of round trips: the difference of equal rounds on a
/// quiet machine.
const NOTHING: f64 = 1.02;
/// A round trip is measured so often for each time that the connections are opened.
const SAMPLES: usize = 4;
/// Time for the deferred work (RCU) of opening and closing.
const REST: Duration = Duration::from_millis(200);

/// A side of the comparison.
struct Side {
    hooks_ns: f64,
    p50_ns: f64,
}

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let count = if effort == Effort::Smoke {
        FEW
    } else {
        CONNECTIONS
    };
    let sides = [
        (Condition::Off, 0),
        (Condition::Off, count),
        (Condition::Selected, 0),
        (Condition::Selected, count),
    ];
    let account = ProgramCost::keep_account()?;
    let [off, off_with, without, with] = in_turn(effort.rounds(3), sides, |(condition, idle)| {
        beside(load, condition, idle)
    })?;
    drop(account);
    let hooks = |side: &Side| side.hooks_ns;
    let p50 = |side: &Side| side.p50_ns;
    let ratios = |with: &[Side], without: &[Side], value: fn(&Side) -> f64| {
        Spread::of_ratios(&values(with, value), &values(without, value))
    };
    let nothing = Some(Budget::AtMost(NOTHING));
    report.add("idle.hooks", "×", ratios(&with, &without, hooks), nothing);
    report.add("idle.p50", "×", ratios(&with, &without, p50), nothing);
    report.add("idle.p50.off", "×", ratios(&off_with, &off, p50), None);
    report.add(
        "idle.hooks.ours",
        "ns",
        Spread::of(&values(&with, hooks)),
        None,
    );
    Ok(())
}

fn beside(load: &mut Load, condition: Condition, idle: usize) -> Result<Side> {
    let mut state = condition.enter(load)?;
    load.open_idle(idle)?;
    thread::sleep(REST);
    let side = measure(load, &mut state);
    load.close_idle()?;
    side
}

fn measure(load: &mut Load, state: &mut State) -> Result<Side> {
    let samples: Result<Vec<_>> = (0..SAMPLES)
        .map(|_| Sample::of_state(load, state, Traffic::RequestResponse))
        .collect();
    let samples = samples?;
    // The least disturbed: there are few, and the machine has its moods.
    let least = |value: fn(&Sample) -> f64| Spread::of(&values(&samples, value)).min;
    Ok(Side {
        hooks_ns: least(|sample| sample.nanoseconds(|_| true)),
        p50_ns: least(|sample| to_float(sample.outcome.p50_ns)),
    })
}
