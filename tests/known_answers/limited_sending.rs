//! Limit TCP's sending in one way: the time in the write queue has the limit's name.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use testbed::{Family, LinkConfig, Process, TcpInfo, within_attempts};
use with::expected::{explains, nine_tenths};
use with::pair::Pair;
use with::traced_hosts::wait_acknowledged;
use with::{Stat, in_short, number};

/// Requests of the testbed's client: more than each limit lets through per round trip.
const REQUESTS: &str = "client --count 10 --request 100000";
/// Never what stops it: many segments.
const WIDE: &str = "initcwnd 1000";
const LARGE_BUFFER: &str = "4096 4194304 4194304";

/// A round trip of 10 ms. Buffers of both hosts and the window hold a whole request.
fn long_link(family: Family) -> Pair {
    let pair = Pair::relay(
        LinkConfig::default().delay(Duration::from_millis(5)),
        family,
    );
    for host in [&pair.client, &pair.server] {
        host.set_sysctl("net.ipv4.tcp_wmem", LARGE_BUFFER).unwrap();
        host.set_sysctl("net.ipv4.tcp_rmem", LARGE_BUFFER).unwrap();
    }
    pair.route(WIDE);
    pair
}

fn redis(pair: &Pair) -> Process {
    pair.serve_with(&[
        "redis-server",
        "--port",
        "7000",
        "--protected-mode",
        "no",
        "--save",
        "",
    ])
}

/// `redis-benchmark` sets values one after the other.
fn set_values(pair: &Pair, count: &str, bytes: &str) -> Value {
    let host = pair.address.ip().to_string();
    let values = ["-c", "1", "-n", count, "-d", bytes, "-t", "set", "--csv"];
    pair.stat_client(
        &[],
        &[&["redis-benchmark", "-h", &host, "-p", "7000"], &values[..]].concat(),
    )
}

#[test]
fn waits_for_the_congestion_window_are_in_cwnd() {
    let pair = long_link(Family::V4);
    let _redis = redis(&pair);
    within_attempts(|| {
        pair.route(WIDE);
        let undisturbed = set_values(&pair, "3", "1000000");
        // 10 segments at first, RFC 6928; Linux doubles them each round trip.
        pair.route("");
        explains(
            &["tx.queue/cwnd"],
            &set_values(&pair, "3", "1000000"),
            &undisturbed,
        )
    });
}

/// Messages that wait for earlier ones have the same cause of waiting.
#[test]
fn queued_messages_that_wait_for_the_congestion_window_are_in_cwnd() {
    const SENDS: &str = "blast --sends 25 --size 40000";
    let pair = long_link(Family::V6);
    let _sink = pair.serve(&["sink"]);
    within_attempts(|| {
        pair.route(WIDE);
        let undisturbed = pair.stat_peer(SENDS);
        pair.route("");
        explains(&["tx.queue/cwnd"], &pair.stat_peer(SENDS), &undisturbed)
    });
}

#[test]
fn waits_for_the_receive_window_are_in_rwnd() {
    let pair = long_link(Family::V6);
    within_attempts(|| {
        pair.server
            .set_sysctl("net.ipv4.tcp_rmem", LARGE_BUFFER)
            .unwrap();
        let undisturbed = {
            let _redis = redis(&pair);
            set_values(&pair, "10", "100000")
        };
        // Listening sockets hand the size of their buffer on.
        pair.server
            .set_sysctl("net.ipv4.tcp_rmem", "4096 16384 16384")
            .unwrap();
        let _redis = redis(&pair);
        explains(
            &["tx.queue/rwnd"],
            &set_values(&pair, "10", "100000"),
            &undisturbed,
        )
    });
}

/// A reader takes 500 bytes at a time from a buffer of 2 kB. TCP_INFO counts the wait for its
/// window, in jiffies, until the last message has left.
#[test]
fn waits_for_the_tiny_window_of_a_slow_reader_are_in_rwnd_as_tcp_info_counts_them() {
    let pair = Pair::veth(Family::V4);
    within_attempts(|| {
        let listener = pair.server.tcp_listen(pair.address).unwrap();
        SockRef::from(&listener).set_recv_buffer_size(1024).unwrap();
        let stat = Stat::start(&["--netns", pair.client.netns_name()]);
        let mut client = pair.client.tcp_connect(pair.address).unwrap();
        SockRef::from(&client)
            .set_send_buffer_size(100_000)
            .unwrap();
        let (mut server, _) = listener.accept().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                while server.read(&mut [0; 500]).unwrap() > 0 {
                    thread::sleep(Duration::from_millis(5));
                }
            });
            for _ in 0..10 {
                client.write_all(&[0; 4000]).unwrap();
            }
            client.shutdown(Shutdown::Write).unwrap();
        });
        // The last ACK may be late: RFC 9293, section 3.8.6.3.
        wait_acknowledged(&client);
        let counted = TcpInfo::of(&client).unwrap().rwnd_limited * 1000;
        let report = stat.finish();
        println!("{counted} ns are counted, {}", in_short(&report));
        let rwnd = &report["tx"]["parts"]["tx.queue"]["rwnd"];
        let queue = number(&report["tx"]["stages"]["tx.queue"]["sum_ns"]);
        nine_tenths("tx.queue/rwnd", number(&rwnd["sum_ns"]), queue)?;
        let longest = number(&rwnd["max_ns"]);
        match longest.abs_diff(counted) <= counted / 10 && counted > 300_000_000 {
            true => Ok(()),
            false => Err(format!(
                "rwnd is up to {longest} ns, TCP_INFO counts {counted}"
            )),
        }
    });
}

#[test]
fn waits_for_the_pacing_rate_are_in_pacing() {
    let pair = long_link(Family::V6);
    let _serve = pair.serve(&["serve", "--request", "100000"]);
    within_attempts(|| {
        let undisturbed = pair.stat_peer(REQUESTS);
        let built = pair.stat_peer(&format!("{REQUESTS} --pacing 2000000"));
        explains(&["tx.queue/pacing"], &built, &undisturbed)
    });
}

/// A token bucket of 20 Mbit/s, to which TCP hands 4 kB at a time: the rest waits in TCP.
#[test]
fn waits_for_small_queues_are_in_tsq() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve", "--request", "100000"]);
    let (client, device) = (&pair.client, pair.link.interface_a());
    client
        .set_sysctl("net.ipv4.tcp_wmem", LARGE_BUFFER)
        .unwrap();
    pair.server
        .set_sysctl("net.ipv4.tcp_rmem", LARGE_BUFFER)
        .unwrap();
    client
        .set_sysctl("net.ipv4.tcp_limit_output_bytes", "4096")
        .unwrap();
    pair.route(WIDE);
    // Packets as on a line, not of 64 kB.
    client
        .run("ip", &["link", "set", device, "gso_max_segs", "1"])
        .unwrap();
    within_attempts(|| {
        let undisturbed = pair.stat_peer(REQUESTS);
        let tbf = [
            "root", "tbf", "rate", "20mbit", "burst", "4kb", "limit", "1mb",
        ];
        client
            .run("tc", &[&["qdisc", "add", "dev", device], &tbf[..]].concat())
            .unwrap();
        let built = pair.stat_peer(REQUESTS);
        client
            .run("tc", &["qdisc", "delete", "dev", device, "root"])
            .unwrap();
        explains(&["tx.queue/tsq"], &built, &undisturbed)
    });
}

/// The send buffer holds a part of a request: the rest waits inside the send call.
#[test]
fn waits_for_the_send_buffer_are_in_sndbuf() {
    let pair = long_link(Family::V4);
    let _serve = pair.serve(&["serve", "--request", "100000"]);
    within_attempts(|| {
        pair.client
            .set_sysctl("net.ipv4.tcp_wmem", LARGE_BUFFER)
            .unwrap();
        let undisturbed = pair.stat_peer(REQUESTS);
        pair.client
            .set_sysctl("net.ipv4.tcp_wmem", "4096 16384 16384")
            .unwrap();
        explains(&["tx.copy/sndbuf"], &pair.stat_peer(REQUESTS), &undisturbed)
    });
}
