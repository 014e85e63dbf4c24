//! The summary for people.

use std::fmt;
use std::io::{self, Write};

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::percent::share;
use sockstamp_ping::Counters;
use sockstamp_print::row;

use super::hosts::Host;
use super::spread::Milliseconds;
use super::statistics::{Counts, OfTarget, Statistics};
use super::{chart, line};

/// Linux sends about one ICMP error a second to a host: `net.ipv4.icmp_ratelimit`, 1000 ms.
const LIMITED: &str = " a closed port's host limits how often it answers \"port unreachable\": \
                       what is lost here may not be lost on the path";

/// The data of a summary.
#[derive(Debug)]
pub(super) struct Summary<'a> {
    pub(super) hosts: &'a [Host],
    pub(super) statistics: &'a Statistics,
    pub(super) duration: Nanos,
    /// The times between probes are the answers', not the user's.
    pub(super) has_gaps: bool,
    /// The delays of probes against their schedule.
    pub(super) lateness: &'a Histogram,
    pub(super) counters: &'a Counters,
}

impl Summary<'_> {
    pub(super) fn print(&self, output: &mut dyn Write) -> io::Result<()> {
        let all = &self.statistics.all;
        if let (several @ [_, _, ..], of_each) = (self.hosts, &self.statistics.targets) {
            writeln!(output)?;
            targets(output, several, of_each)?;
            write!(output, "\n {} targets: ", several.len())?;
            counts(output, &all.counts)?;
            writeln!(output, " in {}", self.duration)?;
        }
        if all.counts.closed_ports > 0 && all.counts.lost > 0 {
            writeln!(output, "{LIMITED}")?;
        }
        if !all.user_rtt.is_empty() {
            self.stages(output)?;
        }
        if let Some(jitter) = self.statistics.jitter() {
            writeln!(output, " jitter of the network: {jitter} (RFC 3550)")?;
        }
        if !all.rtt.is_empty() {
            writeln!(output, "\n network, round trips:")?;
            chart::print(output, &all.rtt)?;
            writeln!(output)?;
        }
        self.stamps(output)?;
        self.lateness(output)?;
        self.losses(output)?;
        match (self.hosts, self.statistics.targets.as_slice()) {
            ([only], [target]) => self.as_ping(output, only, target),
            _ => Ok(()),
        }
    }

    /// Print ping(8)'s lines, at the end as there: programs that read its output take the last one,
    /// or the last two.
    fn as_ping(&self, output: &mut dyn Write, host: &Host, of: &OfTarget) -> io::Result<()> {
        let counts = &of.counts;
        let rare = rare(counts);
        if !rare.is_empty() {
            writeln!(output, " of these: {rare}")?;
        }
        writeln!(output, "\n--- {} ping statistics ---", host.name)?;
        write!(
            output,
            "{} packets transmitted, {} received",
            counts.sent, counts.answered
        )?;
        let errors = counts.refused + counts.late_refusals + counts.not_sent;
        for (name, count) in [("duplicates", counts.duplicates), ("errors", errors)] {
            if count > 0 {
                write!(output, ", +{count} {name}")?;
            }
        }
        let (loss, milliseconds) = (Percent(counts), self.duration.0 / 1_000_000);
        writeln!(output, ", {loss} packet loss, time {milliseconds}ms")?;
        match counts.answered {
            0 => writeln!(output),
            _ => writeln!(
                output,
                "rtt min/avg/max/mdev = {}{}",
                of.spread,
                self.gaps(of)
            ),
        }
    }

    /// Return the mean time between probes, and a moving average of round trips, as ping(8) has
    /// them where probes follow answers.
    fn gaps(&self, of: &OfTarget) -> String {
        let gap = self
            .duration
            .0
            .checked_div(of.counts.sent.saturating_sub(1));
        match gap.filter(|_| self.has_gaps) {
            Some(gap) => format!(", ipg/ewma {}/{} ms", Milliseconds(Nanos(gap)), of.average),
            None => String::new(),
        }
    }

    fn stages(&self, output: &mut dyn Write) -> io::Result<()> {
        let all = &self.statistics.all;
        let whole = all.user_rtt.sum_ns();
        let row = |output: &mut dyn Write, name: &str, histogram: &Histogram| {
            write!(output, " {name:<15}")?;
            row::cells(output, histogram)?;
            writeln!(output, "{:>8}", share(histogram.sum_ns(), whole))
        };
        writeln!(
            output,
            "\n {:<15}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}",
            "stage", "count", "p50", "p90", "p99", "p99.9", "max", "share"
        )?;
        let always = |name| name != "tx.neighbour";
        all.stages()
            .into_iter()
            .filter(|(name, stage)| always(*name) || !stage.is_empty())
            .try_for_each(|(name, stage)| row(output, name, stage))?;
        row(output, "total", &all.user_rtt)?;
        row(output, "prober delay", &all.prober_delay)
    }

    /// Print the sources of stamps, and the reasons for user-space times.
    fn stamps(&self, output: &mut dyn Write) -> io::Result<()> {
        let all = &self.statistics.all;
        for (stamps, count) in &all.stamps {
            writeln!(output, " stamps: {}: {count}", line::stamps(*stamps))?;
        }
        for (reason, count) in &all.fallbacks {
            writeln!(output, " by user space: {count}, since {reason}")?;
        }
        Ok(())
    }

    fn lateness(&self, output: &mut dyn Write) -> io::Result<()> {
        let late = self.lateness;
        let (Some(p50), Some(p99), Some(max)) =
            (late.quantile(0.5), late.quantile(0.99), late.max())
        else {
            return Ok(());
        };
        writeln!(output, " sent late by: p50 {p50}, p99 {p99}, max {max}")
    }

    /// Counters that are in no line above.
    fn losses(&self, output: &mut dyn Write) -> io::Result<()> {
        const SAID: [&str; 12] = [
            "sent",
            "not_sent",
            "answered",
            "lost",
            "refused",
            "abandoned",
            "late",
            "late_refused",
            "duplicate",
            "reordered",
            "truncated",
            "clock_step",
        ];
        let rare = self
            .counters
            .iter()
            .filter(|(name, count)| *count > 0 && !SAID.contains(name));
        let rare: Vec<_> = rare
            .map(|(name, count)| format!("{} {count}", name.replace('_', "-")))
            .collect();
        if rare.is_empty() {
            return Ok(());
        }
        writeln!(output, " lost or odd: {}", rare.join(", "))
    }
}

/// The share of sent probes that were not answered, in six digits, as ping(8) has it.
struct Percent<'a>(&'a Counts);

impl fmt::Display for Percent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { sent, answered, .. } = self.0;
        let percent = sent.saturating_sub(*answered) as f64 * 100.0 / (*sent).max(1) as f64;
        let decimals = if percent < 10.0 { 5 } else { 4 };
        let text = format!("{percent:.decimals$}");
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

fn counts(output: &mut dyn Write, counts: &Counts) -> io::Result<()> {
    write!(output, "{} sent, {} answered", counts.sent, counts.answered)?;
    if let Some(loss) = counts.loss_per_mille() {
        write!(output, ", {}.{} % lost", loss / 10, loss % 10)?;
    }
    let rare = rare(counts);
    write!(output, "{}{rare}", if rare.is_empty() { "" } else { "; " })
}

/// Print the counters that are mostly zero.
fn rare(counts: &Counts) -> String {
    let rare: Vec<_> = counts
        .rare()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    rare.join(", ")
}

/// A line each, as fping(8)'s.
fn targets(output: &mut dyn Write, hosts: &[Host], targets: &[OfTarget]) -> io::Result<()> {
    const TITLE: &str = "target";
    let labels: Vec<_> = hosts.iter().map(line::label).collect();
    let width = labels
        .iter()
        .map(|label| label.chars().count())
        .max()
        .unwrap_or(0)
        .max(TITLE.len());
    writeln!(
        output,
        " {TITLE:<width$}{:>10}{:>10}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "sent", "answered", "lost", "p50", "p90", "p99", "max", "jitter"
    )?;
    for (label, target) in labels.iter().zip(targets) {
        let counts = &target.counts;
        let loss = counts.loss_per_mille();
        let loss = loss.map_or_else(
            || "-".to_owned(),
            |loss| format!("{}.{} %", loss / 10, loss % 10),
        );
        write!(
            output,
            " {label:<width$}{:>10}{:>10}{loss:>9}",
            counts.sent, counts.answered
        )?;
        let quantiles = [0.5, 0.9, 0.99].map(|quantile| target.rtt.quantile(quantile));
        for figure in quantiles
            .into_iter()
            .chain([target.rtt.max(), target.jitter.value()])
        {
            match figure {
                Some(figure) => write!(output, "{figure:>10}")?,
                None => write!(output, "{:>10}", "-")?,
            }
        }
        let rare = rare(counts);
        writeln!(output, "{}{rare}", if rare.is_empty() { "" } else { "  " })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sockstamp_ping::Outcome;

    use super::super::samples::{answer, refusal};
    use super::*;

    fn host(last: u8) -> Host {
        let address = Ipv4Addr::new(10, 0, 0, last);
        Host {
            name: address.to_string().into(),
            address: address.into(),
            netns: None,
            counter: "icmp_seq",
        }
    }

    fn printed(hosts: &[Host], statistics: &Statistics, counters: &Counters) -> String {
        let mut output = Vec::new();
        let mut lateness = Histogram::new();
        lateness.record(Nanos::from_micros(50), 4);
        let summary = Summary {
            hosts,
            statistics,
            duration: Nanos::from_secs(3),
            has_gaps: false,
            lateness: &lateness,
            counters,
        };
        summary.print(&mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn the_summary_of_one_target_is_complete() {
        let mut statistics = Statistics::new(1);
        for outcome in [
            Outcome::Answered(answer(10)),
            Outcome::Answered(answer(10)),
            Outcome::Answered(answer(12)),
            Outcome::Lost,
        ] {
            statistics.outcome(0, &outcome);
        }
        statistics.count(Some(0), |counts| counts.duplicates += 1);
        let mut counters = Counters::default();
        counters.skipped = 3;
        counters.sent = 4;
        assert_eq!(
            printed(&[host(2)], &statistics, &counters),
            concat!(
                "\n",
                " stage              count      p50      p90      p99    p99.9      max   share\n",
                " tx.copy                3  20.0 µs  20.0 µs  20.0 µs  20.0 µs  20.0 µs   0.2 %\n",
                " tx.qdisc               3  1.00 µs  1.00 µs  1.00 µs  1.00 µs  1.00 µs   0.0 %\n",
                " network                3  10.0 ms  12.0 ms  12.0 ms  12.0 ms  12.0 ms  99.1 %\n",
                " rx.stack+wakeup        3  70.0 µs  70.0 µs  70.0 µs  70.0 µs  70.0 µs   0.7 %\n",
                " rx.app                 3  9.00 µs  9.00 µs  9.00 µs  9.00 µs  9.00 µs   0.1 %\n",
                " total                  3  10.1 ms  12.1 ms  12.1 ms  12.1 ms  12.1 ms 100.0 %\n",
                " prober delay           3  99.0 µs  99.0 µs  99.0 µs  99.0 µs  99.0 µs   0.9 %\n",
                " jitter of the network: 125 µs (RFC 3550)\n",
                "\n",
                " network, round trips:\n",
                "    9.29 ms to 10.1 ms            2  ########################################\n",
                "    10.1 ms to 11.0 ms            0  \n",
                "    11.0 ms to 12.0 ms            1  ####################\n",
                "\n",
                " stamps: probes software (the driver), answers software (the kernel): 3\n",
                " sent late by: p50 50.0 µs, p99 50.0 µs, max 50.0 µs\n",
                " lost or odd: skipped 3\n",
                " of these: duplicates 1\n",
                "\n",
                "--- 10.0.0.2 ping statistics ---\n",
                "4 packets transmitted, 3 received, +1 duplicates, 25% packet loss, time 3000ms\n",
                "rtt min/avg/max/mdev = 10.000/10.667/12.000/0.943 ms\n",
            )
        );
    }

    #[test]
    fn the_summary_of_several_targets_has_a_line_each_and_a_total() {
        let mut statistics = Statistics::new(2);
        statistics.outcome(0, &Outcome::Answered(answer(10)));
        statistics.outcome(1, &Outcome::Refused(refusal()));
        let text = printed(&[host(2), host(10)], &statistics, &Counters::default());
        let expected = concat!(
            "\n",
            " target         sent  answered     lost       p50       p90       p99       max    jitter\n",
            " 10.0.0.2          1         1    0.0 %   10.0 ms   10.0 ms   10.0 ms   10.0 ms      0 ns\n",
            " 10.0.0.10         1         0  100.0 %         -         -         -         -         -  refused 1\n",
            "\n",
            " 2 targets: 2 sent, 1 answered, 50.0 % lost; refused 1 in 3.00 s\n",
        );
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.contains("jitter of"), "{text}");
    }

    #[test]
    fn packet_loss_has_six_digits_at_most() {
        let loss = |sent, answered| {
            let counts = Counts {
                sent,
                answered,
                ..Counts::default()
            };
            Percent(&counts).to_string()
        };
        assert_eq!(loss(3, 2), "33.3333%");
        assert_eq!(loss(700, 699), "0.14286%");
        assert_eq!([loss(0, 0), loss(10, 9), loss(1, 0)], ["0%", "10%", "100%"]);
    }

    #[test]
    fn the_summary_without_answers_has_no_times() {
        let mut statistics = Statistics::new(1);
        statistics.outcome(0, &Outcome::Lost);
        let text = printed(&[host(2)], &statistics, &Counters::default());
        assert!(
            text.contains("1 packets transmitted, 0 received, 100% packet loss, time 3000ms\n"),
            "{text}"
        );
        assert!(
            !text.contains("stage") && !text.contains("round trips") && !text.contains("rtt"),
            "{text}"
        );
    }
}
