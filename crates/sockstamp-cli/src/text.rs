//! Tables and lines for people, and CSV.

use std::io::{self, Write};

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::{DirectionSummary, PartSummary, Summary};
use sockstamp_model::verdict::Verdict;

use crate::interfaces;

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
const DIRECTIONS: [Direction; 2] = [Direction::Tx, Direction::Rx];

/// The table of `stat`.
pub(crate) fn table(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    writeln!(output)?;
    for direction in DIRECTIONS {
        headline(output, direction, summary)?;
    }
    if summary.adopted > 0 {
        writeln!(
            output,
            " adopted: {} connections that existed before",
            summary.adopted
        )?;
    }
    writeln!(
        output,
        "\n {:<12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}",
        "stage", "count", "p50", "p90", "p99", "p99.9", "max", "share"
    )?;
    for direction in DIRECTIONS {
        let part = summary.direction(direction);
        for stage in Stage::ALL
            .into_iter()
            .filter(|stage| stage.direction() == direction)
        {
            match (&part.stages[stage], summary.absent.get(&stage)) {
                (Some(histogram), _) => {
                    row(output, stage.name(), histogram, part)?;
                    parts(output, stage, part)?;
                }
                (None, Some(reason)) => writeln!(output, " {:<12}{:>10}  {reason}", stage.name(), "-")?,
                (None, None) => {}
            }
        }
        row(output, &format!("{} total", direction.name()), &part.total, part)?;
    }
    writeln!(output)?;
    verdicts(output, summary)?;
    interfaces::summary(output, &summary.interfaces, interfaces::own_namespace())?;
    losses(output, summary)
}

fn headline(output: &mut dyn Write, direction: Direction, summary: &Summary) -> io::Result<()> {
    let part = summary.direction(direction);
    write!(
        output,
        " {}: {} messages, {} bytes in {}",
        direction.name(),
        part.messages,
        part.bytes,
        summary.duration
    )?;
    match direction {
        Direction::Tx => write!(output, ", {} retransmits", part.retransmits)?,
        Direction::Rx => write!(output, ", {} out of order", part.out_of_order)?,
    }
    if part.measured < part.messages {
        write!(output, "; {} measured", part.measured)?;
    }
    if part.pipelined > 0 {
        write!(output, "; {} pipelined", part.pipelined)?;
    }
    if part.drops > 0 {
        write!(output, ", {} dropped", part.drops)?;
    }
    writeln!(output)
}

fn row(output: &mut dyn Write, name: &str, histogram: &Histogram, part: &DirectionSummary) -> io::Result<()> {
    write!(output, " {name:<12}")?;
    cells(output, histogram)?;
    // Leave it out of the shares: its time is between messages.
    let share = if name.parse().is_ok_and(Stage::is_between_messages) {
        "-".to_owned()
    } else {
        share(histogram.sum_ns(), part.total.sum_ns())
    };
    writeln!(output, "{share:>8}")
}

/// Print the count and [`figures`].
pub(crate) fn cells(output: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    write!(output, "{:>10}", histogram.count())?;
    for value in figures(histogram) {
        match value {
            Some(value) => write!(output, "{value:>10}")?,
            None => write!(output, "{:>10}", "-")?,
        }
    }
    Ok(())
}

/// The quantiles and the largest.
pub(crate) fn figures(histogram: &Histogram) -> impl Iterator<Item = Option<Nanos>> {
    let quantiles = QUANTILES.into_iter().map(|quantile| histogram.quantile(quantile));
    quantiles.chain([histogram.max()])
}

/// Return the parts that took time, unless only the rest did. Their share is of the same whole as
/// that of their stage; between messages it is of the stage.
fn parts(output: &mut dyn Write, stage: Stage, whole: &DirectionSummary) -> io::Result<()> {
    let took_time = |sum: &PartSummary| sum.sum_ns > 0;
    if !whole
        .parts
        .of(stage)
        .any(|(part, sum)| took_time(sum) && !part.is_rest())
    {
        return Ok(());
    }
    let of = match &whole.stages[stage] {
        Some(alone) if stage.is_between_messages() => alone.sum_ns(),
        _ => whole.total.sum_ns(),
    };
    for (part, sum) in whole.parts.of(stage).filter(|(_, sum)| took_time(sum)) {
        let max = sum.max_ns.map_or_else(|| "-".to_owned(), |max| max.to_string());
        writeln!(
            output,
            "   {:<12}{:>8}{:>50}{:>8}",
            part.name(),
            sum.count,
            max,
            share(sum.sum_ns, of)
        )?;
    }
    Ok(())
}

pub(crate) fn share(part: u128, whole: u128) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    // Per mille, rounded: whole numbers print the same everywhere.
    let tenths = (part * 1000 + whole / 2) / whole;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

pub(crate) fn verdicts(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    write!(output, " verdicts: valid {}", summary.verdict(Verdict::Valid))?;
    for (verdict, count) in summary.refusals() {
        write!(output, ", {} {count}", verdict.name())?;
    }
    if summary.in_flight > 0 {
        write!(output, ", in-flight {}", summary.in_flight)?;
    }
    writeln!(output)
}

pub(crate) fn losses(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let lost = &summary.lost;
    write!(
        output,
        " lost: ring {}, evicted {}, unmatched {}, flows {}, turned-away {}, mptcp {}, host-path {}, skipped {}",
        lost.ring,
        lost.evicted,
        lost.unmatched,
        lost.flows,
        lost.turned_away,
        lost.mptcp,
        lost.host_path,
        lost.skipped
    )?;
    if summary.groups.is_some() {
        write!(output, ", groups {}", lost.groups)?;
    }
    if lost.not_adopted > 0 {
        write!(output, ", not adopted {}", lost.not_adopted)?;
    }
    writeln!(output)?;
    if let Some(stamps) = &summary.nic_stamps {
        writeln!(
            output,
            " NIC stamps: asked {}, spared {}",
            stamps.asked, stamps.spared
        )?;
    }
    writeln!(output)
}

/// The table of `stat` as comma-separated values.
pub(crate) fn csv(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    writeln!(
        output,
        "direction,stage,count,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,sum_ns"
    )?;
    for direction in DIRECTIONS {
        let part = summary.direction(direction);
        for (stage, histogram) in part.stages.present() {
            csv_row(output, direction, stage.name(), histogram)?;
        }
        csv_row(output, direction, "total", &part.total)?;
    }
    Ok(())
}

fn csv_row(
    output: &mut dyn Write,
    direction: Direction,
    name: &str,
    histogram: &Histogram,
) -> io::Result<()> {
    write!(output, "{},{name},{}", direction.name(), histogram.count())?;
    for value in figures(histogram) {
        match value {
            Some(Nanos(value)) => write!(output, ",{value}")?,
            None => write!(output, ",")?,
        }
    }
    writeln!(output, ",{}", histogram.sum_ns())
}

/// A message of `trace`, without the end of the line.
pub(crate) fn line(output: &mut dyn Write, message: &Message) -> io::Result<()> {
    let flow = &message.flow;
    write!(
        output,
        "{} {} {}/{} {} → {} {} B",
        time_of_day(message.time.as_nanos()),
        message.direction.name(),
        message.pid,
        message.comm,
        sockstamp_model::flow::canonical(flow.local),
        sockstamp_model::flow::canonical(flow.remote),
        message.bytes
    )?;
    for (stage, duration) in message.stages.present() {
        write!(output, "  {} {duration}", stage.name())?;
        causes(output, stage, message)?;
    }
    if message.verdict.is_valid() {
        write!(output, "  total {}", message.total())?;
    } else {
        write!(output, "  refused: {}", message.verdict.name())?;
    }
    if message.retransmits > 0 {
        write!(output, "  retransmits {}", message.retransmits)?;
    }
    if message.weight > 1 {
        write!(output, "  weight {}", message.weight)?;
    }
    if message.coalesced {
        write!(output, "  coalesced")?;
    }
    interfaces::way(output, message)?;
    match message.oldest_age {
        Some(age) if message.verdict.is_valid() => write!(output, "  oldest {age}"),
        _ => Ok(()),
    }
}

/// Print in parentheses the parts of the stage, without its rest.
fn causes(output: &mut dyn Write, stage: Stage, message: &Message) -> io::Result<()> {
    let mut separator = " (";
    for (part, duration) in message.parts.of(stage).filter(|(part, _)| !part.is_rest()) {
        write!(output, "{separator}{} {duration}", part.name())?;
        separator = ", ";
    }
    output.write_all(if separator == ", " { b")" } else { b"" })
}

/// Hours, minutes, seconds and microseconds of UTC: leap seconds are not in CLOCK_REALTIME.
pub(crate) fn time_of_day(nanos: u64) -> String {
    let micros = nanos / 1000;
    let seconds = micros / 1_000_000;
    format!(
        "{:02}:{:02}:{:02}.{:06}",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        micros % 1_000_000
    )
}
