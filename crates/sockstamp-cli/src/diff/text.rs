//! Changes as a table.

use std::io::{self, Write};

use sockstamp_explain::diff::{Change, OneSided};
use sockstamp_model::clock::Nanos;

use super::difference::{Difference, side};
use crate::print::paragraph::wrapped;
use crate::print::text::counted;

pub(super) fn all(output: &mut dyn Write, difference: &Difference) -> io::Result<()> {
    let changes = &difference.changes;
    writeln!(
        output,
        "\n before: {}, after: {}\n",
        counted(difference.before.messages(), "message"),
        difference.after.messages()
    )?;
    writeln!(
        output,
        "   {:<14}{:>6}{:>12}{:>12}{:>10}{:>23}",
        "stage", "", "before", "after", "change", "interval"
    )?;
    for change in changes {
        row(output, change)?;
    }
    for one in &difference.one_sided {
        one_sided(output, one)?;
    }
    writeln!(output)?;
    let sure: Vec<String> = changes
        .iter()
        .filter(|change| change.is_sure())
        .map(named)
        .collect();
    let sentence = match (changes.is_empty(), sure.is_empty()) {
        (true, _) => "there are too few messages that both sides have",
        (_, true) if changes.iter().all(|change| change.interval.is_none()) => {
            "too few flows and seconds, or too few messages, to tell a change from chance"
        }
        (_, true) => "nothing for sure",
        (_, false) => "",
    };
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let items: Vec<&str> = sure.iter().map(String::as_str).collect();
    match sure.is_empty() {
        true => writeln!(output, "{}", wrapped(" changed:", words, ""))?,
        false => writeln!(output, "{}", wrapped(" changed:", items, ","))?,
    }
    if !difference.held.is_empty() {
        writeln!(output, "{}", wrapped(" fails:", &difference.held, ","))?;
    }
    output.flush()
}

/// A star marks what changed for sure.
fn row(output: &mut dyn Write, change: &Change) -> io::Result<()> {
    let star = if change.is_sure() { "*" } else { " " };
    let interval = change.bounds().map_or_else(
        || "-".to_owned(),
        |(least, most)| format!("{} to {}", percent(least), percent(most)),
    );
    writeln!(
        output,
        " {star} {:<14}{:>6}{:>12}{:>12}{:>10}{interval:>23}",
        change.measure.name(),
        change.figure(),
        nanos(change.before),
        nanos(change.after),
        percent(change.relative()),
    )
}

/// Print the median on the side that has the stage.
fn one_sided(output: &mut dyn Write, one: &OneSided) -> io::Result<()> {
    let median = nanos(one.median).to_string();
    let [before, after] = match one.is_new {
        true => ["-", &median],
        false => [&median, "-"],
    };
    let (name, side) = (one.measure.name(), side(one));
    let messages = counted(one.messages, "message");
    writeln!(
        output,
        "   {name:<14}{:>6}{before:>12}{after:>12}  only {side}: {messages}",
        "p50"
    )
}

fn named(change: &Change) -> String {
    format!(
        "{} {} {}",
        change.measure,
        change.figure(),
        percent(change.relative())
    )
}

/// `+20 %`; from tenfold on `×10`.
fn percent(relative: f64) -> String {
    let ratio = relative + 1.0;
    match ratio >= 10.0 {
        true if ratio >= 1e5 => format!("×{ratio:.0e}"),
        true => format!("×{ratio:.0}"),
        false => format!("{:+.0} %", relative * 100.0),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates"
)]
fn nanos(time: f64) -> Nanos {
    Nanos(time.round() as u64)
}

#[cfg(test)]
mod tests {
    use sockstamp_explain::diff::Measure;
    use sockstamp_model::Stage;

    use super::*;

    #[test]
    fn the_widest_row_fits_a_terminal() {
        let change = Change {
            measure: Measure::Stage(Stage::ConnHandshake),
            quantile: 3,
            before: 123_456_789.0,
            after: 123_456_789_000.0,
            interval: Some((-13.0, 30.0)),
        };
        let mut text = Vec::new();
        row(&mut text, &change).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(
            text,
            "   conn.handshake p99.9      123 ms       123 s     ×1000        -100 % to ×1e13\n"
        );
        assert!(text.trim_end().chars().count() <= 80);
    }

    #[test]
    fn every_name_fits_its_column() {
        let stages = Stage::ALL.into_iter().map(Measure::Stage);
        for measure in stages.chain([Measure::Sent, Measure::Read, Measure::Life]) {
            assert!(measure.name().len() <= 14, "{measure}");
        }
    }

    #[test]
    fn a_stage_of_one_side_is_told_with_its_side() {
        for (is_new, messages, expected) in [
            (
                true,
                12_345,
                "   rx.hol           p50           -     1.50 ms  only after: 12345 messages\n",
            ),
            (
                false,
                1,
                "   rx.hol           p50     1.50 ms           -  only before: 1 message\n",
            ),
        ] {
            let one = OneSided {
                measure: Measure::Stage(Stage::RxHol),
                is_new,
                messages,
                median: 1_500_000.0,
            };
            let mut text = Vec::new();
            one_sided(&mut text, &one).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn changes_are_percentages_or_factors() {
        for (relative, text) in [
            (0.2, "+20 %"),
            (-0.5, "-50 %"),
            (8.99, "+899 %"),
            (9.0, "×10"),
        ] {
            assert_eq!(percent(relative), text);
        }
    }
}
