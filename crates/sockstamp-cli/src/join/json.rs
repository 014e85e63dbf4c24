//! Whole lives as one JSON object, all times in nanoseconds.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use sockstamp_join::{Host, Life, Reason};
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::histogram::Histogram;
use sockstamp_print::row::figures;
use sockstamp_run::escape;

use super::joined::Joined;

/// Raised when a key changes its meaning or is removed.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct All<'a> {
    version: u32,
    hosts: [Recorded<'a>; 2],
    clocks: Clocks,
    directions: [Direction<'a>; 2],
    clamped: Clamped,
    /// Directions of connections whose addresses differ between the hosts.
    translated: usize,
    not_joined: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Recorded<'a> {
    name: &'a str,
    messages: u64,
}

/// The offset in the middle of the first host's recording.
#[derive(Serialize)]
struct Clocks {
    quality: &'static str,
    offset_ns: Option<i64>,
    error_ns: Option<Nanos>,
    drift_ns_per_s: Option<(f64, f64)>,
    steps: u64,
    late: u64,
}

/// Times between the hosts that came out below zero.
#[derive(Serialize)]
struct Clamped {
    net_forward: u64,
    net_back: u64,
}

#[derive(Serialize)]
struct Direction<'a> {
    from: &'a str,
    to: &'a str,
    stages: BTreeMap<&'static str, Distribution>,
    total: Distribution,
    net_back: Distribution,
    clock_error: Distribution,
    slowest: Vec<&'a Life>,
}

#[derive(Serialize)]
struct Distribution {
    count: u64,
    sum_ns: u128,
    p50_ns: Option<Nanos>,
    p90_ns: Option<Nanos>,
    p99_ns: Option<Nanos>,
    p999_ns: Option<Nanos>,
    max_ns: Option<Nanos>,
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Self {
        let mut figures = figures(histogram);
        let mut next = || figures.next().flatten();
        Self {
            count: histogram.count(),
            sum_ns: histogram.sum_ns(),
            p50_ns: next(),
            p90_ns: next(),
            p99_ns: next(),
            p999_ns: next(),
            max_ns: next(),
        }
    }
}

pub(super) fn all(output: &mut dyn Write, joined: &Joined) -> io::Result<()> {
    let all = All {
        version: VERSION,
        hosts: [0, 1].map(|host| Recorded {
            name: &joined.hosts[host].name,
            messages: joined.hosts[host].messages,
        }),
        clocks: clocks(joined),
        directions: Host::ALL.map(|host| direction(joined, host)),
        clamped: clamped(joined),
        translated: joined.join.translations().len(),
        not_joined: Reason::ALL
            .into_iter()
            .map(|reason| (reason.name(), joined.join.unmatched()[reason]))
            .collect(),
    };
    escape::json(&mut *output, &all)?;
    writeln!(output)?;
    output.flush()
}

fn clocks(joined: &Joined) -> Clocks {
    let clocks = joined.join.clocks();
    let time = joined.middle().unwrap_or(Timestamp::from_nanos(0));
    let estimate = clocks.at(time);
    let is_known = estimate.error != Nanos::MAX;
    Clocks {
        quality: estimate.quality.name(),
        offset_ns: is_known.then(|| estimate.offset.delta().as_nanos()),
        error_ns: is_known.then_some(estimate.error),
        drift_ns_per_s: clocks.drift(time).filter(|_| is_known),
        steps: clocks.steps(),
        late: clocks.late(),
    }
}

fn clamped(joined: &Joined) -> Clamped {
    let clamped = joined.join.clamped();
    Clamped {
        net_forward: clamped.forward,
        net_back: clamped.back,
    }
}

fn direction(joined: &Joined, from: Host) -> Direction<'_> {
    let sums = joined.from(from);
    Direction {
        from: &joined.hosts[from as usize].name,
        to: &joined.hosts[from.peer() as usize].name,
        stages: sums
            .stages()
            .map(|(stage, histogram)| (stage.name(), histogram.into()))
            .collect(),
        total: (&sums.total).into(),
        net_back: (&sums.back).into(),
        clock_error: (&sums.error).into(),
        slowest: sums.slowest(),
    }
}
