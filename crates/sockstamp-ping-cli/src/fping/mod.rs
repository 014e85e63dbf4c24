//! `sockstamp fping`: fping(8)'s options, output and exit status, with the kernel's times, for the
//! programs that read them.

mod netdata;
mod options;
mod print;
mod tally;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use sockstamp_ping::{Answer, Engine, Event, Limits, Outcome, Target};
use sockstamp_print::output::Reported;
use sockstamp_run::escape::complain_lines;
use sockstamp_run::utc::utc;

pub use options::Options;

use crate::ping::follow::{Listener, Signals, follow};
use crate::ping::hosts::{self, Host};
use crate::ping::{self, index, options as ping_options};
use print::{Names, Time};
use tally::{Span, Tally};

/// The exit status of calls that failed.
pub const FAILED: u8 = 4;
const UNKNOWN: u8 = 2;
const UNREACHABLE: u8 = 1;

/// Header of an echo reply, which fping(8) counts as well.
const ICMP_HEADER: usize = 8;

/// Probe hosts, and print what fping(8) would.
pub fn run(options: &Options) -> Result<ExitCode> {
    if options.version {
        let version = env!("CARGO_PKG_VERSION");
        writeln!(io::stdout(), "fping: Version 5.1 (sockstamp {version})")?;
        return Ok(ExitCode::SUCCESS);
    }
    let hosts::Hosts { probed, unknown } = hosts::known(&as_ping(options)?)?;
    for error in &unknown {
        let reason = error.root_cause().to_string();
        let reason = reason.rsplit(": ").next().unwrap_or_default();
        complain_lines(&format!("{}: {reason}\n", name_of(error)));
    }
    let (hosts, targets): (Vec<_>, Vec<_>) = probed.into_iter().unzip();
    let targets = targets.into_iter().map(|target| settled(target, options));
    let signals = Signals::catch()?;
    let (mut engine, events) = Engine::start(Limits::default())?;
    let mut report = Report::new(options, &hosts);
    let printed = ping::add(&mut engine, targets.collect())
        .and_then(|_| follow(&mut engine, events, &signals, &mut report));
    engine.stop();
    printed?;
    report.end(unknown.len())?;
    Ok(report.exit_code(unknown.len()))
}

/// The same in ping's words.
fn as_ping(options: &Options) -> Result<ping::Options> {
    let hosts = match options.generate {
        true => generated(&options.targets)?,
        false => options.targets.clone(),
    };
    let pace = match options.counts() {
        true => options.period,
        false => options.patience(),
    };
    Ok(ping::Options {
        targets: options.list(),
        ipv4: options.ipv4,
        ipv6: options.ipv6,
        count: options.count.or(options.vcount),
        interval: pace.max(SHORTEST),
        timeout: Some(options.patience().max(SHORTEST)),
        size: options.size,
        ttl: options.ttl,
        tos: options.tos,
        path_mtu: options
            .dont_fragment
            .then_some(ping_options::Fragmentation::Do),
        interface: options.src.clone().or(options.iface.clone()),
        retries: (!options.counts()).then_some(options.retry),
        ..ping::Options::of(hosts)
    })
}

/// Return the name in an error about a name.
fn name_of(error: &anyhow::Error) -> String {
    let text = error.to_string();
    let word = text.trim_start_matches("cannot resolve ");
    word.split(' ').next().unwrap_or_default().to_owned()
}

/// No time at all would be a burst.
const SHORTEST: Duration = Duration::from_millis(1);

fn generated(words: &[String]) -> Result<Vec<String>> {
    match words {
        [network] if network.contains('/') => Ok(words.to_vec()),
        [first, last] => Ok(vec![format!("{first}-{last}")]),
        _ => {
            ensure!(false, "-g takes a network, or a first and a last address");
            Ok(Vec::new())
        }
    }
}

fn settled(mut target: Target, options: &Options) -> Target {
    if !options.counts() {
        target.settings.backoff_percent = options.backoff;
    }
    target
}

struct Report<'a> {
    options: &'a Options,
    hosts: &'a [Host],
    names: Names,
    tallies: Vec<Tally>,
    /// Hosts whose state was printed.
    told: Vec<bool>,
    /// Charts that netdata knows.
    charts: Vec<netdata::Charts>,
    output: Reported,
    began: Instant,
    /// Summaries of `-Q` so far.
    summaries: u32,
    other_icmp: u64,
}

impl<'a> Report<'a> {
    fn new(options: &'a Options, hosts: &'a [Host]) -> Self {
        let times = options.vcount.unwrap_or_default();
        Self {
            options,
            hosts,
            names: Names::new(hosts, options),
            tallies: hosts.iter().map(|_| Tally::new(times)).collect(),
            told: vec![false; hosts.len()],
            charts: vec![netdata::Charts::default(); hosts.len()],
            output: Reported::to(Box::new(io::stdout())),
            began: Instant::now(),
            summaries: 0,
            other_icmp: 0,
        }
    }

    fn outcome(&mut self, host: usize, seq: u64, outcome: &Outcome) -> Result<()> {
        self.tallies[host].take(seq, outcome);
        match outcome {
            Outcome::Refused(refusal) => {
                self.other_icmp += 1;
                let line = print::refusal(self.names.plain(host), &self.hosts[host], refusal);
                complain_lines(&format!("{line}\n"));
            }
            Outcome::NotSent(error) => {
                let name = self.names.plain(host);
                complain_lines(&format!("{name}: error while sending ping: {error}\n"));
            }
            _ => {}
        }
        if self.options.counts() {
            return self.counted(host, seq, outcome);
        }
        match outcome {
            Outcome::Answered(answer) => self.tell(host, Some(answer)),
            _ => Ok(()),
        }
    }

    /// The line of a probe that is counted.
    fn counted(&mut self, host: usize, seq: u64, outcome: &Outcome) -> Result<()> {
        let answer = match outcome {
            Outcome::Answered(answer) => Some((answer.bytes + ICMP_HEADER, answer.times.rtt)),
            Outcome::Lost => None,
            _ => return Ok(()),
        };
        if self.options.is_quiet() {
            return Ok(());
        }
        let stamped = self.stamp();
        let printed = stamped.and_then(|()| {
            let all = &self.tallies[host].all;
            print::probe(&mut self.output, &self.names, host, seq, answer, all)
        });
        printed.context("cannot write")
    }

    fn stamp(&mut self) -> io::Result<()> {
        if !self.options.timestamp {
            return Ok(());
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        write!(
            self.output,
            "[{:.5}] ",
            now.unwrap_or_default().as_secs_f64()
        )
    }

    /// Print a host's state, once.
    fn tell(&mut self, host: usize, answer: Option<&Answer>) -> Result<()> {
        let options = self.options;
        let is_told = std::mem::replace(&mut self.told[host], true);
        let plain = options.alive || options.unreach;
        let wanted = match answer {
            _ if !plain => !options.quiet && options.reachable.is_none(),
            Some(_) => options.alive,
            None => options.unreach,
        };
        if is_told || !wanted {
            return Ok(());
        }
        let name = self.names.plain(host);
        let line = match (plain, answer) {
            (true, _) => name.to_owned(),
            (false, Some(_)) => format!("{name} is alive"),
            (false, None) => format!("{name} is unreachable"),
        };
        let time = answer
            .filter(|_| options.elapsed)
            .map(|answer| answer.times.rtt);
        let printed = match time {
            Some(time) => writeln!(self.output, "{line} ({} ms)", Time(time)),
            None => writeln!(self.output, "{line}"),
        };
        printed.context("cannot write")
    }

    /// The summary of the last seconds.
    fn interval(&mut self, every: Duration) -> Result<()> {
        if self.options.netdata {
            return self.for_netdata(every);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let [_, _, time] = utc(now.unwrap_or_default().as_secs());
        let (hour, minute, second) = (&time[..2], &time[2..4], &time[4..]);
        let mut text = format!("[{hour}:{minute}:{second}]\n").into_bytes();
        for (host, tally) in self.tallies.iter_mut().enumerate() {
            print::counts(&mut text, &self.names, host, &tally.recent, self.options)?;
            tally.recent = Span::default();
        }
        complain_lines(&String::from_utf8_lossy(&text));
        Ok(())
    }

    fn for_netdata(&mut self, every: Duration) -> Result<()> {
        let mut text = Vec::new();
        for (host, tally) in self.tallies.iter_mut().enumerate() {
            let name = self.names.plain(host);
            let charts = &mut self.charts[host];
            netdata::print(&mut text, name, every.as_secs(), charts, &tally.recent)?;
            tally.recent = Span::default();
        }
        let printed = self.output.write_all(&text);
        printed.context("cannot write")
    }

    /// Print what is known at the end.
    fn end(&mut self, unknown: usize) -> Result<()> {
        if !self.options.counts() {
            (0..self.hosts.len())
                .filter(|host| !self.tallies[*host].is_alive())
                .collect::<Vec<_>>()
                .into_iter()
                .try_for_each(|host| self.tell(host, None))?;
        }
        if let Some(required) = self.options.reachable {
            let (alive, word) = match self.alive() {
                alive if alive >= required => (alive, "Enough"),
                alive => (alive, "Not enough"),
            };
            let printed = writeln!(
                self.output,
                "{word} hosts reachable (required: {required}, reachable: {alive})"
            );
            printed.context("cannot write")?;
        }
        let flushed = self.output.flush();
        flushed.context("cannot write")?;
        let mut text = Vec::new();
        if self.options.counts() {
            self.summary(&mut text)?;
        }
        if self.options.stats {
            self.statistics(&mut text, unknown)?;
        }
        complain_lines(&String::from_utf8_lossy(&text));
        Ok(())
    }

    fn summary(&self, text: &mut dyn Write) -> io::Result<()> {
        if !self.options.is_quiet() {
            writeln!(text)?;
        }
        for (host, tally) in self.tallies.iter().enumerate() {
            match self.options.vcount {
                Some(_) => print::times(text, &self.names, host, tally)?,
                None => print::counts(text, &self.names, host, &tally.all, self.options)?,
            }
        }
        Ok(())
    }

    fn statistics(&self, text: &mut dyn Write, unknown: usize) -> io::Result<()> {
        let mut all = Span::default();
        for tally in &self.tallies {
            all.sent += tally.all.sent;
            all.answered += tally.all.answered;
            all.spread.merge(&tally.all.spread);
        }
        let alive = self.alive();
        let (targets, unreachable) = (self.hosts.len(), self.hosts.len() - alive);
        let timeouts = all.sent - all.answered;
        writeln!(
            text,
            "\n{targets:8} targets\n{alive:8} alive\n{unreachable:8} unreachable\n\
             {unknown:8} unknown addresses\n\n{timeouts:8} timeouts (waiting for response)\n\
             {:8} ICMP Echos sent\n{:8} ICMP Echo Replies received\n\
             {:8} other ICMP received\n",
            all.sent, all.answered, self.other_icmp
        )?;
        let (min, mean, max) = all.spread.ends().unwrap_or_default();
        for (time, name) in [(min, "min"), (mean, "avg"), (max, "max")] {
            writeln!(text, " {} ms ({name} round trip time)", Time(time))?;
        }
        let seconds = self.began.elapsed().as_secs_f64();
        writeln!(text, "{seconds:12.3} sec (elapsed real time)\n")
    }

    fn alive(&self) -> usize {
        self.tallies.iter().filter(|tally| tally.is_alive()).count()
    }

    fn exit_code(&self, unknown: usize) -> ExitCode {
        let alive = self.alive();
        let is_enough = match self.options.reachable {
            Some(required) => alive >= required,
            None => alive == self.hosts.len(),
        };
        match (unknown, is_enough) {
            (0, true) => ExitCode::SUCCESS,
            (0, false) => ExitCode::from(UNREACHABLE),
            _ => ExitCode::from(UNKNOWN),
        }
    }
}

impl Listener for Report<'_> {
    fn take(&mut self, _engine: &mut Engine, event: &Event) -> Result<()> {
        match event {
            Event::Probe {
                target,
                seq,
                outcome,
            } => self.outcome(index(*target), *seq, outcome),
            Event::LateRefusal {
                target, refusal, ..
            } => {
                let host = index(*target);
                let line = print::refusal(self.names.plain(host), &self.hosts[host], refusal);
                complain_lines(&format!("{line}\n"));
                Ok(())
            }
            Event::Ended { target, .. } if !self.options.counts() => {
                let host = index(*target);
                match self.tallies[host].is_alive() {
                    true => Ok(()),
                    false => self.tell(host, None),
                }
            }
            _ => Ok(()),
        }
    }

    fn rest(&mut self, _engine: &mut Engine) -> Result<()> {
        if let Some(every) = self.options.every
            && self.began.elapsed() >= every * (self.summaries + 1)
        {
            self.summaries += 1;
            self.interval(every)?;
        }
        let flushed = self.output.flush();
        flushed.context("cannot write")
    }

    fn asked(&self) {
        let mut text = Vec::new();
        // Memory takes all that is written.
        let _ = self.summary(&mut text);
        complain_lines(&String::from_utf8_lossy(&text));
    }

    fn is_done(&self) -> bool {
        self.output.is_unread()
    }
}
