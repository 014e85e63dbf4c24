//! The points of netstacklat: programs of our own on the same functions and `stat --cumulative`
//! give the same times for the same messages.

use std::net::SocketAddr;

use serde_json::Value;
use sockstamp_bpf::probe;
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::NetnsInode;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE};
use testbed_bpf::points::Points;
use with::{Stat, in_short, number, peer, plan, skip, stage};

const REQUESTS: u64 = 100;
/// Between two programs on functions that follow each other.
const APART_NS: u64 = 5_000;

#[test]
fn cumulative_times_of_tcp_over_ipv4_equal_netstacklats() {
    check("tcp", Family::V4);
}

#[test]
fn cumulative_times_of_tcp_over_ipv6_equal_netstacklats() {
    check("tcp", Family::V6);
}

#[test]
fn cumulative_times_of_udp_over_ipv4_equal_netstacklats() {
    check("udp", Family::V4);
}

#[test]
fn cumulative_times_of_udp_over_ipv6_equal_netstacklats() {
    check("udp", Family::V6);
}

fn check(protocol: &str, family: Family) {
    let test = format!("netstacklat::of_{protocol}_over_ip{family:?}").to_lowercase();
    if !probe::functions_can_be_traced() {
        skip(&test, "fentry refused");
        return;
    }
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    // On a veth packets are stamped late: after the first of the points.
    let link = Link::relay(&client, &server, LinkConfig::default()).unwrap();
    let address = SocketAddr::new(link.address_b(family), 7000);
    let words = ["serve", "--protocol", protocol, "--port", "7000"];
    let mut serve = server.spawn(peer(), &words).unwrap();
    serve.wait_for_stdout("listening", PATIENCE).unwrap();

    let stat = Stat::start(&[
        "--cumulative",
        "--expert=attach=all",
        "--netns",
        server.netns_name(),
    ]);
    let points = Points::attach(NetnsInode(server.netns_inode().try_into().unwrap())).unwrap();
    let (address, count) = (address.to_string(), REQUESTS.to_string());
    let words = [
        "client",
        "--protocol",
        protocol,
        "--connect",
        &address,
        "--count",
        &count,
    ];
    client.run(peer(), &words).unwrap();
    let report = stat.finish();
    let times = points.times();
    println!("{}; {}", in_short(&report), report["cumulative"]);
    for (point, times) in times.iter().filter(|(_, times)| !times.is_empty()) {
        println!("{point}: {} times, median {}", times.len(), median(times));
    }

    let socket = |point: &str| format!("{protocol}-socket-{point}");
    if let Value::String(reason) = &report["cumulative"]["absent"][socket("read")] {
        skip(&test, reason);
        return;
    }
    adds_up(&report, &socket("enqueued"), &socket("read"));
    let ours = |point: &str| {
        let hook = &report["cumulative"]["hooks"][socket(point)];
        assert_eq!(number(&hook["count"]), REQUESTS, "{point}: {report}");
        number(&hook["p50_ns"])
    };
    let theirs = |point: String| &times[point.as_str()];
    let [start, enqueued, read] = [
        format!("{protocol}-start"),
        socket("enqueued"),
        socket("read"),
    ]
    .map(theirs);
    let ready = theirs("tcp-data-ready".to_owned());
    assert!(start.len() as u64 >= REQUESTS, "{start:?}");
    assert_eq!(read.len() as u64, REQUESTS, "{read:?}");
    if plan().reads_call_back() {
        precedes("read", read, ours("read"));
    } else {
        follows("read", read, ours("read"));
    }
    if enqueued.is_empty() {
        skip(&test, "the compiler inlined where packets are queued");
    } else if protocol == "tcp" {
        // A FIN is queued as well.
        assert_eq!(enqueued.len() as u64, REQUESTS + 1, "{enqueued:?}");
        assert_eq!(ready.len() as u64, REQUESTS + 1, "{ready:?}");
        // Between the two TCP works on the ACK that comes with the segment, and may send one of its
        // own (tcp_rcv_established(), net/ipv4/tcp_input.c, v7.2). Only then can the socket be
        // read: that is ours.
        assert!(median(enqueued) <= median(ready), "{enqueued:?} {ready:?}");
        follows("enqueued", ready, ours("enqueued"));
    } else {
        // Theirs is after the wake-up of the reader, ours before it: right after UDP gets the
        // packet.
        assert_eq!(enqueued.len() as u64, REQUESTS, "{enqueued:?}");
        follows("enqueued", start, ours("enqueued"));
        assert!(
            ours("enqueued") <= median(enqueued).0 * 21 / 20,
            "{enqueued:?}; {report}"
        );
    }
}

/// Check that figures under netstacklat's names are sums of stages.
fn adds_up(report: &Value, enqueued: &str, read: &str) {
    let hook = |name: &str| number(&report["cumulative"]["hooks"][name]["sum_ns"]);
    let sum = |name: &&str| stage(report, name, "sum_ns");
    assert_eq!(hook(enqueued), sum(&"rx.stack"), "{report}");
    let present = ["rx.stack", "rx.hol", "rx.wakeup", "rx.app"]
        .into_iter()
        .filter(|name| report["absent"][name].is_null());
    assert_eq!(
        hook(read),
        present.map(|name| sum(&name)).sum::<u64>(),
        "{report}"
    );
}

/// Ours comes soon after theirs: for TCP the rest of the work on the segment lies between, for
/// reads the end of the call, and the programs of both. A quantile of ours is off by at most 4.5 %.
fn follows(place: &str, theirs: &[Nanos], ours: u64) {
    let theirs = median(theirs).0;
    println!("{place}: {theirs} ns at the function, {ours} ns here");
    let latest = (theirs + APART_NS) * 21 / 20;
    assert!(
        (theirs * 19 / 20..=latest).contains(&ours),
        "{place}: {ours} ns, not {theirs} to {latest} ns"
    );
}

/// Ours comes soon before theirs: the callback at the end of a read is made before the socket is
/// unlocked, and before a datagram is freed.
fn precedes(place: &str, theirs: &[Nanos], ours: u64) {
    let theirs = median(theirs).0;
    println!("{place}: {theirs} ns at the function, {ours} ns here");
    let earliest = theirs.saturating_sub(APART_NS) * 19 / 20;
    let latest = theirs * 21 / 20;
    assert!(
        (earliest..=latest).contains(&ours),
        "{place}: {ours} ns, not {earliest} to {latest} ns"
    );
}

fn median(sorted: &[Nanos]) -> Nanos {
    sorted[(sorted.len() - 1) / 2]
}
