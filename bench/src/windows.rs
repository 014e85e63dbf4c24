//! Compare the quantiles of windows with those of every message of the same traffic, and measure
//! how long attaching and detaching takes and how it affects the application.

use std::num::NonZeroU32;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use sockstamp_bpf::{Options, Sampling, Session, Target};
use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::{Summary, Windows};

use crate::effort::Effort;
use crate::load::{Load, Outcome, Traffic};
use crate::paired::{Spread, in_turn, to_float, values};
use crate::report::{Budget, Report};

/// 10 % and 2 % of the time.
const PARTS: [u32; 2] = [10, 50];
/// Windows in a round, on average.
const WINDOWS: u32 = 6;
const FEW: u32 = 3;
const WINDOW: Duration = Duration::from_millis(250);
/// The part of the time with the most changes.
const BUSIEST: u32 = 4;
/// Interval between calls of a session.
const STEP: Duration = Duration::from_millis(10);
/// Half of a histogram's bucket, and as much for what differs between the moments of a window and
/// all moments.
const STATED: f64 = 1.09;

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    for one_of in PARTS {
        if report.wants(&format!("windows.{one_of}")) {
            agreement(load, one_of, effort, report)?;
        }
    }
    if report.wants("windows.switch") {
        switches(load, effort, report)?;
    }
    Ok(())
}

fn session(load: &Load, one_of: Option<u32>) -> Result<Session> {
    let options = Options {
        target: Target {
            cgroup: Some(load.cgroup().to_owned()),
            ..Target::default()
        },
        windows: one_of.and_then(NonZeroU32::new),
        sampling: Sampling::Every,
        ..Options::default()
    };
    Ok(Session::start(&options)?)
}

/// Run traffic, and serve sessions meanwhile.
fn serve(load: &mut Load, duration: Duration, sessions: &mut [Session]) -> Result<Outcome> {
    load.open(Traffic::RequestResponse)?;
    let outcome = thread::scope(|scope| {
        let traffic = scope.spawn(|| load.run(duration, None));
        while !traffic.is_finished() {
            thread::sleep(STEP);
            for session in &mut *sessions {
                session.poll(Duration::ZERO, &mut drop)?;
            }
        }
        traffic.join().ok().context("the traffic ended early")?
    })?;
    load.close()?;
    Ok(outcome)
}

/// Both see the same traffic.
fn agreement(load: &mut Load, one_of: u32, effort: Effort, report: &mut Report) -> Result<()> {
    let windows = if effort == Effort::Smoke {
        FEW
    } else {
        WINDOWS
    };
    let duration = WINDOW * one_of * windows;
    let rounds = in_turn(effort.rounds(1), [()], |()| {
        let mut sessions = [session(load, None)?, session(load, Some(one_of))?];
        serve(load, duration, &mut sessions)?;
        let [every, windows] = sessions.map(|session| session.stop(&mut drop));
        anyhow::Ok((every?, windows?))
    })?
    .concat();
    for (q, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")] {
        let of = |summary: &Summary| {
            summary
                .rx
                .total
                .quantile(q)
                .map_or(0.0, |time| to_float(time.0))
        };
        let ratios = values(&rounds, |(every, windows)| of(windows) / of(every));
        let off: Vec<_> = ratios.iter().map(|ratio| ratio.max(1.0 / ratio)).collect();
        let name = format!("windows.{one_of}.{name}");
        report.add(
            name,
            "× off",
            Spread::of(&off),
            Some(Budget::AtMost(STATED)),
        );
    }
    let messages = |summary: &Summary| to_float(summary.rx.messages);
    let counts = values(&rounds, |(every, windows)| {
        messages(windows) / messages(every)
    });
    report.add(
        format!("windows.{one_of}.messages"),
        "×",
        Spread::of(&counts),
        None,
    );
    Ok(())
}

/// The application's own figures, without a session and while sessions start and end.
struct Seen {
    outcome: Outcome,
    windows: Windows,
    cpu: Duration,
}

fn switches(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let duration = WINDOW * BUSIEST * WINDOWS;
    let [without, with] = in_turn(effort.rounds(2), [None, Some(BUSIEST)], |one_of| {
        let mut sessions = match one_of {
            Some(_) => vec![session(load, one_of)?],
            None => Vec::new(),
        };
        let before = process_time()?;
        let outcome = serve(load, duration, &mut sessions)?;
        let cpu = process_time()?.saturating_sub(before);
        let windows = sessions
            .first()
            .and_then(|session| session.summary().windows);
        anyhow::Ok(Seen {
            outcome,
            windows: windows.unwrap_or_default(),
            cpu,
        })
    })?;
    let tail = |seen: &Seen| to_float(seen.outcome.p999_ns);
    let (base, tails) = (values(&without, tail), values(&with, tail));
    report.add(
        "windows.switch.p999",
        "×",
        Spread::of_ratios(&tails, &base),
        None,
    );
    report.add("windows.switch.p999.off", "ns", Spread::of(&base), None);
    let each = |time: fn(&Seen) -> Duration| {
        move |seen: &Seen| time(seen).as_secs_f64() * 1e3 / to_float(seen.windows.count.max(1))
    };
    let attaching = values(&with, each(|seen| of(seen.windows.attaching)));
    let detaching = values(&with, each(|seen| of(seen.windows.detaching)));
    report.add("windows.switch.attach", "ms", Spread::of(&attaching), None);
    report.add("windows.switch.detach", "ms", Spread::of(&detaching), None);
    let cpu = values(&with, each(|seen| seen.cpu));
    report.add("windows.switch.cpu", "ms", Spread::of(&cpu), None);
    Ok(())
}

fn of(time: Nanos) -> Duration {
    Duration::from_nanos(time.0)
}

fn process_time() -> Result<Duration> {
    Ok(Duration::from(clock_gettime(
        ClockId::CLOCK_PROCESS_CPUTIME_ID,
    )?))
}
