//! `sockstamp ping`: round-trip times as the kernel saw them.

mod chains;
mod chart;
mod dots;
pub(crate) mod follow;
pub(crate) mod hosts;
pub(crate) mod icmp;
mod jitter;
mod json;
mod line;
pub(crate) mod options;
pub mod path;
mod ranges;
#[cfg(test)]
mod samples;
pub(crate) mod spread;
mod statistics;
mod summary;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use sockstamp_model::clock::Nanos;
use sockstamp_ping::{Answer, End, Engine, Event, Limits, Outcome, Refusal, Target};

pub(crate) use chains::index;
pub use options::{Options, read};
use sockstamp_print::colour::Brush;
use sockstamp_print::destination::Stream;
use sockstamp_print::output::Reported;
use sockstamp_run::escape;
use sockstamp_run::escape::complain;

use chains::Chains;
use follow::{Listener, Signals, follow};
use hosts::Host;
use spread::Spread;
use statistics::{Stamps, Statistics};
use summary::Summary;

/// The exit status of errors, as ping(8)'s.
pub const FAILED: u8 = 2;
const UNANSWERED: u8 = 1;

/// Probe hosts, and print what came back.
pub fn run(options: &Options) -> Result<ExitCode> {
    let hosts::Hosts { probed, unknown } = hosts::read(options)?;
    let (hosts, targets): (Vec<_>, Vec<_>) = probed.into_iter().unzip();
    let chains = Chains::of(options);
    let targets = chains.split(targets);
    for error in &unknown {
        complain(format_args!("{error:#}"));
    }
    let read = options.targets.as_slice();
    let output = Reported::to(options.output.open_beside(Stream::Output, read)?);
    let signals = Signals::catch()?;
    let (mut engine, events) = Engine::start(limits(options, targets.len()))?;
    let began = Instant::now();
    let mut report = Report::new(options, hosts, chains, output);
    report.failed = !unknown.is_empty();
    let added = add(&mut engine, targets);
    let printed = added.and_then(|sockets| {
        report.head(&sockets)?;
        follow(&mut engine, events, &signals, &mut report)
    });
    engine.stop();
    printed?;
    report.summary(&engine, began.elapsed().into())?;
    Ok(report.exit_code())
}

/// Return limits with room for the events of two seconds. The room of any number takes 11 MB.
fn limits(options: &Options, targets: usize) -> Limits {
    const LEAST: usize = 1024;
    const KEPT: Duration = Duration::from_secs(2);
    let limits = Limits::default();
    let of_each = match options.flood || options.adaptive {
        true => None,
        false => usize::try_from(KEPT.as_nanos() / options.interval.as_nanos().max(1)).ok(),
    };
    let preloaded = usize::try_from(options.preload).unwrap_or(limits.events);
    let of_each = of_each.map_or(limits.events, |events| events.saturating_add(preloaded));
    Limits {
        events: of_each.saturating_mul(targets).clamp(LEAST, limits.events),
        ..limits
    }
}

/// Add the targets; return the kinds of sockets that probe them.
pub(crate) fn add(engine: &mut Engine, targets: Vec<Target>) -> Result<BTreeSet<String>> {
    let added = engine.add_all(targets);
    let added = added.map_err(|(address, error)| {
        anyhow::Error::new(error).context(format!("cannot probe {address}"))
    })?;
    engine.finish();
    Ok(added
        .into_iter()
        .map(|added| added.sockets.to_string())
        .collect())
}

/// Prints and keeps events.
struct Report<'a> {
    options: &'a Options,
    hosts: Vec<Host>,
    chains: Chains,
    statistics: Statistics,
    output: Reported,
    brush: Brush,
    /// The sources of stamps printed so far.
    told: Vec<Stamps>,
    failed: bool,
    /// Hosts whose probes ended before their time: the threads of a flood end each by itself.
    lost: BTreeSet<usize>,
    /// The time of the last line of `--every`.
    asked_for: Instant,
}

impl<'a> Report<'a> {
    fn new(options: &'a Options, hosts: Vec<Host>, chains: Chains, output: Reported) -> Self {
        Self {
            options,
            chains,
            statistics: Statistics::new(hosts.len()),
            hosts,
            output,
            brush: (options.colours).brush_for(&options.output, Stream::Output),
            told: Vec::new(),
            failed: false,
            lost: BTreeSet::new(),
            asked_for: Instant::now(),
        }
    }

    fn is_silent(&self) -> bool {
        self.options.quiet || self.lists() || self.output.is_unread()
    }

    /// Return true if only addresses are printed.
    fn lists(&self) -> bool {
        self.options.alive || self.options.dead
    }

    fn head(&mut self, sockets: &BTreeSet<String>) -> Result<()> {
        if self.options.is_json() || self.lists() || self.output.is_unread() {
            return Ok(());
        }
        let sockets: Vec<_> = sockets.iter().map(String::as_str).collect();
        let sockets = sockets.join(", ");
        let head = match self.hosts.as_slice() {
            [only] => line::head(only, self.options, &sockets),
            several => format!("PING {} targets by {sockets}", several.len()),
        };
        if let Some(pattern) = &self.options.pattern {
            let typed = &pattern.typed;
            writeln!(self.output, "PATTERN: 0x{typed}").context("cannot write")?;
            if typed.len() > 1 && typed.parse::<u16>().is_ok() {
                complain(format_args!(
                    "-p fills probes with these bytes; for a port: --tcp {typed}, or --udp {typed}"
                ));
            }
        }
        let printed = writeln!(self.output, "{head}");
        printed.context("cannot write")
    }

    fn heard(&mut self, event: &Event) -> Result<()> {
        let chains = self.chains;
        let (index, of_host) = (
            |target| chains.host(target),
            |target, seq| chains.seq(target, seq),
        );
        match event {
            Event::Probe {
                target,
                seq,
                outcome,
            } => self.outcome(index(*target), of_host(*target, *seq), outcome),
            Event::Late {
                target,
                seq,
                answer,
            } => {
                self.statistics
                    .count(Some(index(*target)), |counts| counts.late += 1);
                self.signs(dots::ANSWERED)?;
                self.remarkable(
                    index(*target),
                    of_host(*target, *seq),
                    answer,
                    "late",
                    " (late)",
                )
            }
            Event::LateRefusal {
                target,
                seq,
                refusal,
            } => self.late_refusal(index(*target), of_host(*target, *seq), refusal),
            Event::Duplicate {
                target,
                seq,
                answer,
            } => {
                self.statistics
                    .count(Some(index(*target)), |counts| counts.duplicates += 1);
                self.remarkable(
                    index(*target),
                    of_host(*target, *seq),
                    answer,
                    "duplicate",
                    " (DUP!)",
                )
            }
            Event::Stray { target, from, why } => {
                let target = target.map(index);
                self.statistics.count(target, |counts| counts.strays += 1);
                if self.options.is_json() {
                    let host = target.and_then(|target| self.hosts.get(target));
                    let object = json::stray(host, *from, *why);
                    return self.object(&object);
                }
                self.text(|output, _| line::stray(output, *from, *why))
            }
            Event::Ended { target, end } => self.ended(index(*target), end),
            Event::Woken => Ok(()),
        }
    }

    fn outcome(&mut self, target: usize, seq: u64, outcome: &Outcome) -> Result<()> {
        self.statistics.outcome(target, outcome);
        if self.is_silent() {
            return Ok(());
        }
        if self.options.is_json() {
            let time = self.time();
            let object = json::Line::outcome(&self.hosts[target], seq, outcome).at(time);
            let printed = write_object(&mut self.output, &object);
            return printed.context("cannot write");
        }
        if self.options.flood {
            return self.signs(&dots::of(outcome).concat());
        }
        if let Outcome::Answered(answer) = outcome {
            self.tell_stamps(answer)?;
        }
        if matches!(outcome, Outcome::Abandoned) {
            return Ok(());
        }
        let bell = if self.options.audible { "\x07" } else { "" };
        let brush = self.brush;
        self.text(|output, hosts| {
            let mut line = Vec::new();
            line::outcome(&mut line, &hosts[target], seq, outcome, bell)?;
            match outcome {
                Outcome::Answered(_) => output.write_all(&line),
                _ => output.write_all(&brush.alarm_line(&line)),
            }
        })
    }

    /// Name each source once, since usually all probes are stamped alike.
    fn tell_stamps(&mut self, answer: &Answer) -> Result<()> {
        let stamps = Stamps::from(&answer.times);
        if answer.times.fallback.is_some() || self.told.contains(&stamps) {
            return Ok(());
        }
        self.told.push(stamps);
        let printed = writeln!(self.output, "stamps: {}", line::stamps(stamps));
        printed.context("cannot write")
    }

    /// An answer that is no outcome.
    fn remarkable(
        &mut self,
        target: usize,
        seq: u64,
        answer: &Answer,
        what: &'static str,
        remark: &str,
    ) -> Result<()> {
        if self.options.is_json() {
            if self.is_silent() {
                return Ok(());
            }
            let time = self.time();
            let object = json::Line::event(&self.hosts[target], seq, answer, what).at(time);
            let printed = write_object(&mut self.output, &object);
            return printed.context("cannot write");
        }
        self.text(|output, hosts| line::answered(output, &hosts[target], seq, answer, remark))
    }

    fn late_refusal(&mut self, target: usize, seq: u64, refusal: &Refusal) -> Result<()> {
        self.statistics
            .count(Some(target), |counts| counts.late_refusals += 1);
        if self.options.is_json() {
            if self.is_silent() {
                return Ok(());
            }
            let time = self.time();
            let object = json::Line::late_refusal(&self.hosts[target], seq, refusal).at(time);
            let printed = write_object(&mut self.output, &object);
            return printed.context("cannot write");
        }
        self.signs(dots::REFUSED)?;
        self.text(|output, hosts| line::refused(output, &hosts[target], seq, refusal, " (late)"))
    }

    fn ended(&mut self, target: usize, end: &End) -> Result<()> {
        let host = &self.hosts[target];
        let why = match end {
            End::Count | End::Answered | End::Deadline | End::Removed => return Ok(()),
            End::NamespaceGone => "its network namespace is gone".to_owned(),
            End::Failed(error) => error.to_string(),
        };
        if !self.lost.insert(target) {
            return Ok(());
        }
        complain(format_args!("{}: {why}", line::label(host)));
        match json::ended(host, end) {
            Some(object) if self.options.is_json() => self.object(&object),
            _ => Ok(()),
        }
    }

    fn summary(&mut self, engine: &Engine, duration: Nanos) -> Result<()> {
        if self.output.is_unread() {
            return Ok(());
        }
        self.signs("\n")?;
        let (lateness, counters) = (engine.lateness(), engine.counters());
        let summary = Summary {
            hosts: &self.hosts,
            statistics: &self.statistics,
            duration,
            has_gaps: self.options.flood || self.options.adaptive,
            lateness: &lateness,
            counters: &counters,
        };
        let printed = if self.lists() {
            self.list()
        } else if self.options.is_json() {
            write_object(&mut self.output, &json::summary(&summary))
        } else {
            summary.print(&mut self.output)
        };
        let printed = printed.and_then(|()| self.output.flush());
        printed.context("cannot write")
    }

    /// Print the addresses that answered, or did not, one per line, as fping(8) does.
    fn list(&mut self) -> io::Result<()> {
        let alive = self.options.alive;
        let targets = self.hosts.iter().zip(&self.statistics.targets);
        for (host, _) in targets.filter(|(_, target)| (target.counts.answered > 0) == alive) {
            writeln!(self.output, "{}", host.name)?;
        }
        Ok(())
    }

    fn exit_code(&self) -> ExitCode {
        let wanted = self
            .options
            .count
            .filter(|_| self.options.deadline.is_some())
            .unwrap_or(1);
        let is_missing = |target: &statistics::OfTarget| target.counts.answered < wanted;
        if self.failed || !self.lost.is_empty() {
            ExitCode::from(FAILED)
        } else if self.statistics.targets.iter().any(is_missing) {
            ExitCode::from(UNANSWERED)
        } else {
            ExitCode::SUCCESS
        }
    }

    /// Print signs of a flood, and nothing elsewhere.
    fn signs(&mut self, signs: &str) -> Result<()> {
        if !self.options.flood || self.options.is_json() || self.is_silent() {
            return Ok(());
        }
        let printed = self.output.write_all(signs.as_bytes());
        printed.context("cannot write")
    }

    /// Print a line, but not between the dots of a flood.
    fn text(
        &mut self,
        print: impl FnOnce(&mut dyn Write, &[Host]) -> io::Result<()>,
    ) -> Result<()> {
        if self.options.flood || self.is_silent() {
            return Ok(());
        }
        let stamped = match self.time() {
            Some(Nanos(time)) => write!(
                self.output,
                "[{}.{:06}] ",
                time / 1_000_000_000,
                time / 1000 % 1_000_000
            ),
            None => Ok(()),
        };
        let printed = stamped.and_then(|()| print(&mut self.output, &self.hosts));
        printed.context("cannot write")
    }

    fn object(&mut self, object: &impl serde::Serialize) -> Result<()> {
        if self.is_silent() {
            return Ok(());
        }
        let printed = write_object(&mut self.output, object);
        printed.context("cannot write")
    }

    /// Return CLOCK_REALTIME, with -D.
    fn time(&self) -> Option<Nanos> {
        let now = || clock_gettime(ClockId::CLOCK_REALTIME).ok();
        let now = self.options.timestamps.then(now).flatten()?;
        Some(Duration::from(now).into())
    }
}

impl Listener for Report<'_> {
    fn take(&mut self, _engine: &mut Engine, event: &Event) -> Result<()> {
        self.heard(event)
    }

    fn rest(&mut self, _engine: &mut Engine) -> Result<()> {
        if self
            .options
            .every
            .is_some_and(|every| self.asked_for.elapsed() >= every)
        {
            self.asked_for = Instant::now();
            self.asked();
        }
        let flushed = self.output.flush();
        flushed.context("cannot write")
    }

    /// Print a line so far to standard error, as ping(8) does at SIGQUIT.
    fn asked(&self) {
        let mut whole = Spread::default();
        let targets = &self.statistics.targets;
        targets
            .iter()
            .for_each(|target| whole.merge(&target.spread));
        let counts = &self.statistics.all.counts;
        let loss = counts.loss_per_mille().unwrap_or_default() / 10;
        let (received, sent) = (counts.answered, counts.sent);
        complain(format_args!(
            "{received}/{sent} packets, {loss}% loss, min/avg/max/mdev = {whole}"
        ));
    }

    fn is_done(&self) -> bool {
        self.output.is_unread()
    }
}

fn write_object(output: &mut impl Write, object: &impl serde::Serialize) -> io::Result<()> {
    escape::json(&mut *output, object)?;
    output.write_all(b"\n")
}
