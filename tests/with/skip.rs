//! Tests that cannot run here.

use std::io::{self, Write};

/// Print why a test, or a part of it, cannot run here. Not by `eprintln!`, which the test harness
/// captures.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIP {test}: {reason}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}
