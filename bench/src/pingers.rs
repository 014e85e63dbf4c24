//! Pingers side by side: round trips over a link of 10 ms, with a processor at hand and in a quota
//! of a tenth of one next to busy loops.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::{Cgroup, Family, Host, Link, LinkConfig, Process};

use crate::effort::Effort;
use crate::interrupt;
use crate::paired::{Spread, in_turn};
use crate::report::{Budget, Report};

/// Each way.
const DELAY: Duration = Duration::from_millis(5);
const QUOTA: Duration = Duration::from_millis(10);
const PERIOD: Duration = Duration::from_millis(100);
const BUSY_LOOPS: usize = 4;
/// Time between probes: it hits all phases of the quota's period.
const INTERVAL: &str = "0.007";
const INTERVAL_MS: &str = "7";
const SECONDS: &str = "5";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pinger {
    Sockstamp,
    Ping,
    PingUser,
    Fping,
    Goroutines,
}

const PINGERS: [Pinger; 5] = [
    Pinger::Sockstamp,
    Pinger::Ping,
    Pinger::PingUser,
    Pinger::Fping,
    Pinger::Goroutines,
];

/// A view of round trips, by its name: milliseconds at the median and at 99 %.
struct View {
    name: &'static str,
    p50: f64,
    p99: f64,
}

pub(crate) fn run(effort: Effort, report: &mut Report) -> Result<()> {
    floods(effort, report)?;
    single_probes(effort, report)?;
    let hosts = DelayedHosts::new()?;
    for _ in 0..effort.rounds(1) {
        for pinger in PINGERS {
            interrupt::check()?;
            let idle = hosts.run(pinger, None)?;
            let throttled = hosts.throttled(pinger)?;
            for (idle, throttled) in idle.iter().zip(&throttled) {
                add(report, idle, throttled);
            }
        }
    }
    Ok(())
}

/// Measure floods of a host by itself: answers per second, ours over iputils'.
fn floods(effort: Effort, report: &mut Report) -> Result<()> {
    const OPTIONS: [&str; 5] = ["-f", "-q", "-w", "2", "127.0.0.1"];
    let host = Host::new("flood")?;
    let rate = |program: Program| {
        let output = host.command(program.path()?);
        answers_per_second(&output_of(output, program.words(&OPTIONS))?)
    };
    let [ours, theirs] = in_turn(effort.rounds(7), [Program::Ours, Program::Iputils], rate)?;
    let budget = Some(Budget::AtLeast(1.0));
    report.add("ping.flood", "×", Spread::of_ratios(&ours, &theirs), budget);
    report.add("ping.flood.ours", "/s", Spread::of(&ours), None);
    Ok(())
}

/// Measure a single probe of a host by itself, from the start of the program to its end.
fn single_probes(effort: Effort, report: &mut Report) -> Result<()> {
    const OPTIONS: [&str; 3] = ["-c", "1", "127.0.0.1"];
    let host = Host::new("single")?;
    let milliseconds = |program: Program| {
        let command = host.command(program.path()?);
        let begun = Instant::now();
        output_of(command, program.words(&OPTIONS))?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    };
    let sides = [Program::Ours, Program::Iputils];
    let [ours, theirs] = in_turn(effort.rounds(20), sides, milliseconds)?;
    let budget = Some(Budget::AtMost(10.0));
    report.add("ping.single", "ms", Spread::of(&ours), budget);
    report.add("ping.single.iputils", "ms", Spread::of(&theirs), None);
    Ok(())
}

/// A program with the options of ping(8).
#[derive(Debug, Clone, Copy)]
enum Program {
    Ours,
    Iputils,
}

impl Program {
    fn path(self) -> Result<PathBuf> {
        Ok(match self {
            Self::Ours => env::current_exe()?.with_file_name("sockstamp"),
            Self::Iputils => "ping".into(),
        })
    }

    fn words<'a>(self, options: &[&'a str]) -> Vec<&'a str> {
        let subcommand: &[&str] = match self {
            Self::Ours => &["ping"],
            Self::Iputils => &[],
        };
        [subcommand, options].concat()
    }
}

fn output_of(mut command: Command, arguments: Vec<&str>) -> Result<String> {
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output =
        output.with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Read ping(8)'s line of totals: "N packets transmitted, M received, …, time Tms".
fn answers_per_second(text: &str) -> Result<f64> {
    let line = text
        .lines()
        .find(|line| line.contains(" packets transmitted"));
    let figures = line.and_then(|line| {
        let mut parts = line.split(", ");
        let received: f64 = parts.nth(1)?.split(' ').next()?.parse().ok()?;
        let time = parts.last()?.strip_prefix("time ")?;
        let milliseconds: f64 = time.strip_suffix("ms")?.parse().ok()?;
        Some(received / milliseconds * 1e3)
    });
    figures.with_context(|| format!("no totals in: {text}"))
}

fn add(report: &mut Report, idle: &View, throttled: &View) {
    let mut figure = |what: &str, unit, value, budget| {
        let name = format!("ping.{}.{what}", idle.name);
        report.add(name, unit, Spread::of(&[value]), budget);
    };
    figure("idle.p50", "ms", idle.p50, None);
    figure("idle.p99", "ms", idle.p99, None);
    figure("quota.p50", "ms", throttled.p50, None);
    figure("quota.p99", "ms", throttled.p99, None);
    let budget = (idle.name == "sockstamp").then_some(Budget::AtMost(1.2));
    figure("quota/idle.p99", "", throttled.p99 / idle.p99, budget);
}

/// The two hosts.
struct DelayedHosts {
    prober: Host,
    _target: Host,
    link: Link,
}

impl DelayedHosts {
    fn new() -> Result<Self> {
        let (prober, target) = (Host::new("prober")?, Host::new("target")?);
        let link = Link::relay(&prober, &target, LinkConfig::default().delay(DELAY))?;
        Ok(Self {
            prober,
            _target: target,
            link,
        })
    }

    fn throttled(&self, pinger: Pinger) -> Result<Vec<View>> {
        let mut quota = Cgroup::new("quota")?;
        quota.set_cpu_quota(QUOTA, PERIOD)?;
        let busy_loop = || -> Result<Process> {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            quota.start_in(&mut command)?;
            Ok(Process::spawn(command)?)
        };
        let _busy: Vec<_> = (0..BUSY_LOOPS)
            .map(|_| busy_loop())
            .collect::<Result<_>>()?;
        self.run(pinger, Some(&quota))
    }

    fn run(&self, pinger: Pinger, cgroup: Option<&Cgroup>) -> Result<Vec<View>> {
        let mut command = self.command(pinger)?;
        if let Some(cgroup) = cgroup {
            cgroup.start_in(&mut command)?;
        }
        let output = command.stdin(Stdio::null()).output();
        let output =
            output.with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let views = views(pinger, &text);
        views.with_context(|| {
            format!(
                "of {pinger:?}: {text}{}",
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }

    fn command(&self, pinger: Pinger) -> Result<Command> {
        let address = self.link.address_b(Family::V4).to_string();
        let ourselves = env::current_exe()?;
        let (program, arguments): (_, &[&str]) = match pinger {
            Pinger::Sockstamp => (
                ourselves.with_file_name("sockstamp"),
                &[
                    "ping", "-q", "--format", "json", "-i", INTERVAL, "-w", SECONDS,
                ],
            ),
            Pinger::Ping => ("ping".into(), &["-n", "-i", INTERVAL, "-w", SECONDS]),
            Pinger::PingUser => ("ping".into(), &["-n", "-U", "-i", INTERVAL, "-w", SECONDS]),
            Pinger::Fping => (
                "timeout".into(),
                &[
                    "--signal",
                    "INT",
                    SECONDS,
                    "fping",
                    "-l",
                    "-t",
                    "1000",
                    "-p",
                    INTERVAL_MS,
                ],
            ),
            Pinger::Goroutines => (ourselves, &["user-space-pinger"]),
        };
        let mut command = self.prober.command(program);
        command.args(arguments).arg(address);
        Ok(command)
    }
}

fn views(pinger: Pinger, text: &str) -> Result<Vec<View>> {
    match pinger {
        Pinger::Sockstamp => both_views(text),
        Pinger::Ping => Ok(vec![view("iputils", after(text, "time="))?]),
        Pinger::PingUser => Ok(vec![view("iputils-U", after(text, "time="))?]),
        Pinger::Fping => Ok(vec![view("fping", after(text, "bytes, "))?]),
        Pinger::Goroutines => Ok(vec![view("user-space", after(text, "time="))?]),
    }
}

/// Return the kernel's and user space's view of the same probes.
fn both_views(text: &str) -> Result<Vec<View>> {
    let last = text.lines().last().context("nothing was printed")?;
    let summary: Value = serde_json::from_str(last)?;
    let view = |name, key: &str| {
        let figure = |quantile: &str| {
            summary["summary"][key][quantile]
                .as_f64()
                .map(|ns| ns / 1e6)
        };
        let figures = figure("p50_ns").zip(figure("p99_ns"));
        figures.map(|(p50, p99)| View { name, p50, p99 })
    };
    let views = view("sockstamp", "rtt").zip(view("sockstamp-user", "user_rtt"));
    let (ours, user) = views.context("nothing was answered")?;
    Ok(vec![ours, user])
}

/// Milliseconds, one per line, after a word.
fn after(text: &str, word: &str) -> Vec<f64> {
    let number = |line: &str| line.split_once(word)?.1.split(' ').next()?.parse().ok();
    text.lines().filter_map(number).collect()
}

fn view(name: &'static str, mut times: Vec<f64>) -> Result<View> {
    ensure!(!times.is_empty(), "nothing was answered");
    times.sort_by(f64::total_cmp);
    let rank = |of_hundred: usize| (times.len() * of_hundred).div_ceil(100) - 1;
    Ok(View {
        name,
        p50: times[rank(50)],
        p99: times[rank(99)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_found_in_the_totals_of_both_programs() {
        let totals = "\n--- ::1 ping statistics ---\n30 packets transmitted, 20 received, \
                      +1 errors, 33.3333% packet loss, time 200ms\nrtt min/avg/max/mdev = 1 ms\n";
        assert_eq!(answers_per_second(totals).unwrap(), 100.0);
        assert!(answers_per_second("PING ::1").is_err());
    }

    #[test]
    fn times_are_found_in_the_output_of_pingers() {
        let ping = "PING ...\n64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=10.2 ms\n\n1 packets";
        assert_eq!(after(ping, "time="), [10.2]);
        let fping = "10.0.0.2 : [0], 64 bytes, 10.3 ms (10.3 avg, 0% loss)\n";
        assert_eq!(after(fping, "bytes, "), [10.3]);
        let view = view("x", (1..=200).map(f64::from).collect()).unwrap();
        assert_eq!((view.p50, view.p99), (100.0, 198.0));
    }
}
