//! Tables and lines for people, and CSV.

use std::io::{self, Write};

use sockstamp_host::places::Places;
use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::part::{Part, PartSummary};
use sockstamp_model::percent::share;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::{
    Connections, DirectionSummary, Lost, NicReads, NicStamps, Resent, Summary,
};
use sockstamp_model::verdict::Verdict;

use crate::print::colour::Brush;
use crate::print::findings::Shown;
use crate::print::paragraph::wrapped;
use crate::print::{coalescing, interfaces, listeners};

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Columns of a stage's name and count.
const NAME_AND_COUNT: usize = 21;
const DIRECTIONS: [Direction; 2] = [Direction::Tx, Direction::Rx];

/// The table of `stat`.
pub(crate) fn table(
    output: &mut dyn Write,
    summary: &Summary,
    findings: &Shown<'_>,
    places: &Places,
    brush: Brush,
) -> io::Result<()> {
    writeln!(output)?;
    for direction in directions(summary) {
        headline(output, direction, summary)?;
    }
    if summary.adopted > 0 {
        writeln!(
            output,
            " adopted: {} that existed before",
            counted(summary.adopted, "connection")
        )?;
    }
    windows(output, summary)?;
    cost(output, summary)?;
    if has_times(summary) {
        all_stages(output, summary, brush)?;
    }
    writeln!(output)?;
    connections(output, &summary.connections)?;
    verdicts(output, summary, brush)?;
    listeners::lines(output, &summary.listeners, places.home, &places.names)?;
    interfaces::summary(output, &summary.interfaces, places.home, &places.names)?;
    losses(output, summary, brush)?;
    coalescing::lines(output, &summary.coalescing, places.home, &places.names)?;
    findings.print(output, brush)?;
    writeln!(output)
}

/// Print which counts are estimates.
fn windows(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let Some(windows) = &summary.windows else {
        return Ok(());
    };
    let late = match windows.late {
        0 => String::new(),
        late => format!(", {late} of them late"),
    };
    let failed = match windows.failed {
        0 => String::new(),
        failed => format!(", {failed} more left out"),
    };
    let items = [
        format!("measured in {} windows{late}{failed}", windows.count),
        format!("1/{} of the time at the end", windows.one_of),
        "counts of stages are sums of weights".to_owned(),
    ];
    writeln!(output, "{}", wrapped(" windows:", items, ";"))
}

/// Print the cost of the measurement, and how it is limited.
fn cost(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let Some(cost) = &summary.cost else {
        return Ok(());
    };
    let percent = |millionths: u32| format!("{:.2} %", f64::from(millionths) / 1e4);
    let total = percent(cost.programs.saturating_add(cost.process));
    let mut items = vec![format!("{total} of a core")];
    if let (true, Some(cap)) = (cost.lowered, cost.rate_cap) {
        items.push(format!(
            "lowered to {cap} messages per second, flow and direction"
        ));
    }
    if cost.over > 0 {
        items.push(format!(
            "above --max-cost in {} of {} looks",
            cost.over, cost.looks
        ));
    }
    writeln!(output, "{}", wrapped(" cost:", items, ";"))
}

/// Return true if any row of stages would have a figure.
fn has_times(summary: &Summary) -> bool {
    let any = |direction| {
        let part = summary.direction(direction);
        let mut stages = part.stages.present();
        part.messages > 0 || stages.any(|(_, histogram)| histogram.count() > 0)
    };
    DIRECTIONS.into_iter().any(any)
}

fn all_stages(output: &mut dyn Write, summary: &Summary, brush: Brush) -> io::Result<()> {
    let heads = format!(
        " {:<12}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}",
        "stage", "count", "p50", "p90", "p99", "p99.9", "max", "share"
    );
    writeln!(output, "\n{}", brush.bold(&heads))?;
    for direction in directions(summary) {
        stages(output, direction, summary, brush)?;
    }
    Ok(())
}

/// Return true if the messages sent are whole lives, with the stages of both hosts.
fn are_lives(summary: &Summary) -> bool {
    summary.tx.stages[Stage::NetForward].is_some()
}

/// The directions that are printed: recordings of whole lives have nothing received.
fn directions(summary: &Summary) -> impl Iterator<Item = Direction> {
    let is_told = |direction: &Direction| match direction {
        Direction::Tx => true,
        Direction::Rx => !are_lives(summary) || summary.rx.messages > 0,
    };
    DIRECTIONS.into_iter().filter(is_told)
}

/// Return true if there is nothing to print.
pub(crate) fn is_empty(summary: &Summary) -> bool {
    let quiet = |direction: &DirectionSummary| {
        (
            direction.messages,
            direction.retransmits,
            direction.out_of_order,
            direction.drops,
        ) == (0, 0, 0, 0)
    };
    quiet(&summary.tx)
        && quiet(&summary.rx)
        && summary.lost == Lost::default()
        && summary.connections == Connections::default()
        && summary
            .listeners
            .iter()
            .all(|listener| listener.dropped == 0)
        && summary.refusals().count() == 0
}

/// Programs that talk by these seem to be silent.
pub(crate) const OTHER_TRAFFIC: &str =
    "not measured: SCTP, SMC, vsock and Unix sockets; QUIC as datagrams alone";

/// The table without messages.
pub(crate) fn nothing(output: &mut dyn Write, summary: &Summary, why: &str) -> io::Result<()> {
    let words = format!("{}: {why}", summary.duration);
    writeln!(
        output,
        "{}",
        wrapped(" no messages in", words.split(' '), "")
    )
}

/// The stages of a direction: those that are a share of its time, their sum, and what comes after
/// a message and between messages.
fn stages(
    output: &mut dyn Write,
    direction: Direction,
    summary: &Summary,
    brush: Brush,
) -> io::Result<()> {
    let part = summary.direction(direction);
    let all = Stage::ALL
        .into_iter()
        .filter(|stage| stage.direction() == direction);
    let (mut shared, others): (Vec<_>, Vec<_>) = all.partition(|stage| stage.has_share());
    if direction == Direction::Tx && are_lives(summary) {
        shared = Stage::WAY.into();
    }
    for stage in shared {
        stage_rows(output, direction, stage, summary, brush)?;
    }
    let name = match direction {
        Direction::Tx if are_lives(summary) => "life",
        Direction::Tx => "tx sent",
        Direction::Rx => "rx total",
    };
    let time = part.time(direction);
    row(
        output,
        name,
        time,
        &format!("{:>8}", share(time.sum_ns(), time.sum_ns())),
    )?;
    for stage in others {
        stage_rows(output, direction, stage, summary, brush)?;
    }
    Ok(())
}

/// Print a stage of messages of a direction, and its parts.
fn stage_rows(
    output: &mut dyn Write,
    direction: Direction,
    stage: Stage,
    summary: &Summary,
    brush: Brush,
) -> io::Result<()> {
    let part = summary.direction(direction);
    match (&part.stages[stage], summary.absent.get(&stage)) {
        (Some(histogram), _) if stage.is_of_connection() && histogram.count() == 0 => Ok(()),
        (Some(histogram), _) => {
            let share = match stage {
                Stage::TxNetwork | Stage::NetBack => format!("{:>8}", "after"),
                stage if stage.is_between_messages() => format!("{:>8}", "-"),
                _ => {
                    let whole = part.time(direction).sum_ns();
                    share_and_bar(histogram.sum_ns(), whole, "", brush)
                }
            };
            row(output, stage.name(), histogram, &share)?;
            parts(output, stage, part, brush)
        }
        (None, Some(reason)) => writeln!(
            output,
            " {}{:>2$}  {reason}",
            stage.name(),
            "-",
            NAME_AND_COUNT - stage.name().len()
        ),
        (None, None) => Ok(()),
    }
}

fn headline(output: &mut dyn Write, direction: Direction, summary: &Summary) -> io::Result<()> {
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
    for (count, what) in unpaired.chain([(part.drops, "dropped")]) {
        if count > 0 {
            figures.push(format!("{count} {what}"));
        }
    }
    writeln!(output, "{}", wrapped(&format!(" {name}:"), figures, ","))
}

/// Return a number with its noun.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Return an estimate with its noun and, in percent, half of the interval around it.
fn estimated(count: u64, error: Option<u64>, noun: &str) -> String {
    let Some(error) = error else {
        return format!(
            "~ {} {noun}s, by too few windows to tell the error",
            scaled(count)
        );
    };
    if error == 0 {
        return counted(count, noun);
    }
    let percent = 100.0 * error as f64 / count.max(1) as f64;
    let digits = usize::from(percent < 1.0);
    format!("~ {} {noun}s ± {percent:.digits$} %", scaled(count))
}

/// Return a number by its first digits.
fn scaled(count: u64) -> String {
    let number = count as f64;
    let units = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")];
    match units.into_iter().find(|&(least, _)| number >= least) {
        Some((_, " k")) => format!("{:.1} k", number / 1e3),
        Some((unit, name)) => format!("{:.2}{name}", number / unit),
        None => count.to_string(),
    }
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

pub(crate) fn row(
    output: &mut dyn Write,
    name: &str,
    histogram: &Histogram,
    share: &str,
) -> io::Result<()> {
    let count = histogram.count().to_string();
    let width = (NAME_AND_COUNT - name.len()).max(count.len() + 1);
    write!(output, " {name}{count:>width$}")?;
    times(output, histogram, 9, name.len() + width - NAME_AND_COUNT)?;
    writeln!(output, "{share}")
}

/// Columns of a bar of the whole.
const BAR: usize = 4;

/// Return a share of the time as a number, after a sign, and as a bar.
fn share_and_bar(part: u128, whole: u128, sign: &str, brush: Brush) -> String {
    let number = format!("{:>8}", format!("{sign}{}", share(part, whole)));
    let bar = bar(part, whole);
    match bar.is_empty() {
        true => brush.share(part, whole, &number),
        false => brush.share(part, whole, &format!("{number} {bar}")),
    }
}

/// Return a bar in eighths of a column; the smallest share that shows has one.
fn bar(part: u128, whole: u128) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let most = (BAR * 8) as u128;
    let eighths = (part.min(whole) * most + whole / 2).checked_div(whole);
    let eighths = usize::try_from(eighths.unwrap_or(0)).unwrap_or(0);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Return a bar that shows the place of a time in a whole, with a mark at the end of the whole.
pub(crate) fn bar_between(begin: Nanos, duration: Nanos, whole: Nanos) -> String {
    const COLUMNS: usize = 40;
    let column = |time: Nanos| {
        let column = u128::from(time.0) * COLUMNS as u128 / u128::from(whole.0.max(1));
        usize::try_from(column).unwrap_or(usize::MAX).min(COLUMNS)
    };
    // The shortest is still seen.
    let first = column(begin).min(COLUMNS - 1);
    let last = column(begin + duration).max(first + 1);
    let bar = format!("{}{}", " ".repeat(first), "█".repeat(last - first));
    format!("{bar:<COLUMNS$}▏")
}

/// Print the count and [`figures`].
pub(crate) fn cells(output: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    write!(output, "{:>9}", histogram.count())?;
    times(output, histogram, 9, 0)
}

/// The first column is narrower by those that a long name and count have taken of it.
fn times(
    output: &mut dyn Write,
    histogram: &Histogram,
    columns: usize,
    taken: usize,
) -> io::Result<()> {
    let mut width = columns.saturating_sub(taken);
    for value in figures(histogram) {
        match value {
            Some(value) => write!(output, "{value:>width$}")?,
            None => write!(output, "{:>width$}", "-")?,
        }
        width = columns;
    }
    Ok(())
}

/// The quantiles and the largest.
pub(crate) fn figures(histogram: &Histogram) -> impl Iterator<Item = Option<Nanos>> {
    let quantiles = QUANTILES
        .into_iter()
        .map(|quantile| histogram.quantile(quantile));
    quantiles.chain([histogram.max()])
}

/// Print the parts that took time, unless only the rest did. Their share is of the same whole as
/// that of their stage; between messages it is of the stage.
fn parts(
    output: &mut dyn Write,
    stage: Stage,
    whole: &DirectionSummary,
    brush: Brush,
) -> io::Result<()> {
    let took_time = |sum: &PartSummary| sum.sum_ns > 0;
    if !whole
        .parts
        .of(stage)
        .any(|(part, sum)| took_time(sum) && !part.is_rest())
    {
        return Ok(());
    }
    let of = match &whole.stages[stage] {
        Some(alone) if !stage.has_share() => alone.sum_ns(),
        _ => whole.time(stage.direction()).sum_ns(),
    };
    for (part, sum) in whole.parts.of(stage).filter(|(_, sum)| took_time(sum)) {
        let max = sum
            .max_ns
            .map_or_else(|| "-".to_owned(), |max| max.to_string());
        // An upper bound.
        let sign = if part == Part::DelayedAck { "≤" } else { "" };
        // These stages lie outside the messages' time: large ones make nothing slow.
        let share = match stage.has_share() {
            true => share_and_bar(sum.sum_ns, of, sign, brush),
            false => format!("{:>8}", format!("{sign}{}", share(sum.sum_ns, of))),
        };
        writeln!(
            output,
            "   {:<12}{:>7}{max:>45}{share}",
            part.name(),
            sum.count
        )?;
    }
    Ok(())
}

pub(crate) fn verdicts(output: &mut dyn Write, summary: &Summary, brush: Brush) -> io::Result<()> {
    let valid = format!("valid {}", summary.verdict(Verdict::Valid));
    let refused = summary
        .refusals()
        .map(|(verdict, count)| format!("{} {count}", verdict.name()));
    let in_flight = (summary.in_flight > 0).then(|| format!("in-flight {}", summary.in_flight));
    let all: Vec<_> = [valid]
        .into_iter()
        .chain(refused)
        .chain(in_flight)
        .collect();
    let line = wrapped(" verdicts:", all, ",");
    match summary.refusals().count() {
        0 => writeln!(output, "{line}"),
        _ => writeln!(output, "{}", brush.alarm(&line)),
    }
}

fn connections(output: &mut dyn Write, connections: &Connections) -> io::Result<()> {
    if *connections == Connections::default() {
        return Ok(());
    }
    let fixed = [
        ("opened", connections.opened),
        ("accepted", connections.accepted),
        ("SYNs sent again", connections.syns_again),
    ];
    let failed = connections
        .failed
        .iter()
        .map(|(verdict, count)| (verdict.name(), *count));
    let told: Vec<_> = fixed
        .into_iter()
        .chain(failed)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    writeln!(output, "{}", wrapped(" connections:", told, ","))
}

pub(crate) fn losses(output: &mut dyn Write, summary: &Summary, brush: Brush) -> io::Result<()> {
    let lost = &summary.lost;
    let counters = [
        ("ring", lost.ring),
        ("evicted", lost.evicted),
        ("unmatched", lost.unmatched),
        ("flows", lost.flows),
        ("turned-away", lost.turned_away),
        ("mptcp", lost.mptcp),
        ("host-path", lost.host_path),
        ("skipped", lost.skipped),
        ("groups", lost.groups),
        ("datagrams", lost.datagrams),
        ("not adopted", lost.not_adopted),
    ];
    let told: Vec<_> = counters
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if told.is_empty() {
        writeln!(output, " lost: nothing")?;
    } else {
        writeln!(output, "{}", brush.alarm(&wrapped(" lost:", told, ",")))?;
    }
    if let Some(stamps) = &summary.nic_stamps {
        writeln!(output, "{}", nic_stamps(stamps))?;
    }
    if let Some(reads) = &summary.nic_reads {
        writeln!(output, "{}", nic_reads(reads))?;
    }
    Ok(())
}

/// Tell what became of reads that a NIC may have stamped, and how well `rx.nic` is known.
fn nic_reads(reads: &NicReads) -> String {
    let mut told = vec![
        format!("stamped {}", reads.stamped),
        format!("spared {}", reads.spared),
    ];
    let failed = [
        ("unstamped", reads.unstamped),
        ("nic-clock", reads.nic_clock),
    ];
    let failed = failed.into_iter().filter(|(_, count)| *count > 0);
    told.extend(failed.map(|(name, count)| format!("{name} {count}")));
    if let Some(bounds) = reads.bounds {
        told.push(format!("rx.nic ± {} to {}", bounds.min, bounds.max));
    }
    wrapped(" NIC stamps of reads:", told, ",")
}

/// Tell what became of requests for stamps of NICs, and how well `tx.nic` is known.
fn nic_stamps(stamps: &NicStamps) -> String {
    let mut told = vec![
        format!("asked {}", stamps.asked),
        format!("spared {}", stamps.spared),
        format!("stamped {}", stamps.stamped),
    ];
    let failed = [
        ("unstamped", stamps.unstamped),
        ("nic-clock", stamps.nic_clock),
    ];
    let failed = failed.into_iter().filter(|(_, count)| *count > 0);
    told.extend(failed.map(|(name, count)| format!("{name} {count}")));
    if let Some(bounds) = stamps.bounds {
        told.push(format!("tx.nic ± {} to {}", bounds.min, bounds.max));
    }
    wrapped(" NIC stamps:", told, ",")
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
        if direction == Direction::Tx {
            csv_row(output, direction, "sent", &part.sent)?;
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

#[cfg(test)]
mod tests {
    use sockstamp_explain::diagnosis::{Case, Scope};
    use sockstamp_model::interface::{Interface, InterfaceSummary, Medium};
    use sockstamp_model::unpaired::Unpaired;

    use super::*;
    use crate::print::paragraph::WIDTH;

    /// Every counter at its widest, and every refusal.
    fn crowded() -> Summary {
        let mut summary = Summary {
            duration: Nanos(3_600_000_000_000),
            in_flight: 999_999,
            ..Summary::default()
        };
        let mut histogram = Histogram::new();
        histogram.record(Nanos(123_456_789), 99_999_999);
        for direction in DIRECTIONS {
            let part = summary.direction_mut(direction);
            part.messages = u64::from(u32::MAX);
            part.measured = 1_234_567;
            part.bytes = u64::from(u32::MAX) * 1_000;
            part.retransmits = 1_234_567;
            part.resent = Some(Resent {
                syns: 1_234_567,
                probes: 1_234_567,
                window: 1_234_567,
                fast: 1_234_567,
                timeouts: 1_234_567,
                needless: 1_234_567,
            });
            part.segments = Some(u64::from(u32::MAX));
            part.out_of_order = 1_234_567;
            part.unpaired.add(Unpaired::Pipelined, 1_234_567);
            part.drops = 1_234_567;
            part.sent = histogram.clone();
            part.total = histogram.clone();
            for stage in Stage::ALL
                .into_iter()
                .filter(|stage| stage.direction() == direction)
            {
                part.stages[stage] = Some(histogram.clone());
                for of in Part::of(stage) {
                    part.parts[of] = Some(PartSummary {
                        count: 9_999_999,
                        sum_ns: histogram.sum_ns() / 7,
                        max_ns: Some(Nanos(123_456_789)),
                    });
                }
            }
        }
        summary.verdicts = Verdict::ALL.map(|verdict| (verdict, 1_234_567)).into();
        summary.lost.evicted = 123_456_789;
        summary.lost.unmatched = 123_456_789;
        summary.lost.turned_away = 123_456_789;
        summary.lost.skipped = 123_456_789;
        summary.lost.groups = 123_456_789;
        summary.interfaces = vec![InterfaceSummary {
            interface: Some(Interface {
                name: "veth0123456789a".into(),
                index: 2,
                netns: sockstamp_model::NetnsInode(4_026_531_840),
            }),
            medium: Some(Medium::Virtual("veth".to_owned())),
            leads_on: true,
            messages: u64::MAX,
        }];
        summary
    }

    fn printed(summary: &Summary) -> String {
        printed_with(summary, false)
    }

    fn printed_with(summary: &Summary, why: bool) -> String {
        let mut text = Vec::new();
        table(
            &mut text,
            summary,
            &Shown {
                diagnosis: &Case::new(Scope::default()).diagnose(summary),
                why,
            },
            &Places::default(),
            Brush::default(),
        )
        .unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn no_line_of_the_table_is_wider_than_a_terminal() {
        let text = printed_with(&crowded(), true);
        assert!(text.contains("\n   check: "), "{text}");
        for line in text.lines() {
            assert!(
                line.chars().count() <= WIDTH,
                "{}: {line}",
                line.chars().count()
            );
        }
    }

    #[test]
    fn the_share_of_a_stage_is_of_the_time_until_messages_left() {
        let mut summary = Summary::default();
        for (stage, nanos) in [(Stage::TxQdisc, 3_000), (Stage::TxNetwork, 90_000)] {
            summary.tx.stages[stage]
                .get_or_insert_default()
                .record(Nanos(nanos), 1);
        }
        summary.tx.sent.record(Nanos(4_000), 1);
        summary.tx.total.record(Nanos(94_000), 1);
        let text = printed(&summary);
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line(" tx.qdisc ").ends_with(" 75.0 % ███"), "{text}");
        assert!(line(" tx sent ").ends_with(" 100.0 %"), "{text}");
        assert!(line(" tx.network ").ends_with(" after"), "{text}");
        assert!(!text.contains("tx total"), "{text}");
    }

    #[test]
    fn retransmits_are_of_the_segments_sent() {
        let mut summary = Summary::default();
        summary.tx.retransmits = 25;
        assert!(printed(&summary).contains(" 25 retransmits\n"));
        summary.tx.segments = Some(1800);
        let text = printed(&summary);
        assert!(
            text.contains(" retransmits 25 of 1800 segments (1.4 %)\n"),
            "{text}"
        );
        summary.tx.resent = Some(Resent {
            syns: 1,
            probes: 4,
            fast: 20,
            needless: 3,
            ..Resent::default()
        });
        let text = printed(&summary);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(
            words
                .join(" ")
                .contains("segments (1.4 %), 1 SYN, 4 probes, 3 needless"),
            "{text}"
        );
        summary.tx.resent = None;
        // SYNs alone.
        summary.tx.segments = Some(3);
        assert!(printed(&summary).contains(" 25 retransmits\n"));
    }

    #[test]
    fn a_bar_has_the_length_of_the_share() {
        assert_eq!(bar(1, 1), "████");
        assert_eq!(bar(1, 2), "██");
        assert_eq!(bar(1, 32), "▏");
        assert_eq!(bar(1, 100), "");
        assert_eq!(bar(0, 0), "");
        // More than the whole: of a rest that is rounded.
        assert_eq!(bar(3, 2), "████");
    }

    #[test]
    fn only_counters_that_counted_are_printed() {
        let mut summary = Summary::default();
        assert!(printed(&summary).contains("\n lost: nothing\n"));
        summary.lost.evicted = 2;
        summary.lost.not_adopted = 1;
        assert!(printed(&summary).contains("\n lost: evicted 2, not adopted 1\n"));
    }

    #[test]
    fn the_diagnosis_is_the_last_line() {
        let mut summary = Summary::default();
        assert!(!printed(&summary).contains("diagnosis"));
        summary.rx.drops = 100;
        let text = printed(&summary);
        let begin = text.rfind("\n diagnosis: ").unwrap();
        let words = text[begin..]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            words.starts_with("diagnosis: 100 of 100 datagrams were dropped at their socket")
                && words.ends_with("→ stat --by comm,port"),
            "{text}"
        );
    }
}
