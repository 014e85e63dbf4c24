//! A server shares a CPU quota with a program that computes all the time: what its requests wait
//! longer than without that, they wait for a CPU.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use testbed::{Cgroup, Family, Host, Link, PATIENCE, Process, within_attempts};
use with::expected::{ms, within};
use with::{Stat, Trace, in_short, number, of_direction, over_both_families, peer, stage};

over_both_families!(check);

const REQUESTS: u64 = 30;
/// So that requests come at any time of a period, most of them after the hog has used the quota up.
const INTERVAL_MS: &str = "7";
/// The hog uses it up early in each period.
const QUOTA: Duration = Duration::from_millis(10);
const PERIOD: Duration = Duration::from_millis(50);

fn check(family: Family) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    let address = SocketAddr::new(link.address_b(family), 7000);
    let mut quota = Cgroup::new("quota").unwrap();
    quota.set_cpu_quota(QUOTA, PERIOD).unwrap();
    // On one processor, since each keeps some of the quota for later.
    let start = |program: &str, arguments: &[&str]| {
        let mut command = server.command("taskset");
        command.args(["--cpu-list", "0", program]).args(arguments);
        quota.start_in(&mut command).unwrap();
        Process::spawn(command).unwrap()
    };
    // The server polls before it reads: a reader that blocks is in the kernel, which the quota does
    // not hold up (v6.18).
    let _serve = start(&peer(), &["serve", "--port", "7000", "--think", "0"]);
    server.wait_for_port(address, PATIENCE).unwrap();
    within_attempts(|| {
        let undisturbed = measure(&client, &server, address);
        let mut hog = start("sh", &["-c", "while :; do :; done"]);
        let disturbed = measure(&client, &server, address);
        hog.kill().unwrap();
        let more = |time: fn(&Value) -> u64| {
            mean(&disturbed, time).saturating_sub(mean(&undisturbed, time))
        };
        let total = more(|message| number(&message["total_ns"]));
        // A request that comes while the server is busy with the one before has none.
        let wakeup = more(|message| message["stages"]["rx.wakeup"].as_u64().unwrap_or(0));
        within("the excess", total, ms(2)..=ms(90))?;
        within(
            "rx.wakeup's part of it",
            wakeup,
            total * 9 / 10..=total * 11 / 10,
        )
    });
}

/// The reads except the first, which may come before the server has a thread to wait for it.
fn measure(client: &Host, server: &Host, address: SocketAddr) -> Vec<Value> {
    let target = ["--netns", server.netns_name()];
    let (stat, trace) = (Stat::start(&target), Trace::start(&target));
    let (address, count) = (address.to_string(), REQUESTS.to_string());
    client
        .run(
            peer(),
            &[
                "client",
                "--connect",
                &address,
                "--count",
                &count,
                "--interval-ms",
                INTERVAL_MS,
            ],
        )
        .unwrap();
    let report = stat.finish();
    println!("{}", in_short(&report));
    let messages = trace.finish();
    let read: Vec<Value> = of_direction(&messages, "rx")
        .into_iter()
        .skip(1)
        .cloned()
        .collect();
    assert_eq!(read.len() as u64 + 1, REQUESTS, "one read per request");
    let waited = read
        .iter()
        .filter(|message| message["stages"]["rx.wakeup"].is_u64());
    assert!(stage(&report, "rx.wakeup", "count") >= waited.count() as u64);
    read
}

fn mean(messages: &[Value], time: impl Fn(&Value) -> u64) -> u64 {
    messages.iter().map(time).sum::<u64>() / messages.len() as u64
}
