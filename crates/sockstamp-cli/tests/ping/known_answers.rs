//! Networks with an exactly configured relay, and a prober that gets hardly any processor.

use std::process::Command;
use std::time::Duration;

use testbed::{Cgroup, Direction, Family, Host, Link, LinkConfig, Process, within_attempts};
use with::number;

use crate::run::{Json, delayed_hosts, json, json_in, ping};

const DELAY: Duration = Duration::from_millis(10);
const QUOTA: Duration = Duration::from_millis(10);
const PERIOD: Duration = Duration::from_millis(100);
const HOGS: usize = 4;

fn p99(run: &Json, view: &str) -> u64 {
    number(&run.summary[view]["p99_ns"])
}

/// Time that user space adds when it may hardly run is not the network's. For nine tenths of each
/// period it may not run at all, and the prober's own clock is off by as much.
#[test]
fn a_quota_and_busy_loops_do_not_change_round_trips() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    let address = link.address_b(Family::V4).to_string();
    // At any time of the quota's period.
    let arguments = ["-q", "-i", "7ms", "-w", "6s", &address];
    within_attempts(|| {
        let idle = json(ping(&prober, &arguments));
        let mut quota = Cgroup::new("quota").unwrap();
        quota.set_cpu_quota(QUOTA, PERIOD).unwrap();
        let _hogs: Vec<_> = (0..HOGS).map(|_| busy_loop(&quota)).collect();
        let throttled = json_in(&quota, ping(&prober, &arguments));
        for run in [&idle, &throttled] {
            assert_eq!(run.status, 0, "{}", run.summary);
            // The relay loses none: one that is lost was answered after it had been given up.
            if run.count("lost") > 0 {
                return Err(format!("answers were late: {}", run.summary));
            }
        }
        let (ours, theirs) = (p99(&throttled, "rtt"), p99(&throttled, "user_rtt"));
        println!(
            "p99: idle {} and {} µs, throttled {} and {} µs, of {} and {} probes",
            p99(&idle, "rtt") / 1000,
            p99(&idle, "user_rtt") / 1000,
            ours / 1000,
            theirs / 1000,
            idle.count("answered"),
            throttled.count("answered")
        );
        if ours * 5 > p99(&idle, "rtt") * 6 {
            return Err(format!("{ours} ns, idle {} ns", p99(&idle, "rtt")));
        }
        if theirs < ours * 4 {
            return Err(format!(
                "user space was not held up: {theirs} ns, ours {ours}"
            ));
        }
        Ok(())
    });
}

/// Nine datagrams per burst wait in the token bucket's queue, 12 ms each, and the probe among them.
/// The target's clock and the driver's know nothing of it, and the prober has not caused it.
#[test]
fn a_wait_in_this_hosts_packet_scheduler_is_neither_the_networks_nor_the_probers() {
    let (prober, target) = (Host::new("prober").unwrap(), Host::new("target").unwrap());
    let link = Link::veth(&prober, &target).unwrap();
    let address = link.address_b(Family::V4).to_string();
    let device = link.interface_a();
    let tbf = "tbf rate 1mbit burst 3kb limit 50kb";
    let run = prober
        .command("tc")
        .args(["qdisc", "replace", "dev", device, "root"])
        .args(tbf.split(' '))
        .status();
    assert!(run.unwrap().success());
    let mut flood = prober.command("python3");
    flood.args(["-c", BURSTS, &address]);
    let _flood = Process::spawn(flood).unwrap();
    within_attempts(|| {
        let run = json(ping(
            &prober,
            &["-i", "37ms", "-w", "4s", "-W", "2s", &address],
        ));
        let answered = run.probes.iter().filter(|probe| probe["error"].is_null());
        let waited: Vec<_> = answered
            .filter(|probe| number(&probe["stages"]["tx.qdisc"]) > 20_000_000)
            .collect();
        let median = |name: &str| {
            let mut times: Vec<_> = waited.iter().map(|probe| number(&probe[name])).collect();
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        };
        let (network, ours) = (median("rtt_ns"), median("prober_delay_ns"));
        println!("{} of {} probes waited", waited.len(), run.probes.len());
        match waited.len() {
            10.. if network < 2_000_000 && ours < 5_000_000 => Ok(()),
            count => Err(format!(
                "{count} waited; network {network} ns, prober {ours} ns"
            )),
        }
    });
}

/// Nine datagrams of 1.5 kB every 200 ms, to a port where nothing listens.
const BURSTS: &str = "
import socket, sys, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for _ in range(9):
        sender.sendto(b'x' * 1450, (sys.argv[1], 9))
    time.sleep(.2)
";

fn busy_loop(cgroup: &Cgroup) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    cgroup.start_in(&mut command).unwrap();
    Process::spawn(command).unwrap()
}

/// Exactly what the relay lost, which is within four standard deviations of the configured loss.
#[test]
fn lost_probes_are_counted() {
    const PROBES: u64 = 2000;
    let (prober, _target, link) = delayed_hosts(Duration::ZERO);
    let address = link.address_b(Family::V4).to_string();
    link.set_direction(Direction::AToB, LinkConfig::default().loss(0.2))
        .unwrap();
    let before = link.statistics();
    let run = json(ping(
        &prober,
        &["-q", "-c", &PROBES.to_string(), "-i", "1ms", &address],
    ));
    let lost = run.count("lost");
    assert_eq!(lost, link.statistics().since(&before).a_to_b.lost);
    assert_eq!(lost + run.count("answered"), PROBES);
    let (expected, deviation) = (PROBES / 5, (PROBES as f64 * 0.2 * 0.8).sqrt());
    assert!(
        (lost.abs_diff(expected) as f64) < 4.0 * deviation,
        "{lost} of {PROBES}"
    );
}

#[test]
fn duplicates_and_reordering_are_counted_exactly() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    let address = link.address_b(Family::V4).to_string();
    let probe = |config: LinkConfig| {
        link.set_direction(Direction::BToA, config.delay(DELAY / 2))
            .unwrap();
        let before = link.statistics();
        let run = json(ping(&prober, &["-c", "500", "-i", "2ms", &address]));
        assert_eq!(
            (run.status, run.count("answered")),
            (0, 500),
            "{}",
            run.summary
        );
        (run, link.statistics().since(&before).b_to_a)
    };
    let (run, relay) = probe(LinkConfig::default().duplicate(0.1));
    assert!(relay.duplicated > 20, "{relay:?}");
    assert_eq!(
        (run.count("duplicates"), run.count("reordered")),
        (relay.duplicated, 0)
    );
    assert_eq!(run.counter("duplicate"), relay.duplicated);
    let events = run
        .events
        .iter()
        .filter(|event| event["event"] == "duplicate")
        .count();
    assert_eq!(events as u64, relay.duplicated);

    let hold = Duration::from_millis(15);
    let (run, relay) = probe(LinkConfig::default().reorder(0.1).reorder_hold(hold));
    assert!(relay.reordered > 20, "{relay:?}");
    assert_eq!(
        (run.count("reordered"), run.count("duplicates")),
        (relay.reordered, 0)
    );
    let marked = run
        .probes
        .iter()
        .filter(|probe| probe["reordered"] == true)
        .count();
    assert_eq!(marked as u64, relay.reordered);
}
