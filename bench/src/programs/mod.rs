//! Measure what sockstamp and tcpdump cost real programs: request rate, times of requests and CPU
//! time, over loopback with both CPUs busy, and over an unsaturated link of 100 µs.

mod beside;
pub(crate) mod echo;
mod hosts;
mod output;
mod workload;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::beside::Beside;
use self::hosts::{Hosts, Place};
use self::output::Outcome;
use self::workload::{Server, Workload};
use crate::effort::Effort;
use crate::paired::{Spread, in_turn, values};
use crate::processor;
use crate::report::{Budget, Report};

/// The time in which `stat` lowers its cost as far as its ceiling wants: a few looks, one per 2 s.
const SETTLING: Duration = Duration::from_secs(6);

/// The result of one run, with the costs that the client does not see.
struct Round {
    outcome: Outcome,
    cpu_seconds: f64,
    lost: u32,
}

impl Round {
    fn cpu_per_million(&self) -> f64 {
        self.cpu_seconds / self.outcome.messages * 1e6
    }
}

/// A figure of a round; `None` where the client does not measure it.
struct Measure {
    name: &'static str,
    unit: &'static str,
    value: fn(&Round) -> Option<f64>,
    /// True if more of it is better.
    more: bool,
}

const MEASURES: [Measure; 4] = [
    Measure {
        name: "rate",
        unit: "/s",
        value: |round| Some(round.outcome.per_second),
        more: true,
    },
    Measure {
        name: "p50",
        unit: "µs",
        value: |round| round.outcome.p50,
        more: false,
    },
    Measure {
        name: "p99",
        unit: "µs",
        value: |round| round.outcome.p99,
        more: false,
    },
    Measure {
        name: "cpu",
        unit: "s/M",
        value: |round| Some(round.cpu_per_million()),
        more: false,
    },
];

/// The budget of a figure, relative to that without a tool.
fn budget(workload: Workload, place: Place, measure: &Measure, beside: Beside) -> Option<Budget> {
    match (place, measure.name, beside) {
        (_, "rate", Beside::StatServer | Beside::StatServerBelow) => Some(Budget::AtLeast(0.95)),
        (Place::Link, "p50" | "p99", _) if beside.is_stat() => Some(Budget::AtMost(1.01)),
        (Place::Loopback, "rate", Beside::TraceEvery) if workload == Workload::Redis => {
            Some(Budget::AtLeast(0.85))
        }
        _ => None,
    }
}

/// The budget of `stat` and of `pcap` over tcpdump. The rate of a transfer that is limited shows
/// no cost.
fn no_dearer(workload: Workload, place: Place, measure: &Measure) -> Option<Budget> {
    match (workload, place) {
        (Workload::Iperf3, Place::Link) if measure.more => None,
        _ if measure.more => Some(Budget::AtLeast(1.0)),
        _ => Some(Budget::AtMost(1.0)),
    }
}

/// Run on all CPUs, in a thread of its own: that of the other benchmarks stays on one.
pub(crate) fn run(effort: Effort, report: &mut Report) -> Result<()> {
    processor::on_all(|| {
        Place::ALL
            .into_iter()
            .try_for_each(|place| rows(place, effort, report))
    })
}

fn rows(place: Place, effort: Effort, report: &mut Report) -> Result<()> {
    let hosts = Hosts::new(place)?;
    for workload in Workload::ALL {
        let name = format!("programs.{}.{}", workload.name(), place.name());
        if !report.wants(&name) {
            continue;
        }
        let missing = workload.missing_packages();
        if !missing.is_empty() {
            eprintln!("{name} is left out: apt-get install {}", missing.join(" "));
            continue;
        }
        let server = workload.serve(&hosts)?;
        let rounds = in_turn(effort.rounds(4), Beside::ALL, |beside| {
            let settling = settling(beside, effort);
            let round = round(&hosts, place, workload, &server, beside, settling);
            round.with_context(|| format!("{name} beside {}", beside.name()))
        })?;
        add(report, &name, workload, place, &rounds);
    }
    Ok(())
}

fn settling(beside: Beside, effort: Effort) -> Duration {
    if beside.has_ceiling() && effort != Effort::Smoke {
        SETTLING
    } else {
        Duration::ZERO
    }
}

fn round(
    hosts: &Hosts,
    place: Place,
    workload: Workload,
    server: &Server,
    beside: Beside,
    settling: Duration,
) -> Result<Round> {
    let tool = beside.start(hosts, server.id())?;
    let began = Instant::now();
    while began.elapsed() < settling {
        workload.load(hosts, place)?;
    }
    let before = hosts.cpu_seconds()?;
    let outcome = workload.load(hosts, place)?;
    let cpu_seconds = hosts.cpu_seconds()? - before;
    let lost = tool.map_or(Ok(0), beside::Tool::stop)?;
    Ok(Round {
        outcome,
        cpu_seconds,
        lost,
    })
}

fn add(
    report: &mut Report,
    name: &str,
    workload: Workload,
    place: Place,
    rounds: &[Vec<Round>; 9],
) {
    let [off, others @ ..] = rounds;
    let [tcpdump, stat, below, _, _, _, trace, pcap] = others;
    for measure in &MEASURES {
        let values =
            |rounds: &[Round]| -> Option<Vec<f64>> { rounds.iter().map(measure.value).collect() };
        let (Some(off), Some(tcpdump), Some(stat)) = (values(off), values(tcpdump), values(stat))
        else {
            continue;
        };
        let figure = |what: &str| format!("{name}.{}.{what}", measure.name);
        for (beside, rounds) in Beside::ALL.into_iter().skip(1).zip(others) {
            let Some(values) = values(rounds) else {
                continue;
            };
            let budget = budget(workload, place, measure, beside);
            report.add(
                figure(beside.name()),
                "×",
                Spread::of_ratios(&values, &off),
                budget,
            );
        }
        for (what, values) in [
            ("stat/tcpdump", Some(stat)),
            ("stat-max-cost/tcpdump", values(below)),
            ("pcap/tcpdump", values(pcap)),
        ] {
            let Some(values) = values else { continue };
            let spread = Spread::of_ratios(&values, &tcpdump);
            let limit = no_dearer(workload, place, measure);
            report.add(figure(what), "×", spread, limit);
        }
        report.add(
            figure(Beside::Nothing.name()),
            measure.unit,
            Spread::of(&off),
            None,
        );
    }
    let lost = values(trace, |round| {
        f64::from(round.lost) / round.outcome.messages
    });
    report.add(
        format!("{name}.lost.trace-every"),
        "share",
        Spread::of(&lost),
        None,
    );
}
