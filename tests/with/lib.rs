//! Helpers of the tests: run the program in the background, parse its JSON, and check what holds
//! for every message.

#![forbid(unsafe_code)]

pub mod agents;
mod binary;
pub mod guarded;
pub mod leftovers;
pub mod recording;
pub mod two_recordings;
pub mod unprivileged;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use sockstamp_bpf::Hooks;
use sockstamp_bpf::plan::{Plan, Request};
use sockstamp_bpf::probe;
use sockstamp_model::stage::Stage;
use tempfile::NamedTempFile;
use testbed::{Family, Host, PATIENCE, Process};

pub use binary::sockstamp;

/// Largest difference between a message's total and the sum of its stages.
const TOLERANCE_NS: u64 = 1_000;

/// Both IP versions.
pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Python with the packages of scripts/requirements.txt.
pub fn python() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/python.sh"))
}

/// Do the same, with the packages of another file of requirements.
pub fn python_with(requirements: &str) -> Command {
    let mut python = python();
    python.env("REQUIREMENTS", requirements);
    python
}

/// The options of each measurement, from the environment: `SOCKSTAMP_TEST_HOOKS=older` is
/// `--hooks older`.
pub fn hooks() -> Vec<String> {
    let hooks = std::env::var("SOCKSTAMP_TEST_HOOKS").ok();
    hooks.map_or_else(Vec::new, |hooks| vec!["--hooks".to_owned(), hooks])
}

/// Return the plan for this host with these hooks.
pub fn plan() -> Plan {
    let hooks = match hooks().contains(&"older".to_owned()) {
        true => Hooks::Older,
        false => Hooks::Best,
    };
    let request = Request {
        hooks,
        ..Request::default()
    };
    Plan::outlook(&probe::facts(), &request)
}

/// Socket programs whose behaviour is known.
pub fn peer() -> String {
    let path = testbed::peer_program().unwrap();
    path.into_os_string().into_string().unwrap()
}

/// `sockstamp stat` in the background.
#[derive(Debug)]
pub struct Stat(Background);

impl Stat {
    /// Start it and return when it measures: every message from here on is in it.
    pub fn start(target: &[&str]) -> Stat {
        Stat::sampled("--every", target)
    }

    /// Start one per host, with the same filter, and load them side by side.
    pub fn start_in<const N: usize>(hosts: [&Host; N], filter: &[&str]) -> [Stat; N] {
        Background::start_in("stat", hosts, filter).map(Stat)
    }

    /// Do the same as [`Stat::start`], with an option for sampling.
    pub fn sampled(option: &str, target: &[&str]) -> Stat {
        Stat::try_start(option, target).unwrap()
    }

    /// Do the same as [`Stat::sampled`]; if it ends at once, return its error output.
    pub fn try_start(option: &str, target: &[&str]) -> Result<Stat, String> {
        Background::start(&measuring("stat", option), target).map(Stat)
    }

    /// Do the same as [`Stat::start`], with no option but the target's: it keeps to its ceiling.
    pub fn by_default(target: &[&str]) -> Stat {
        Stat(Background::start(&["stat"], target).unwrap())
    }

    /// End it as Ctrl-C does and return its report.
    pub fn finish(self) -> Value {
        report(self.0.finish().0.path())
    }
}

/// Known answers do not depend on how busy the machine is, unless a test is of that.
fn measuring<'a>(subcommand: &'a str, option: &'a str) -> Vec<&'a str> {
    let mut arguments = vec![subcommand, option];
    if !["--max-cost", "--windows"]
        .iter()
        .any(|other| option.starts_with(other))
    {
        arguments.push("--max-cost=none");
    }
    arguments
}

/// `sockstamp trace` in the background.
#[derive(Debug)]
pub struct Trace(Background);

impl Trace {
    /// Start it and return when it measures: every message from here on is in it.
    pub fn start(target: &[&str]) -> Trace {
        Trace::sampled("--every", target)
    }

    /// Start one per host, with the same filter, and load them side by side.
    pub fn start_in<const N: usize>(hosts: [&Host; N], filter: &[&str]) -> [Trace; N] {
        Background::start_in("trace", hosts, filter).map(Trace)
    }

    /// Do the same as [`Trace::start`], with an option for sampling.
    pub fn sampled(option: &str, target: &[&str]) -> Trace {
        Trace::try_start(option, target).unwrap()
    }

    /// Do the same as [`Trace::sampled`]; if it ends at once, return its error output.
    pub fn try_start(option: &str, target: &[&str]) -> Result<Trace, String> {
        Background::start(&measuring("trace", option), target).map(Trace)
    }

    /// Wait until it has shown so many messages of a direction, or for ten seconds.
    pub fn wait_for(&self, direction: &str, count: usize) {
        self.wait_for_text(&format!(r#""direction":"{direction}""#), count);
    }

    /// Wait until it has shown this text so often, or for ten seconds.
    pub fn wait_for_text(&self, wanted: &str, count: usize) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            let shown = fs::read_to_string(self.0.output.path()).unwrap();
            if shown.matches(wanted).count() >= count {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// End it as Ctrl-C does and return its messages, whose stages add up.
    pub fn finish(self) -> Vec<Value> {
        messages(self.0.finish().0.path())
    }

    /// End it and return its messages and the packets of `--packets`.
    pub fn finish_with_packets(self) -> (Vec<Value>, Vec<Value>) {
        let mut all = lines(self.0.finish().0.path());
        all.retain(|line| !is_connection(line));
        all.into_iter().partition(|line| line["packet"].is_null())
    }

    /// End it and return the connections that were opened and accepted.
    pub fn finish_connections(self) -> Vec<Value> {
        let mut all = lines(self.0.finish().0.path());
        all.retain(is_connection);
        all
    }

    /// Do the same as [`Trace::finish`]; if messages are missing because the reader of the ring had
    /// no processor in time, return its report.
    pub fn finish_whole(self) -> Result<Vec<Value>, String> {
        let (output, errors) = self.0.finish();
        match errors.contains("could not be shown") {
            true => Err(errors),
            false => Ok(messages(output.path())),
        }
    }
}

/// The messages in a file that `trace --format json` wrote, without connections. Their stages add
/// up.
pub fn messages(path: &Path) -> Vec<Value> {
    let mut messages = lines(path);
    messages.retain(|line| !is_connection(line));
    messages.iter().for_each(assert_adds_up);
    messages
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn is_connection(line: &Value) -> bool {
    line["direction"] == "conn"
}

/// The object in a file that `stat --format json` wrote.
pub fn report(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A valid message's stages add up to its total, and its total is the time between its outermost
/// stamps.
pub fn assert_adds_up(message: &Value) {
    if message["verdict"] != "valid" {
        return;
    }
    let stages = message["stages"].as_object().unwrap();
    // The stage lies before the message.
    let own = stages
        .iter()
        .filter(|(stage, _)| !stage.parse::<Stage>().unwrap().is_between_messages());
    let sum: u64 = own.map(|(_, value)| number(value)).sum();
    let stamps = &message["stamps"];
    let (first, last) = match (message["direction"].as_str(), message["protocol"].as_str()) {
        (Some("tx"), Some("tcp")) => (&stamps["entry"], &stamps["ack"]),
        // Connected sends have no stamp of their entry.
        (Some("tx"), _) if stamps["entry"].is_null() => {
            (&stamps["sched_last"], &stamps["snd_last"])
        }
        (Some("tx"), _) => (&stamps["entry"], &stamps["snd_last"]),
        _ => (&stamps["rx_software"], &stamps["read"]),
    };
    for total in [number(&message["total_ns"]), number(last) - number(first)] {
        assert!(
            sum.abs_diff(total) <= TOLERANCE_NS,
            "{sum} ns in stages: {message}"
        );
    }
    assert_parts_add_up(message);
}

/// The parts of each stage add up to it.
fn assert_parts_add_up(message: &Value) {
    let Some(parts) = message["parts"].as_object() else {
        return;
    };
    for (stage, parts) in parts {
        let sum: u64 = parts.as_object().unwrap().values().map(number).sum();
        assert_eq!(sum, number(&message["stages"][stage]), "{stage}: {message}");
    }
}

/// The output of `sockstamp stat -- COMMAND`.
#[derive(Debug)]
pub struct Measured {
    /// The exit status.
    pub status: ExitStatus,
    /// The command's standard output.
    pub stdout: String,
    /// The standard error of the command and of sockstamp.
    pub stderr: String,
    /// The report.
    pub report: Value,
}

/// Run a command in a host under `sockstamp stat` to its end.
pub fn stat_command(host: &Host, words: &[&str]) -> Measured {
    let output = NamedTempFile::new().unwrap();
    let mut command = host.command(sockstamp());
    command
        .args([
            "stat",
            "--every",
            "--max-cost=none",
            "--format",
            "json",
            "-o",
        ])
        .arg(output.path())
        .args(hooks());
    command.arg("--").args(words);
    let mut process = Process::spawn(command).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    Measured {
        status,
        stdout: process.stdout(),
        stderr: process.stderr(),
        report: report(output.path()),
    }
}

/// A number in JSON.
pub fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// A figure of a stage in a report: `p50_ns`, `count`, ...
pub fn stage(report: &Value, stage: &str, figure: &str) -> u64 {
    let value = &report[direction_of(stage)]["stages"][stage][figure];
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no {figure} of {stage} in {report}"))
}

/// Return the key of the direction under which a report has a stage.
pub fn direction_of(stage: &str) -> &'static str {
    stage.parse::<Stage>().unwrap().direction().name()
}

/// The exact median of a stage: the value of the rank that a report's p50 has.
pub fn median(messages: &[&Value], stage: &str) -> u64 {
    let mut times: Vec<u64> = messages
        .iter()
        .map(|message| number(&message["stages"][stage]))
        .collect();
    times.sort_unstable();
    times[(times.len() - 1) / 2]
}

/// Shorten a report for the message of a failed test.
pub fn in_short(report: &Value) -> String {
    let mut text = format!("verdicts {} lost {}", report["verdicts"], report["lost"]);
    for direction in ["tx", "rx"] {
        let part = &report[direction];
        text += &format!(
            "; {direction}: {} messages, {} bytes, {} retransmits",
            part["messages"], part["bytes"], part["retransmits"]
        );
        for (name, figures) in part["stages"].as_object().unwrap() {
            text += &format!(
                ", {name} p50 {} p90 {} max {}",
                figures["p50_ns"], figures["p90_ns"], figures["max_ns"]
            );
        }
        for (name, parts) in part["parts"].as_object().into_iter().flatten() {
            for (cause, figures) in parts.as_object().unwrap() {
                text += &format!(
                    ", {name}/{cause} {} ns of {}",
                    figures["sum_ns"], figures["count"]
                );
            }
        }
    }
    text
}

/// The part of `messages` that was sent ("tx") or received ("rx").
pub fn of_direction<'a>(messages: &'a [Value], direction: &str) -> Vec<&'a Value> {
    messages
        .iter()
        .filter(|message| message["direction"] == direction)
        .collect()
}

/// Print why a test, or a part of it, cannot run here. Not by `eprintln!`, which the test harness
/// captures.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIP {test}: {reason}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

#[derive(Debug)]
struct Background {
    process: Process,
    output: NamedTempFile,
}

impl Background {
    fn start(subcommand: &[&str], target: &[&str]) -> Result<Background, String> {
        let mut loading = Background::spawn(subcommand, target);
        try_wait_attached(&mut loading.process)?;
        Ok(loading)
    }

    fn start_in<const N: usize>(
        subcommand: &str,
        hosts: [&Host; N],
        filter: &[&str],
    ) -> [Background; N] {
        let mut loading = hosts.map(|host| {
            let target = [&["--netns", host.netns_name()], filter].concat();
            Background::spawn(&measuring(subcommand, "--every"), &target)
        });
        for one in &mut loading {
            wait_attached(&mut one.process);
        }
        loading
    }

    /// Return at once: it measures later.
    fn spawn(subcommand: &[&str], target: &[&str]) -> Background {
        let output = NamedTempFile::new().unwrap();
        let mut command = Command::new(sockstamp());
        command
            .args(subcommand)
            .args(["--format", "json", "-o"])
            .arg(output.path())
            .args(hooks());
        command.args(target);
        let process = Process::spawn(command).unwrap();
        Background { process, output }
    }

    /// The output, and the text on standard error.
    fn finish(mut self) -> (NamedTempFile, String) {
        self.process.signal(Signal::SIGINT).unwrap();
        let status = self.process.wait_status(PATIENCE).unwrap();
        let errors = self.process.stderr();
        assert!(status.success(), "{status}: {errors}");
        (self.output, errors)
    }
}

/// Wait until the sockstamp in `process` measures.
pub fn wait_attached(process: &mut Process) {
    try_wait_attached(process).unwrap();
}

/// Do the same as [`wait_attached`]; if sockstamp ends, return its error output.
fn try_wait_attached(process: &mut Process) -> Result<(), String> {
    let start = Instant::now();
    while !(is_attached(process.id()) && is_lowered(process.id())) {
        if !process.is_running().unwrap() {
            process.wait_status(PATIENCE).unwrap();
            return Err(process.stderr());
        }
        assert!(start.elapsed() < PATIENCE, "not attached in time");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Its capabilities are out of effect once it measures, existing connections adopted:
/// proc_pid_status(5). Where it never had one, there is no telling.
pub fn is_lowered(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & NET_ADMIN == 0)
}

/// include/uapi/linux/capability.h
const NET_ADMIN: u64 = 1 << 12;

/// The program that selects TCP flows is attached last: proc(5), `/proc/pid/fdinfo`, of a bpf_link
/// (`bpf_cgroup_link_show_fdinfo()`, kernel/bpf/cgroup.c).
fn is_attached(pid: u32) -> bool {
    /// `BPF_CGROUP_SOCK_OPS` of include/uapi/linux/bpf.h.
    const SOCK_OPS: &str = "3";
    let directory = PathBuf::from(format!("/proc/{pid}/fdinfo"));
    let Ok(entries) = fs::read_dir(directory) else {
        return false;
    };
    entries.flatten().any(|entry| {
        // A descriptor may be closed while its directory is read.
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        text.lines()
            .any(|line| line.split_whitespace().eq(["attach_type:", SOCK_OPS]))
    })
}
