//! fping(8)'s lines.

use std::fmt;
use std::io::{self, Write};

use sockstamp_model::clock::Nanos;
use sockstamp_ping::Refusal;

use super::options::Options;
use super::tally::{Span, Tally};
use crate::ping::hosts::Host;
use crate::ping::icmp;

/// Milliseconds with three digits, as `sprint_tm()` of fping has them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub(super) Nanos);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.0 as f64 / 1e6;
        let decimals = match milliseconds {
            ..1.0 => 3,
            ..10.0 => 2,
            ..100.0 => 1,
            _ => 0,
        };
        write!(f, "{milliseconds:.decimals$}")
    }
}

/// A host's name in lines, as wide as the longest.
#[derive(Debug)]
pub(super) struct Names {
    names: Vec<String>,
    width: usize,
}

impl Names {
    pub(super) fn new(hosts: &[Host], options: &Options) -> Self {
        let name = |host: &Host| match options.addresses {
            true => host.address.to_string(),
            false => host.name.to_string(),
        };
        let names: Vec<_> = hosts.iter().map(name).collect();
        let longest = names.iter().map(|name| name.chars().count()).max();
        Self {
            width: longest.unwrap_or(0),
            names,
        }
    }

    pub(super) fn plain(&self, host: usize) -> &str {
        &self.names[host]
    }

    fn aligned(&self, host: usize) -> String {
        let (name, width) = (&self.names[host], self.width);
        format!("{name:<width$}")
    }
}

/// The result of a probe that is counted.
pub(super) fn probe(
    output: &mut dyn Write,
    names: &Names,
    host: usize,
    seq: u64,
    answer: Option<(usize, Nanos)>,
    all: &Span,
) -> io::Result<()> {
    write!(output, "{} : [{}], ", names.aligned(host), seq - 1)?;
    match answer {
        Some((bytes, time)) => write!(output, "{bytes} bytes, {} ms", Time(time))?,
        None => write!(output, "timed out")?,
    }
    match all.spread.mean() {
        Some(mean) => write!(output, " ({} avg, ", Time(mean))?,
        None => write!(output, " (NaN avg, ")?,
    }
    writeln!(output, "{}% loss)", all.loss())
}

/// An ICMP error, for standard error.
pub(super) fn refusal(name: &str, host: &Host, refusal: &Refusal) -> String {
    let meaning = icmp::meaning(host.address, refusal);
    match refusal.from {
        Some(from) => format!("ICMP {meaning} from {from} for ICMP Echo sent to {name}"),
        None => format!("{name}: error while sending ping: {meaning}"),
    }
}

/// A host's counts, as `-c` and `-Q` have them.
pub(super) fn counts(
    output: &mut dyn Write,
    names: &Names,
    host: usize,
    span: &Span,
    options: &Options,
) -> io::Result<()> {
    write!(
        output,
        "{} : xmt/rcv/%loss = {}/{}/{}%",
        names.aligned(host),
        span.sent,
        span.answered,
        span.loss()
    )?;
    if options.outage {
        write!(output, ", outage(ms) = {}", span.outage(options.period))?;
    }
    if let Some((min, mean, max)) = span.spread.ends() {
        let (min, mean, max) = (Time(min), Time(mean), Time(max));
        write!(output, ", min/avg/max = {min}/{mean}/{max}")?;
    }
    writeln!(output)
}

/// The times of each probe of a host, as `-C` has them.
pub(super) fn times(
    output: &mut dyn Write,
    names: &Names,
    host: usize,
    tally: &Tally,
) -> io::Result<()> {
    write!(output, "{} :", names.aligned(host))?;
    for time in &tally.times {
        match time {
            Some(time) => write!(output, " {}", Time(*time))?,
            None => write!(output, " -")?,
        }
    }
    writeln!(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let of = |micros| Time(Nanos::from_micros(micros)).to_string();
        assert_eq!(
            [30, 6_104, 24_310, 153_400, 2_000_100].map(of),
            ["0.030", "6.10", "24.3", "153", "2000"]
        );
    }
}
