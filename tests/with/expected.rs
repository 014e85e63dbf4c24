//! Times, and what is expected of them.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::Value;

use crate::{direction_of, median, number, stage};

/// Milliseconds in nanoseconds.
pub const fn ms(milliseconds: u64) -> u64 {
    milliseconds * 1_000_000
}

/// Check that a time in nanoseconds is within bounds.
pub fn within(what: impl Display, value: u64, bounds: RangeInclusive<u64>) -> Result<(), String> {
    if bounds.contains(&value) {
        Ok(())
    } else {
        Err(format!("{what} is {value} ns, not within {bounds:?}"))
    }
}

/// Check a time that is a part of what a program's own clock saw.
///
/// # Panics
///
/// Fails if it is longer than that: no machine makes it so.
pub fn within_clock(what: impl Display, value: u64, least: u64, clock: u64) -> Result<(), String> {
    assert!(value <= clock, "{what} is {value} ns of {clock}");
    within(what, value, least..=clock)
}

/// Check the median of a stage: exactly in the messages of a trace, and by the histogram in the
/// report of the same messages.
pub fn median_within(
    name: &str,
    messages: &[&Value],
    report: &Value,
    bounds: RangeInclusive<u64>,
) -> Result<(), String> {
    within(
        format!("the median of {name}"),
        median(messages, name),
        bounds.clone(),
    )?;
    within(
        format!("p50 of {name}"),
        stage(report, name, "p50_ns"),
        bounds,
    )
}

/// The time that all messages together spent in a stage (`rx.app`) or in a part of one
/// (`tx.queue/cwnd`).
pub fn sum(report: &Value, name: &str) -> u64 {
    let Some((stage_name, part)) = name.split_once('/') else {
        return stage(report, name, "sum_ns");
    };
    let figure = &report[direction_of(stage_name)]["parts"][stage_name][part]["sum_ns"];
    figure
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// Check that these stages or parts are at least nine tenths of the additional time of the messages
/// of `built` against those of `undisturbed`, of which there must be as many, and each of its own
/// stage's.
pub fn explains(names: &[&str], built: &Value, undisturbed: &Value) -> Result<(), String> {
    let direction = direction_of(stage_of(names[0]));
    let figure = |report: &Value, figure: &str| number(&report[direction]["total"][figure]);
    let messages = |report: &Value| number(&report[direction]["messages"]);
    assert_eq!(
        messages(built),
        messages(undisturbed),
        "{built}, undisturbed {undisturbed}"
    );
    for report in [built, undisturbed] {
        // TCP splits some of the messages that share packets: it depends on when they come.
        let split = report["verdicts"]["split"].as_u64().unwrap_or(0);
        let missing = messages(report).saturating_sub(figure(report, "count") + split);
        assert!(
            missing <= 1 + messages(report) / 20,
            "{missing} are missing: {report}"
        );
    }
    let more = |name| more(name, built, undisturbed);
    let excess = figure(built, "sum_ns").saturating_sub(figure(undisturbed, "sum_ns"));
    nine_tenths(
        &names.join(" and "),
        names.iter().map(|name| more(name)).sum(),
        excess,
    )?;
    names
        .iter()
        .try_for_each(|name| explains_stage(name, built, undisturbed))
}

/// Check that a part is at least nine tenths of the additional time of its stage.
pub fn explains_stage(name: &str, built: &Value, undisturbed: &Value) -> Result<(), String> {
    nine_tenths(
        name,
        more(name, built, undisturbed),
        more(stage_of(name), built, undisturbed),
    )
}

/// Check that a named time is at least nine tenths of another.
pub fn nine_tenths(name: &str, named: u64, excess: u64) -> Result<(), String> {
    println!("{name}: {named} of {excess} ns");
    if excess > 0 && named >= excess / 10 * 9 {
        return Ok(());
    }
    Err(format!("{name} explains {named} ns of {excess}"))
}

fn stage_of(name: &str) -> &str {
    name.split('/').next().unwrap()
}

fn more(name: &str, built: &Value, undisturbed: &Value) -> u64 {
    sum(built, name).saturating_sub(sum(undisturbed, name))
}
