//! Changes as one JSON object, all times in nanoseconds.

use std::io::{self, Write};

use serde::Serialize;

use super::difference::Difference;
use crate::escape;

/// Raised when a key changes its meaning or is removed.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct All<'a> {
    version: u32,
    before_messages: u64,
    after_messages: u64,
    changes: Vec<Change>,
    held: &'a [String],
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
    let all = All {
        version: VERSION,
        before_messages: difference.before.messages(),
        after_messages: difference.after.messages(),
        changes: changes.collect(),
        held: &difference.held,
    };
    escape::json(&mut *output, &all)?;
    writeln!(output)?;
    output.flush()
}
