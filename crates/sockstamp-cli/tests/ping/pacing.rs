//! Pacing at normal priority: what the command adds to the stalls of the machine.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use sockstamp_model::clock::Nanos;
use testbed::{BareLoop, Family, Host, PATIENCE, Process, within_attempts};
use with::capture::Capture;
use with::number;

use crate::run::{Json, delayed_hosts, json, ping};

const TARGETS: u16 = 1_000;
const INTERVAL: Duration = Duration::from_millis(100);
const RUN: Duration = Duration::from_secs(3);
/// Due and at work as often and as long as the prober: ten probes per second of each target.
const BARE_LOOP: BareLoop = BareLoop {
    gap: Duration::from_micros(100),
    work: Duration::from_micros(35),
    latest: INTERVAL,
};

/// The options, and a thousand addresses.
fn arguments(count: &str) -> Vec<String> {
    let options = ["-q", "-i", "100ms", "-c", count].map(str::to_owned);
    let addresses = (1..=TARGETS).map(|number| {
        let [high, low] = number.to_be_bytes();
        format!("127.1.{high}.{low}")
    });
    options.into_iter().chain(addresses).collect()
}

/// Return how often the first thread of a process has waited for something: proc_pid_status(5).
/// `None` when the process has ended.
fn waits(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let state = field("State:")?.trim();
    let waits = field("voluntary_ctxt_switches:")?.trim().parse().unwrap();
    (!state.starts_with('Z')).then_some(waits)
}

/// A wake-up for each event would take the CPU from the thread that probes.
#[test]
fn the_thread_that_reads_events_wakes_rarely() {
    let host = Host::new("pacing").unwrap();
    let arguments = arguments("20");
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    within_attempts(|| {
        let begun = Instant::now();
        let mut process = Process::spawn(ping(&host, &arguments)).unwrap();
        let mut most = 0;
        while let Some(waits) = waits(process.id()) {
            most = waits;
            thread::sleep(Duration::from_millis(20));
        }
        let ran = begun.elapsed();
        let status = process.wait_status(PATIENCE).unwrap();
        println!("{most} waits in {ran:?}, with 20,000 probes");
        // An answer that comes after its time is the machine's.
        if !status.success() {
            return Err(format!("{status}: {}", process.stdout()));
        }
        match u128::from(most) <= 200 + ran.as_millis() / 8 {
            true => Ok(()),
            false => Err(format!("{most} waits in {ran:?}")),
        }
    });
}

#[test]
fn a_thousand_targets_are_paced_as_well_as_the_machine_allows() {
    let host = Host::new("pacing").unwrap();
    let count = (RUN.as_millis() / INTERVAL.as_millis()).to_string();
    let arguments = arguments(&count);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    within_attempts(|| {
        let before = BARE_LOOP.p99_of_stalls(RUN);
        let run = json(ping(&host, &arguments));
        let machine = before.max(BARE_LOOP.p99_of_stalls(RUN));
        let ours = Nanos(number(&run.summary["lateness"]["p99_ns"]));
        println!("p99 of the pacing error {ours}, of a bare loop {machine:?}");
        match ours <= Nanos::from_millis(1).max((2 * machine).into()) {
            true => Ok(()),
            false => Err(format!("pacing error {ours}, of a bare loop {machine:?}")),
        }
    });
}

/// The round trips of hosts by their addresses, in nanoseconds.
type RoundTrips = HashMap<IpAddr, Vec<u64>>;

fn by_us(run: &Json) -> RoundTrips {
    let mut times = RoundTrips::new();
    for probe in &run.probes {
        let address = probe["target"].as_str().unwrap().parse().unwrap();
        let of_host = times.entry(address).or_default();
        of_host.push(number(&probe["rtt_ns"]));
    }
    times
}

/// A request and its reply follow each other, since the next request comes a second later.
fn by_tcpdump(capture: Capture, prober: IpAddr) -> RoundTrips {
    let (mut requests, mut times) = (HashMap::new(), RoundTrips::new());
    for packet in capture.finish() {
        let (from, to) = (packet.source.ip(), packet.destination.ip());
        if from == prober {
            requests.insert(to, packet.time);
        } else if let Some(sent) = requests.remove(&from) {
            times.entry(from).or_default().push(packet.time - sent);
        }
    }
    times
}

fn median(times: &[u64]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// tcpdump's stamp of a request is earlier by the time in which it copies the packet: less than a
/// microsecond.
#[test]
fn ten_thousand_hosts_have_the_round_trips_that_tcpdump_sees() {
    const HOSTS: usize = 10_000;
    const PROBES: usize = 5;
    let (prober, target, link) = delayed_hosts(Duration::from_millis(10));
    let [ours, theirs] = [link.address_a(Family::V4), link.address_b(Family::V4)];
    let local = ["route", "add", "local", "10.68.0.0/16", "dev", "lo"];
    target.run("ip", &local).unwrap();
    let route = ["route", "add", "10.68.0.0/16", "via", &theirs.to_string()];
    prober.run("ip", &route).unwrap();
    let arguments = [
        "-i",
        "1",
        "-W",
        "10",
        "-c",
        &PROBES.to_string(),
        "10.68.0.1-10.68.39.16",
    ];
    within_attempts(|| {
        let capture = Capture::start(&prober, link.interface_a(), "icmp");
        let run = json(ping(&prober, &arguments));
        let seen = by_tcpdump(capture, ours);
        let (sent, answered) = (run.count("sent"), run.count("answered"));
        let dropped = run.counter("receive_drops");
        let all = (HOSTS * PROBES) as u64;
        assert_eq!(
            [sent, answered + run.count("lost")],
            [all; 2],
            "{}",
            run.summary
        );
        // Answers that came while the prober did not run for half a second and more.
        assert_eq!(run.count("lost"), dropped, "{}", run.summary);
        if dropped > 0 {
            return Err(format!("the prober did not run for long: {}", run.summary));
        }
        let times = by_us(&run);
        assert_eq!((times.len(), seen.len()), (HOSTS, HOSTS));
        let medians = times
            .iter()
            .map(|(host, times)| (median(times), median(&seen[host])));
        let is_off = |(ours, theirs): &(u64, u64)| ours.abs_diff(*theirs) > theirs / 50;
        match medians.filter(is_off).collect::<Vec<_>>() {
            off if off.is_empty() => Ok(()),
            off => Err(format!("{} hosts, such as {:?}", off.len(), off[0])),
        }
    });
}
