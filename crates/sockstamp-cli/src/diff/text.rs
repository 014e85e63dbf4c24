//! Changes as a table.

use std::io::{self, Write};

use sockstamp_explain::diff::{Change, OneSided, Seen};
use sockstamp_model::clock::Nanos;
use sockstamp_print::colour::Brush;
use sockstamp_print::numbers::counted;
use sockstamp_print::paragraph::wrapped;

use super::difference::{Difference, messages, side};

/// Whole times whose means are told.
const SEEN: usize = 3;
/// Nobody measures so many times as long.
const MOST_NEEDED: f64 = 100.0;

pub(super) fn all(output: &mut dyn Write, difference: &Difference, brush: Brush) -> io::Result<()> {
    let changes = &difference.changes;
    writeln!(
        output,
        "\n before: {}, after: {}\n",
        counted(messages(&difference.before), "message"),
        messages(&difference.after)
    )?;
    writeln!(
        output,
        "   {:<14}{:>6}{:>12}{:>12}{:>10}{:>23}",
        "stage", "", "before", "after", "change", "interval"
    )?;
    for change in changes {
        row(output, change, brush)?;
    }
    for one in &difference.one_sided {
        one_sided(output, one)?;
    }
    writeln!(output)?;
    for seen in difference.seen.iter().take(SEEN) {
        let words = what_is_seen(seen);
        writeln!(output, "{}", wrapped(" seen:", words.split(' '), ""))?;
    }
    let found: Vec<String> = difference.found().into_iter().map(named).collect();
    match found.is_empty() {
        true => {
            let words = match difference.suspect() {
                Some(suspect) => maybe(suspect),
                None => too_little(changes),
            };
            writeln!(output, "{}", wrapped(" changed:", words.split(' '), ""))?;
        }
        false => writeln!(output, "{}", wrapped(" changed:", &found, ","))?,
    }
    if !difference.held.is_empty() {
        let line = wrapped(" fails:", &difference.held, ",");
        writeln!(output, "{}", brush.alarm(&line))?;
    }
    output.flush()
}

/// Say by how much a mean differs, and which stage carries that.
fn what_is_seen(seen: &Seen) -> String {
    let [before, after] = [seen.before, seen.after].map(nanos);
    let more = seen.after - seen.before;
    let less = if more < 0.0 { "less" } else { "more" };
    let mut words = format!(
        "{} takes {} {less} on average ({before}, then {after})",
        seen.measure,
        nanos(more.abs()),
    );
    if let Some((stage, part)) = seen.stage.filter(|_| more.abs() >= 0.5) {
        let share = part / more * 100.0;
        words += &format!("; {stage} is {share:.0} % of that");
    }
    words
}

/// An interval that has twice the time, or half of it, can hide a change.
const WIDE: f64 = std::f64::consts::LN_2;

/// Tell that nothing which matters is seen, and whether such a change may be there all the same.
fn too_little(changes: &[Change]) -> String {
    let is_wide = |change: &&Change| {
        let reaches = |(least, most): (f64, f64)| least.abs().max(most.abs()) >= WIDE;
        change.interval.is_none_or(reaches)
    };
    let seen = "by too little to matter (--least-time, --least-share)";
    match changes.iter().filter(is_wide).count() {
        0 => seen.to_owned(),
        wide => format!(
            "{seen} in these recordings; others may differ: in {wide} of {} the interval has \
             twice or half the time, or is not known",
            counted(changes.len() as u64, "row")
        ),
    }
}

/// Name what comes nearest to a change that chance does not make.
fn maybe(suspect: &Change) -> String {
    let named = named(suspect);
    let odds = match suspect.chance {
        chance if chance > 0.5 => "no more than by chance".to_owned(),
        chance => format!(
            "the odds against chance are {:.0} to 1",
            (1.0 - chance) / chance
        ),
    };
    let needed = match suspect.needed {
        needed if needed <= MOST_NEEDED => format!(
            "about {:.0} times as much would tell: longer, or several recordings a side",
            needed.ceil().max(2.0)
        ),
        _ => "more measuring is unlikely to tell".to_owned(),
    };
    format!("maybe {named}: {odds}; {needed}")
}

/// An interval from a hundredth of the time to a hundred times as much tells nothing.
const KNOWN: f64 = 0.99;

/// A star marks what is found.
fn row(output: &mut dyn Write, change: &Change, brush: Brush) -> io::Result<()> {
    let star = if change.is_found() { "*" } else { " " };
    let interval = match change.bounds() {
        Some((least, most)) if least > -KNOWN || most < KNOWN / (1.0 - KNOWN) => {
            format!("{} to {}", percent(least), percent(most))
        }
        _ => "not known".to_owned(),
    };
    let line = format!(
        " {star} {:<14}{:>6}{:>12}{:>12}{:>10}{interval:>23}",
        change.measure.name(),
        change.figure(),
        nanos(change.before),
        nanos(change.after),
        percent(change.relative()),
    );
    match change.is_found() {
        true => writeln!(output, "{}", brush.bold(&line)),
        false => writeln!(output, "{line}"),
    }
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
        _ if (relative * 100.0).round() == 0.0 => "0 %".to_owned(),
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
            interval: Some((-4.0, 30.0)),
            chance: 1.0,
            needed: f64::INFINITY,
            matters: true,
        };
        let mut text = Vec::new();
        row(&mut text, &change, Brush::default()).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(
            text,
            "   conn.handshake p99.9      123 ms       123 s     ×1000         -98 % to ×1e13\n"
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
            (-0.001, "0 %"),
        ] {
            assert_eq!(percent(relative), text);
        }
    }

    #[test]
    fn an_interval_that_has_everything_is_not_known() {
        let told = |interval, after: f64| {
            let change = Change {
                measure: Measure::Sent,
                quantile: 0,
                before: 1_000.0,
                after,
                interval,
                chance: 1.0,
                needed: 2.0,
                matters: false,
            };
            let mut text = Vec::new();
            row(&mut text, &change, Brush::default()).unwrap();
            let text = String::from_utf8(text).unwrap();
            (text, too_little(&[change]))
        };
        let (row, closing) = told(Some((-10.4, 10.4)), 1_000.0);
        assert!(row.ends_with(" 0 %              not known\n"), "{row}");
        assert!(
            closing.contains("others may differ: in 1 of 1 row "),
            "{closing}"
        );
        let (row, closing) = told(Some((-0.05, 0.05)), 1_000.0);
        assert!(row.ends_with(" -5 % to +5 %\n"), "{row}");
        assert!(
            closing.ends_with("(--least-time, --least-share)"),
            "{closing}"
        );
        assert!(told(None, 1_000.0).0.ends_with(" not known\n"));
    }
}
