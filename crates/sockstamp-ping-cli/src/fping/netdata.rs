//! Lines for netdata, as `fping -N` prints them.

use std::io::{self, Write};

use super::tally::Span;

/// The charts of a host that netdata knows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Charts {
    counts: bool,
    times: bool,
}

/// Print the values of a span of time, and declare charts before their first values.
pub(super) fn print(
    output: &mut dyn Write,
    name: &str,
    every: u64,
    charts: &mut Charts,
    span: &Span,
) -> io::Result<()> {
    let id = identifier(name);
    let (sent, received) = (span.sent, span.answered);
    let quality = (received * 100).checked_div(sent).unwrap_or_default();
    let is_new = !std::mem::replace(&mut charts.counts, true);
    if is_new {
        writeln!(
            output,
            "CHART fping.{id}_packets '' 'FPing Packets for host {name}' packets '{name}' \
             fping.packets line 110020 {every}\n\
             DIMENSION xmt sent absolute 1 1\nDIMENSION rcv received absolute 1 1"
        )?;
    }
    writeln!(
        output,
        "BEGIN fping.{id}_packets\nSET xmt = {sent}\nSET rcv = {received}\nEND"
    )?;
    if is_new {
        writeln!(
            output,
            "CHART fping.{id}_quality '' 'FPing Quality for host {name}' percentage '{name}' \
             fping.quality area 110010 {every}\n\
             DIMENSION returned '' absolute 1 1"
        )?;
    }
    writeln!(
        output,
        "BEGIN fping.{id}_quality\nSET returned = {quality}\nEND"
    )?;
    let Some((min, mean, max)) = span.spread.ends() else {
        return Ok(());
    };
    if !std::mem::replace(&mut charts.times, true) {
        writeln!(
            output,
            "CHART fping.{id}_latency '' 'FPing Latency for host {name}' ms '{name}' \
             fping.latency area 110000 {every}\n\
             DIMENSION min minimum absolute 1 1000000\n\
             DIMENSION max maximum absolute 1 1000000\n\
             DIMENSION avg average absolute 1 1000000"
        )?;
    }
    writeln!(
        output,
        "BEGIN fping.{id}_latency\nSET min = {}\nSET avg = {}\nSET max = {}\nEND",
        min.0, mean.0, max.0
    )
}

/// Letters and digits alone.
fn identifier(name: &str) -> String {
    let allowed = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '_'
        }
    };
    name.chars().map(allowed).collect()
}
