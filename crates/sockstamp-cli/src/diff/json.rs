//! Changes as one JSON object, all times in nanoseconds.

use std::io::{self, Write};

use serde::Serialize;
use sockstamp_run::escape;

use super::difference::{Difference, side};

/// Raised when a key changes its meaning or is removed.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct All<'a> {
    version: u32,
    before_messages: u64,
    after_messages: u64,
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
    sure: bool,
}

pub(super) fn all(output: &mut dyn Write, difference: &Difference) -> io::Result<()> {
    let changes = difference.changes.iter().map(|change| Change {
        stage: change.measure.name(),
        quantile: change.figure(),
        before_ns: change.before,
        after_ns: change.after,
        change: change.relative(),
        interval: change.bounds(),
        sure: change.is_sure(),
    });
    let one_sided = difference.one_sided.iter().map(|one| OneSided {
        stage: one.measure.name(),
        side: side(one),
        messages: one.messages,
        p50_ns: one.median,
    });
    let all = All {
        version: VERSION,
        before_messages: difference.before.messages(),
        after_messages: difference.after.messages(),
        changes: changes.collect(),
        one_sided: one_sided.collect(),
        held: &difference.held,
    };
    escape::json(&mut *output, &all)?;
    writeln!(output)?;
    output.flush()
}
