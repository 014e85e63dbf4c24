//! The table of hops, and the same as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};
use sockstamp_model::clock::Nanos;

use super::hop::{Hop, Verdict, verdicts};
use super::mtu::Search;
use crate::ping::hosts::Host;
use crate::ping::line;
use crate::ping::options::Options;

/// The state of a path.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) host: &'a Host,
    pub(super) options: &'a Options,
    pub(super) hops: &'a [Hop],
    pub(super) search: &'a Search,
    pub(super) is_reached: bool,
}

impl Report<'_> {
    pub(super) fn lines(&self) -> Vec<String> {
        let mut text = Vec::new();
        // Memory takes all that is written.
        let _ = self.print(&mut text);
        let text = String::from_utf8_lossy(&text);
        text.lines().map(str::to_owned).collect()
    }

    pub(super) fn print(&self, output: &mut dyn Write) -> io::Result<()> {
        let probes = match (self.options.udp, self.options.tcp) {
            (Some(port), _) => format!("datagrams to port {port}"),
            (_, Some(port)) => format!("SYNs to port {port}"),
            _ => "echo requests".to_owned(),
        };
        writeln!(output, "PATH to {}, by {probes}\n", line::label(self.host))?;
        let width = self.width();
        writeln!(
            output,
            " hop  {:<width$}{:>7}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "address", "sent", "lost", "min", "p50", "p90", "max", "jitter"
        )?;
        for ((number, hop), verdict) in (1..).zip(self.hops).zip(verdicts(self.hops)) {
            row(output, number, hop, verdict, width)?;
        }
        writeln!(output)?;
        if !self.is_reached {
            writeln!(output, " the host did not answer")?;
        }
        self.path_mtu(output)
    }

    fn width(&self) -> usize {
        const LEAST: usize = 15;
        let addresses = self.hops.iter().flat_map(|hop| &hop.addresses);
        addresses
            .map(|(address, _)| address.to_string().len())
            .max()
            .unwrap_or(0)
            .max(LEAST)
    }

    fn path_mtu(&self, output: &mut dyn Write) -> io::Result<()> {
        match self.search.found() {
            Some(mtu) => write!(output, " path MTU {mtu}")?,
            None if self.search.next().is_some() => write!(output, " path MTU not known yet")?,
            None => write!(output, " path MTU unknown")?,
        }
        for (from, mtu) in &self.search.narrowed {
            write!(output, "; {from}{} has {mtu} ahead", self.place(*from))?;
        }
        if self.search.is_hole {
            write!(
                output,
                "; larger packets vanish, and no router says so (a black hole)"
            )?;
        }
        writeln!(output)
    }

    fn place(&self, address: std::net::IpAddr) -> String {
        match self.hop_of(address) {
            Some(number) => format!(" (hop {number})"),
            None => String::new(),
        }
    }

    /// Return the number of the hop that has an address.
    fn hop_of(&self, address: std::net::IpAddr) -> Option<usize> {
        let has = |hop: &Hop| hop.addresses.iter().any(|(known, _)| *known == address);
        Some(self.hops.iter().position(has)? + 1)
    }

    pub(super) fn json(&self) -> Value {
        let hops: Vec<_> = (1..)
            .zip(self.hops)
            .zip(verdicts(self.hops))
            .map(|((number, hop), verdict)| object(number, hop, verdict))
            .collect();
        let narrowed: Vec<_> = self
            .search
            .narrowed
            .iter()
            .map(|(from, mtu)| json!({"from": from, "mtu": mtu, "hop": self.hop_of(*from)}))
            .collect();
        json!({"path": {
            "target": self.host.name,
            "address": self.host.address,
            "netns": self.host.netns,
            "reached": self.is_reached,
            "mtu": self.search.found(),
            "mtu_narrowed": narrowed,
            "mtu_black_hole": self.search.is_hole,
            "hops": hops,
        }})
    }
}

fn row(
    output: &mut dyn Write,
    number: u64,
    hop: &Hop,
    verdict: Verdict,
    width: usize,
) -> io::Result<()> {
    let address = hop.address();
    let name = address.map_or_else(|| "-".to_owned(), |address| address.to_string());
    let loss = hop.loss_per_mille();
    let loss = loss.map_or_else(
        || "-".to_owned(),
        |loss| format!("{}.{} %", loss / 10, loss % 10),
    );
    write!(
        output,
        " {number:>3}  {name:<width$}{:>7}{loss:>9}",
        hop.sent()
    )?;
    let ends = hop.spread.ends();
    for figure in [
        ends.map(|(min, ..)| min),
        hop.rtt.quantile(0.5),
        hop.rtt.quantile(0.9),
        ends.map(|(.., max)| max),
        hop.jitter.value(),
    ] {
        match figure {
            Some(figure) => write!(output, "{figure:>9}")?,
            None => write!(output, "{:>9}", "-")?,
        }
    }
    match remark(hop, verdict) {
        remark if remark.is_empty() => writeln!(output),
        remark => writeln!(output, "  {remark}"),
    }
}

fn remark(hop: &Hop, verdict: Verdict) -> String {
    let mut remarks = Vec::new();
    match verdict {
        Verdict::Clean => {}
        Verdict::Limited => remarks.push("limits its answers, no loss of the path".to_owned()),
        Verdict::Silent => remarks.push("does not answer, but forwards".to_owned()),
        Verdict::Lossy => remarks.push("the path loses packets from here on".to_owned()),
        Verdict::LossyOrLimited => {
            remarks.push("loses packets from here on, or limits its answers".to_owned());
        }
        Verdict::Dark => remarks.push("no answer from here on".to_owned()),
    }
    remarks.extend(hop.refused.clone());
    if hop.late > 0 {
        remarks.push(format!("{} late", hop.late));
    }
    let others: Vec<_> = hop
        .addresses
        .iter()
        .filter(|(address, _)| Some(*address) != hop.address())
        .map(|(address, count)| format!("{count} from {address}"))
        .collect();
    remarks.extend(others);
    remarks.join(", ")
}

fn object(number: u64, hop: &Hop, verdict: Verdict) -> Value {
    let quantile = |quantile| hop.rtt.quantile(quantile).map(Nanos::as_nanos);
    let addresses: Vec<_> = hop
        .addresses
        .iter()
        .map(|(address, answers)| json!({"address": address, "answers": answers}))
        .collect();
    let ends = hop.spread.ends();
    json!({
        "hop": number,
        "addresses": addresses,
        "sent": hop.sent(),
        "answered": hop.answered,
        "lost": hop.lost,
        "late": hop.late,
        "verdict": verdict.name(),
        "refused": hop.refused,
        "min_ns": ends.map(|(min, ..)| min.as_nanos()),
        "mean_ns": ends.map(|(_, mean, _)| mean.as_nanos()),
        "p50_ns": quantile(0.5),
        "p90_ns": quantile(0.9),
        "p99_ns": quantile(0.99),
        "max_ns": ends.map(|(.., max)| max.as_nanos()),
        "jitter_ns": hop.jitter.value().map(Nanos::as_nanos),
    })
}
