//! Count with the command `sockstamp` next to the traffic: everything that runs on the machine
//! counts, including its own process and the kernel's work for it.
//!
//! The rows `command.…` are instructions per message, and messages lost per message. The rows
//! `idle.…` are instructions of the process per second without traffic, and its wakings per second.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::traffic::{Kind, SMALL, Traffic};

/// Enough to fill the ring buffer twice, for work that is done in batches.
const WARM_UP: u64 = 20_000;
const MESSAGES: u64 = 60_000;
/// The rate of the sampler has settled by then.
const BEGIN: Duration = Duration::from_secs(3);
/// Time that an idle one is watched for.
const IDLE: Duration = Duration::from_secs(60);

const BESIDE_TRAFFIC: [(&str, &[&str]); 5] = [
    ("command.stat", &["stat"]),
    ("command.stat-p", &["stat", "-p", "1"]),
    (
        "command.stat-every",
        &["stat", "--every", "--max-cost=none"],
    ),
    (
        "command.trace-every",
        &["trace", "--every", "--max-cost=none"],
    ),
    ("command.pcap", &["pcap", "-i", "lo", "-w", "/dev/null"]),
];
const IDLE_ONES: [(&str, &[&str]); 3] = [
    ("idle.stat", &["stat"]),
    ("idle.trace", &["trace"]),
    ("idle.agent", &["agent"]),
];

/// Print a line per row.
pub(crate) fn report_all(sockstamp: &Path) {
    for (name, words) in BESIDE_TRAFFIC {
        let (instructions, lost) = count(sockstamp, words);
        println!("{name:<34} {instructions:>7} {lost:>8.3}");
    }
    for (name, words) in IDLE_ONES {
        let (instructions, wakings) = idle(sockstamp, words);
        println!("{name:<34} {instructions:>7} {wakings:>8.3}");
    }
}

fn count(sockstamp: &Path, words: &[&str]) -> (u128, f64) {
    let running = Running::start(sockstamp, words);
    let instructions = count_traffic();
    let lost = lost(&running.stop());
    (instructions, lost as f64 / MESSAGES as f64)
}

/// Return the instructions per message of all that runs on the machine.
fn count_traffic() -> u128 {
    let mut traffic = Traffic::new(Kind::Tcp(SMALL));
    let begun = Instant::now();
    while begun.elapsed() < BEGIN {
        traffic.pass(WARM_UP / 100);
    }
    let begun = Instant::now();
    traffic.pass(MESSAGES);
    begun.elapsed().as_nanos() / u128::from(MESSAGES)
}

/// Print the count without another tool, and that beside one, which is killed at the end.
pub(crate) fn report_beside(words: &[String]) {
    println!("{:<34} {:>7}", "beside.nothing", count_traffic());
    let (program, arguments) = words.split_first().expect("a command");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut tool = command.spawn().expect("the command");
    sleep(BEGIN);
    let instructions = count_traffic();
    let ended = tool.try_wait().expect("a child");
    assert!(
        ended.is_none(),
        "it has ended before the traffic: {ended:?}"
    );
    println!(
        "{:<34} {instructions:>7}",
        format!("beside.{}", words.join(" "))
    );
    tool.kill().expect("kill");
    tool.wait().expect("an end");
}

/// Return the number that a complaint of `trace` or `pcap` begins with.
fn lost(errors: &str) -> u64 {
    let complaint = errors.lines().find(|line| line.contains("could not be"));
    let numbers = complaint
        .into_iter()
        .flat_map(|line| line.split(|letter: char| !letter.is_ascii_digit()));
    numbers
        .filter_map(|word| word.parse::<u64>().ok())
        .next()
        .unwrap_or(0)
}

fn idle(sockstamp: &Path, words: &[&str]) -> (u64, f64) {
    let running = Running::start(sockstamp, words);
    sleep(BEGIN);
    let before = running.used();
    sleep(IDLE);
    let after = running.used();
    running.stop();
    let seconds = IDLE.as_secs();
    (
        (after.0 - before.0) / seconds,
        (after.1 - before.1) as f64 / seconds as f64,
    )
}

/// The command, while it measures.
struct Running(Child);

impl Running {
    fn start(sockstamp: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(sockstamp);
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let running = Self(command.spawn().expect("sockstamp"));
        while !running.measures() {
            sleep(Duration::from_millis(50));
        }
        running
    }

    /// Its capabilities are out of effect once it measures: proc_pid_status(5).
    fn measures(&self) -> bool {
        /// include/uapi/linux/capability.h
        const NET_ADMIN: u64 = 1 << 12;
        let effective = number(&self.file("status"), "CapEff:", 16);
        assert!(effective.is_some(), "sockstamp has ended");
        effective.is_some_and(|mask| mask & NET_ADMIN == 0)
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap_or_default()
    }

    /// Return the instructions that its threads have run, and how often they have waited.
    fn used(&self) -> (u64, u64) {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("it runs");
        let mut used = (0, 0);
        for task in tasks {
            let task = task.expect("a task").path();
            let read = |name| fs::read_to_string(task.join(name)).unwrap_or_default();
            // Documentation/scheduler/sched-stats.rst: nanoseconds on a CPU come first.
            let ran = read("schedstat");
            used.0 += ran
                .split(' ')
                .next()
                .and_then(|ran| ran.parse::<u64>().ok())
                .unwrap_or(0);
            used.1 += number(&read("status"), "voluntary_ctxt_switches:", 10).unwrap_or(0);
        }
        used
    }

    /// End it, and return its complaints.
    fn stop(mut self) -> String {
        let kill = Command::new("kill")
            .arg("-INT")
            .arg(self.0.id().to_string())
            .status();
        assert!(kill.expect("kill").success());
        let mut errors = String::new();
        let pipe = self.0.stderr.as_mut().expect("a pipe");
        pipe.read_to_string(&mut errors).expect("complaints");
        let status = self.0.wait().expect("an end");
        assert!(status.success(), "{status}: {errors}");
        errors
    }
}

fn number(text: &str, key: &str, base: u32) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    u64::from_str_radix(line.trim(), base).ok()
}
