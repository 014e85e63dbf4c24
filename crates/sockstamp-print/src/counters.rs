//! Counters of messages, connections and requests for stamps, and of losses.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use sockstamp_model::summary::{Connections, Lost, NicReads, NicStamps, Summary};
use sockstamp_model::verdict::Verdict;

use crate::colour::Brush;
use crate::numbers::counted;
use crate::paragraph::wrapped;

/// Print how many messages are valid, and the reasons of the others.
pub fn verdicts(output: &mut dyn Write, summary: &Summary, brush: Brush) -> io::Result<()> {
    let valid = format!("valid {}", summary.verdict(Verdict::Valid));
    let refused = summary.refusals().map(|(verdict, count)| {
        let why = match verdict {
            Verdict::Dropped => why(&summary.tx.drop_reasons, "of packets: "),
            _ => String::new(),
        };
        format!("{} {count}{why}", verdict.name())
    });
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

/// Reasons of drops that are printed.
const REASONS: usize = 3;

/// Return why datagrams were dropped, by the kernel's names: the most frequent reasons, with their
/// counts if there are several, which are `of` what is named.
pub(super) fn why(reasons: &BTreeMap<Box<str>, u64>, of: &str) -> String {
    let mut all: Vec<_> = reasons.iter().collect();
    all.sort_by_key(|(_, count)| Reverse(**count));
    let (told, others) = all.split_at(all.len().min(REASONS));
    let mut told: Vec<_> = match told {
        [] => return String::new(),
        [(only, _)] => vec![only.to_string()],
        several => several
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect(),
    };
    if !others.is_empty() {
        told.push("others".to_owned());
    }
    let of = if told.len() > 1 { of } else { "" };
    format!(" ({of}{})", told.join(", "))
}

pub(super) fn connections(output: &mut dyn Write, connections: &Connections) -> io::Result<()> {
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

/// Print what was lost, or left out, by name.
pub fn losses(output: &mut dyn Write, summary: &Summary, brush: Brush) -> io::Result<()> {
    let told = counted_losses(&summary.lost);
    if told.is_empty() {
        writeln!(output, " lost: nothing")?;
    } else {
        writeln!(output, "{}", brush.alarm(&wrapped(" lost:", told, ",")))?;
    }
    if summary.lost.datagrams > 0 {
        let told = unfollowed(summary.lost.datagrams);
        let line = wrapped(" not followed:", told.split(' '), "");
        writeln!(output, "{line}")?;
    }
    if let Some(stamps) = &summary.nic_stamps {
        writeln!(output, "{}", nic_stamps(stamps))?;
    }
    if let Some(reads) = &summary.nic_reads {
        writeln!(output, "{}", nic_reads(reads))?;
    }
    Ok(())
}

/// Return the losses that were counted, by their names.
pub(crate) fn counted_losses(lost: &Lost) -> Vec<String> {
    let counters = [
        ("ring", lost.ring),
        ("evicted", lost.evicted),
        ("unmatched", lost.unmatched),
        ("flows", lost.flows),
        ("turned-away", lost.turned_away),
        ("mptcp", lost.mptcp),
        ("host-path", lost.host_path),
        ("neighbours", lost.neighbours),
        ("skipped", lost.skipped),
        ("groups", lost.groups),
        ("not adopted", lost.not_adopted),
    ];
    let counted = counters.into_iter().filter(|(_, count)| *count > 0);
    counted
        .map(|(name, count)| format!("{name} {count}"))
        .collect()
}

/// Tell of calls of UDP sockets that came before their programs. No packet was lost by that, and
/// whom they were for is not known. What a socket sends right after connect(2) is not counted.
pub(crate) fn unfollowed(calls: u64) -> String {
    format!(
        "at least {} of UDP sockets, before programs were attached for them, whatever the filter",
        counted(calls, "call")
    )
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
