//! Datagrams that wait for a reader for a known time: each read has the time of its own datagram.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sockstamp_bpf::plan::Datagrams;
use testbed::{Family, Host, PATIENCE, within_attempts};
use with::expected::within;
use with::{Stat, Trace, number, of_direction, over_both_families, plan};

over_both_families!(check);

/// More than a socket reads in one go, fewer than are kept.
const DATAGRAMS: usize = 20;
/// Longest time of the kernel from the end of a send to the arrival, on a busy machine.
const SLACK: Duration = Duration::from_millis(2);

fn check(family: Family) {
    let host = Host::new("udp").unwrap();
    let address = match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    // Sockets that exist before the measurement and that do not, connected and unconnected.
    let old = host.udp_bind(SocketAddr::new(address, 0)).unwrap();
    within_attempts(|| {
        let trace = Trace::start(&["--netns", host.netns_name(), "udp"]);
        let sender = host.udp_bind(SocketAddr::new(address, 0)).unwrap();
        let sent = exchange(&sender, &old);
        sender.connect(old.local_addr().unwrap()).unwrap();
        let connected = exchange(&sender, &old);
        let waits = [sent, connected].concat();
        let messages = trace.finish();
        compare(&of_direction(&messages, "rx"), &waits)?;
        sends_are_counted(&of_direction(&messages, "tx"));
        Ok(())
    });
}

/// Send a burst, then read it with a pause before each read. Lengths distinguish the datagrams.
/// Bounds of each one's time in flight, measured from outside.
fn exchange(sender: &UdpSocket, receiver: &UdpSocket) -> Vec<RangeInclusive<Duration>> {
    let to = receiver.local_addr().unwrap();
    let times: Vec<(Instant, Instant)> = (0..DATAGRAMS)
        .map(|n| {
            let begun = Instant::now();
            match sender.peer_addr() {
                Ok(_) => sender.send(&vec![0; n]).unwrap(),
                Err(_) => sender.send_to(&vec![0; n], to).unwrap(),
            };
            (begun, Instant::now())
        })
        .collect();
    let reads = times.into_iter().enumerate().map(|(n, (begun, sent))| {
        thread::sleep(Duration::from_millis(n as u64 % 7));
        let least = sent.elapsed();
        assert_eq!(receiver.recv(&mut [0; 100]).unwrap(), n);
        least..=begun.elapsed()
    });
    reads.collect()
}

fn compare(read: &[&Value], waits: &[RangeInclusive<Duration>]) -> Result<(), String> {
    assert_eq!(read.len(), waits.len(), "one message per read");
    for (n, (message, wait)) in read.iter().zip(waits).enumerate() {
        assert_eq!(message["verdict"], "valid", "{message}");
        assert_eq!(message["protocol"], "udp");
        assert_eq!(number(&message["bytes"]), (n % DATAGRAMS) as u64);
        let (least, total) = (
            wait.start().saturating_sub(SLACK),
            number(&message["total_ns"]),
        );
        // A busy machine delivers late, and makes no time longer than it was.
        assert!(total <= nanos(*wait.end()), "{wait:?}: {message}");
        within(
            format!("the total of read {n}"),
            total,
            nanos(least)..=u64::MAX,
        )?;
    }
    Ok(())
}

fn sends_are_counted(sent: &[&Value]) {
    assert_eq!(sent.len(), 2 * DATAGRAMS, "one message per send");
    for (n, message) in sent.iter().enumerate() {
        assert_eq!(message["verdict"], "valid", "{message}");
        assert_eq!(number(&message["bytes"]), (n % DATAGRAMS) as u64);
        let stages = message["stages"].as_object().unwrap();
        assert!(stages.contains_key("tx.qdisc"), "{message}");
        let begins = connected_sends_begin() || n < DATAGRAMS;
        assert_eq!(stages.contains_key("tx.copy"), begins, "{message}");
    }
}

/// Return true if a hook shows where a connected send begins: a function does, and a callback, no
/// tracepoint does.
fn connected_sends_begin() -> bool {
    matches!(
        plan().udp,
        Ok(Datagrams::Callbacks { .. } | Datagrams::Functions { .. })
    )
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

/// Count like iperf3, plus the datagram that each end sends first (`iperf_udp_connect()`).
#[test]
fn counts_are_those_of_iperf3() {
    const DATAGRAM_BYTES: u64 = 1200;
    let host = Host::new("udp").unwrap();
    let stat = Stat::start(&["--netns", host.netns_name(), "udp"]);
    let _server = host.spawn("iperf3", &["-s", "-1"]).unwrap();
    host.wait_for_port("127.0.0.1:5201".parse().unwrap(), PATIENCE)
        .unwrap();
    let load = [
        "-u",
        "-c",
        "127.0.0.1",
        "-b",
        "100M",
        "-l",
        &DATAGRAM_BYTES.to_string(),
        "-t",
        "1",
        "--json",
    ];
    let printed: Value = serde_json::from_str(&host.run("iperf3", &load).unwrap()).unwrap();
    let report = stat.finish();

    let end = &printed["end"];
    let (packets, lost) = (
        number(&end["sum"]["packets"]),
        number(&end["sum"]["lost_packets"]),
    );
    let received = number(&end["sum_received"]["bytes"]) / DATAGRAM_BYTES;
    assert_eq!(number(&report["tx"]["messages"]), packets + 2, "{report}");
    assert_eq!(number(&report["rx"]["messages"]), received + 2, "{report}");
    // iperf3 misses those before the last one that it read. What its socket holds at its end is
    // neither read nor dropped.
    let drops = number(&report["rx"]["drops"]);
    assert!(
        (lost..=packets - received).contains(&drops),
        "{lost}: {report}"
    );
}
