//! Changes as one JSON object, all times in nanoseconds.

use std::io::{self, Write};

use serde::Serialize;
use sockstamp_run::escape;

use super::difference::{Difference, messages, side};

/// Raised when a key changes its meaning or is removed.
const VERSION: u32 = 2;

#[derive(Serialize)]
struct All<'a> {
    version: u32,
    before_messages: u64,
    after_messages: u64,
    seen: Vec<Seen>,
    changes: Vec<Change>,
    one_sided: Vec<OneSided>,
    held: &'a [String],
}

#[derive(Serialize)]
struct OneSided {
    stage: &'static str,
    side: &'static str,
    messages: u64,
    p50_ns: f64,
}

#[derive(Serialize)]
struct Change {
    stage: &'static str,
    quantile: &'static str,
    before_ns: f64,
    after_ns: f64,
    change: f64,
    interval: Option<(f64, f64)>,
    beyond_chance: bool,
    matters: bool,
    chance: f64,
    needed: Option<f64>,
}

#[derive(Serialize)]
struct Seen {
    stage: &'static str,
    before_mean_ns: f64,
    after_mean_ns: f64,
    part: Option<&'static str>,
    part_ns: Option<f64>,
}

pub(super) fn all(output: &mut dyn Write, difference: &Difference) -> io::Result<()> {
    let mut listed: Vec<_> = difference.changes.iter().collect();
    let seen = difference.seen.iter().map(|seen| Seen {
        stage: seen.measure.name(),
        before_mean_ns: seen.before,
        after_mean_ns: seen.after,
        part: seen.stage.map(|(stage, _)| stage.name()),
        part_ns: seen.stage.map(|(_, more)| more),
    });
    listed.sort_by_key(|change| !change.is_found());
    let found = difference.found();
    listed[..found.len()].copy_from_slice(&found);
    let changes = listed.into_iter().map(|change| Change {
        stage: change.measure.name(),
        quantile: change.figure(),
        before_ns: change.before,
        after_ns: change.after,
        change: change.relative(),
        interval: change.bounds(),
        beyond_chance: change.is_beyond_chance(),
        matters: change.matters,
        chance: change.chance,
        needed: Some(change.needed).filter(|needed| needed.is_finite()),
    });
    let one_sided = difference.one_sided.iter().map(|one| OneSided {
        stage: one.measure.name(),
        side: side(one),
        messages: one.messages,
        p50_ns: one.median,
    });
    let all = All {
        version: VERSION,
        before_messages: messages(&difference.before),
        after_messages: messages(&difference.after),
        seen: seen.collect(),
        changes: changes.collect(),
        one_sided: one_sided.collect(),
        held: &difference.held,
    };
    escape::json(&mut *output, &all)?;
    writeln!(output)?;
    output.flush()
}
