//! Count the instructions per message, and compare them with the kept counts.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};

/// The kernel and its compiler, which instructions follow from.
pub(crate) const MADE_OF: &str =
    r"sed -E 's/^Linux version ([^ ]+) \([^)]*\) \((.*), GNU ld.*/# Linux \1, \2/' /proc/version";

/// Percentage of the kept count from which on a count fails.
const LIMIT: u64 = 103;
/// The same for idle rows, where only timers fire: intervals of waking are random.
const LIMIT_IDLE: u64 = 200;

/// Counts by the name of the row; `None` if the kernel lacks the feature.
pub(crate) type Counts = BTreeMap<String, Option<u64>>;

/// Lines `NAME INSTRUCTIONS …`; INSTRUCTIONS is `lacking` where there is none.
pub(crate) fn parse(output: &str) -> Result<Counts> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let count = words.next()?;
        Some((name, count.parse().ok()))
    };
    let lines = output.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| row(line).with_context(|| format!("cannot parse the line {line}")))
        .collect()
}

/// The kernel, its compiler and that of the programs: what counts follow from, in comments.
pub(crate) fn made_of(output: &str) -> String {
    let lines = output.lines().filter_map(|line| line.strip_prefix("# "));
    lines.collect::<Vec<_>>().join(", ")
}

fn limit(row: &str) -> u64 {
    match row.starts_with("idle.") {
        true => LIMIT_IDLE,
        false => LIMIT,
    }
}

/// Return regressions: more instructions, or missing rows.
pub(crate) fn worse(kept: &Counts, found: &Counts) -> String {
    let mut text = String::new();
    for (name, kept) in kept {
        let Some(kept) = kept else { continue };
        match found.get(name).copied().flatten() {
            None => {
                let _ = writeln!(
                    text,
                    "{name}: {kept} instructions are kept, and none were counted"
                );
            }
            Some(found) if found * 100 > kept * limit(name) => {
                let above = limit(name) - 100;
                let _ = writeln!(
                    text,
                    "{name}: {found} instructions, more than {above} % above {kept}"
                );
            }
            Some(_) => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_three_percent_is_worse_and_less_is_not() {
        let kept = parse("# a comment\na 1000 0.0\nb 1000 1.0\nc lacking\n").unwrap();
        let found = |text: &str| worse(&kept, &parse(text).unwrap());
        assert_eq!(found("a 1030 0\nb 900 1\nc 7 7\n"), "");
        assert_eq!(
            found("a 1031 0\nb lacking\n"),
            "a: 1031 instructions, more than 3 % above 1000\nb: 1000 instructions are kept, and none were counted\n"
        );
    }

    #[test]
    fn idle_rows_may_differ_by_their_random_wakings() {
        let kept = parse("idle.stat 1000 1.0\n").unwrap();
        let found = |text: &str| worse(&kept, &parse(text).unwrap());
        assert_eq!(found("idle.stat 2000 1.0\n"), "");
        assert_eq!(
            found("idle.stat 2001 1.0\n"),
            "idle.stat: 2001 instructions, more than 100 % above 1000\n"
        );
    }
}
