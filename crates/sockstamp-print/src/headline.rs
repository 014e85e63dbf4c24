//! The amount that a direction carried, and of it what was sent again.

use std::io::{self, Write};

use sockstamp_model::percent::share;
use sockstamp_model::stage::Direction;
use sockstamp_model::summary::{DirectionSummary, Resent, Summary};

use crate::counters::why;
use crate::directions::are_lives;
use crate::numbers::{counted, estimated};
use crate::paragraph::wrapped;

pub(super) fn headline(
    output: &mut dyn Write,
    direction: Direction,
    summary: &Summary,
) -> io::Result<()> {
    let part = summary.direction(direction);
    let name = match direction {
        Direction::Tx if are_lives(summary) => "lives",
        direction => direction.name(),
    };
    let (messages, bytes) = match part.estimate {
        Some(errors) => (
            estimated(part.messages, errors.messages_error, "message"),
            estimated(part.bytes, errors.bytes_error, "byte"),
        ),
        None => (
            counted(part.messages, "message"),
            counted(part.bytes, "byte"),
        ),
    };
    let mut figures = vec![
        messages,
        format!("{bytes} in {}", summary.duration),
        match direction {
            Direction::Tx => retransmits(part),
            Direction::Rx => format!("{} out of order", part.out_of_order),
        },
    ];
    if let Some(resent) = &part.resent {
        figures.extend(reasons(resent));
    }
    if part.measured < part.messages {
        figures.push(format!("{} measured", part.measured));
    }
    let unpaired = part
        .unpaired
        .iter()
        .map(|(reason, count)| (count, reason.name()));
    for (count, what) in unpaired.filter(|(count, _)| *count > 0) {
        figures.push(format!("{count} {what}"));
    }
    if part.drops > 0 {
        let why = why(&part.drop_reasons, "");
        figures.push(format!("{} dropped{why}", part.drops));
    }
    writeln!(output, "{}", wrapped(&format!(" {name}:"), figures, ","))
}

/// Return the segments sent again, and of how many where that is known. Segments without data, such
/// as SYNs, are not among those.
fn retransmits(part: &DirectionSummary) -> String {
    let again = part.retransmits;
    match part.segments {
        Some(all) if all >= again && all > 0 => {
            let share = share(again.into(), all.into());
            format!(
                "retransmits {again} of {} ({share})",
                counted(all, "segment")
            )
        }
        _ => format!("{again} retransmits"),
    }
}

/// Return why segments were sent again, beyond what acknowledgements of others told.
fn reasons(resent: &Resent) -> impl Iterator<Item = String> {
    let of = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let Resent {
        syns,
        probes,
        window,
        fast: _,
        timeouts,
        needless,
    } = *resent;
    [
        of(syns, if syns == 1 { "SYN" } else { "SYNs" }),
        of(probes, if probes == 1 { "probe" } else { "probes" }),
        of(window, "to a closed window"),
        of(timeouts, "after timeouts"),
        of(needless, "needless"),
    ]
    .into_iter()
    .flatten()
}
