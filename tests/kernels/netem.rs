//! Emulate a network by the kernel's netem(8) and tbf(8), and check where its time goes.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Family, Host, PATIENCE, TcpInfo, within_attempts};
use with::expected::{ms, sum, within};
use with::kernel_counts::wait_closed;
use with::pair::Pair;
use with::qdisc::{Qdisc, kernel_counter};
use with::{Stat, in_short, number, stage};

/// A round trip after the other.
const REQUESTS: &str = "client --count 20 --interval-ms 5";
/// Far enough apart that each is one packet, and that a delayed one is overtaken.
const SENDS: usize = 400;
const INTERVAL: Duration = Duration::from_millis(2);
const DELAY: u64 = ms(20);

/// The way back is long: what was sent is acknowledged late, and nothing else is late.
#[test]
fn delay_behind_the_host_is_the_networks() {
    delayed("netem::delay_behind_the_host_is_the_networks", |pair| {
        (&pair.server, pair.link.interface_b(), "tx.network")
    });
}

/// The packet scheduler of the sender's own interface holds packets back.
#[test]
fn delay_in_the_host_is_the_packet_schedulers() {
    delayed(
        "netem::delay_in_the_host_is_the_packet_schedulers",
        |pair| (&pair.client, pair.link.interface_a(), "tx.qdisc"),
    );
}

fn delayed(test: &str, place: impl Fn(&Pair) -> (&Host, &str, &'static str)) {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve"]);
    let (host, device, delayed) = place(&pair);
    within_attempts(|| {
        let undisturbed = pair.stat_peer(REQUESTS);
        let Some(_netem) = Qdisc::new(test, host, device, "netem delay 20ms") else {
            return Ok(());
        };
        let built = pair.stat_peer(REQUESTS);
        assert_eq!(stage(&built, delayed, "count"), 20, "{built}");
        within(delayed, sum(&built, delayed), 20 * DELAY..=u64::MAX)?;
        let median = stage(&built, delayed, "p50_ns");
        within(
            format!("the median of {delayed}"),
            median,
            DELAY * 19 / 20..=DELAY * 2,
        )?;
        for name in [
            "tx.copy",
            "tx.queue",
            "tx.qdisc",
            "tx.network",
            "rx.stack",
            "rx.app",
        ] {
            if name != delayed {
                let bound = stage(&undisturbed, name, "p50_ns") + DELAY / 10;
                within(
                    format!("the median of {name}"),
                    stage(&built, name, "p50_ns"),
                    0..=bound,
                )?;
            }
        }
        Ok(())
    });
}

/// Retransmissions and out-of-order segments are counted as the kernel counts them, and reads
/// waited for missing segments. That all packets come is rarer than one in 100,000.
#[test]
fn loss_is_counted_as_the_kernel_counts_it() {
    let test = "netem::loss_is_counted_as_the_kernel_counts_it";
    if let Some(counts) = disturbed(test, "netem delay 5ms loss 3%") {
        assert!(counts.retransmits > 0, "nothing was lost");
    }
}

/// Some packets overtake the delayed ones. The sender knows too late to send anything again: the
/// way back is longer than the delay, and `tcp_rack_reo_wnd()` (net/ipv4/tcp_recovery.c) allows a
/// quarter of the round trip.
#[test]
fn reordering_is_counted_without_retransmits() {
    let test = "netem::reordering_is_counted_without_retransmits";
    // TCP probes where a machine that stands still brings ACKs late.
    within_attempts(|| match disturbed(test, "netem delay 3ms reorder 25%") {
        Some(counts) if counts.retransmits > 0 => {
            Err(format!("{} segments were sent again", counts.retransmits))
        }
        _ => Ok(()),
    });
}

/// By the kernel.
struct Counts {
    retransmits: u64,
    out_of_order: u64,
}

/// Compare the counts of both ends with the kernel's, which come back: `None` without netem.
fn disturbed(test: &str, words: &str) -> Option<Counts> {
    let pair = Pair::veth(Family::V4);
    let (client, server) = (&pair.client, &pair.server);
    let _sink = pair.serve(&["sink"]);
    // Make each message one packet, so that none waits and leaves with others.
    pair.route("initcwnd 200");
    let (device, back) = (pair.link.interface_a(), pair.link.interface_b());
    let words = format!("{words} limit 10000");
    let netem = Qdisc::new(test, client, device, "netem limit 10000")?;
    let _back = Qdisc::new(test, server, back, "netem delay 40ms");
    let [sent, received] = Stat::start_in([client, server], &["tcp"]);
    let retransmits = kernel_counter(client, "TcpRetransSegs");
    let out_of_order = kernel_counter(server, "TcpExtTCPOFOQueue");
    // Neither the beginning nor the end of the connection is disturbed.
    let connection = client.tcp_connect(pair.address).unwrap();
    connection.set_nodelay(true).unwrap();
    netem.change(&words);
    stream(&connection);
    netem.change("netem delay 0ms loss 0% reorder 0% limit 10000");
    drop(connection);
    wait_closed(client);
    let counts = Counts {
        retransmits: kernel_counter(client, "TcpRetransSegs") - retransmits,
        out_of_order: kernel_counter(server, "TcpExtTCPOFOQueue") - out_of_order,
    };
    let (sent, received) = (sent.finish(), received.finish());
    println!("{}\n{}", in_short(&sent), in_short(&received));
    assert_eq!(
        number(&sent["tx"]["retransmits"]),
        counts.retransmits,
        "{sent}"
    );
    assert_eq!(
        number(&received["rx"]["out_of_order"]),
        counts.out_of_order,
        "{received}"
    );
    assert!(counts.out_of_order > 0, "nothing came out of order");
    assert!(stage(&received, "rx.hol", "count") > 0, "{received}");
    assert!(sum(&received, "rx.hol") > 0, "{received}");
    Some(counts)
}

/// Send messages, and wait until all of them are acknowledged.
fn stream(mut connection: &TcpStream) {
    for _ in 0..SENDS {
        connection.write_all(&[1; 64]).unwrap();
        thread::sleep(INTERVAL);
    }
    let start = Instant::now();
    while TcpInfo::of(connection).unwrap().unacked > 0 {
        assert!(start.elapsed() < PATIENCE, "not acknowledged");
        thread::sleep(INTERVAL);
    }
}

/// A line of 1 Mbit/s: packets wait for it in the packet scheduler, or in TCP as long as the
/// scheduler has enough.
#[test]
fn a_slow_line_delays_in_the_packet_scheduler_or_in_tcp() {
    const LARGE: &str = "client --count 4 --request 40000";
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve", "--request", "40000"]);
    for (host, buffer) in [(&pair.client, "wmem"), (&pair.server, "rmem")] {
        let name = format!("net.ipv4.tcp_{buffer}");
        host.set_sysctl(&name, "4096 4194304 4194304").unwrap();
    }
    pair.route("initcwnd 1000");
    let device = pair.link.interface_a();
    let undisturbed = pair.stat_peer(LARGE);
    for line in [
        "netem rate 1mbit limit 10000",
        "tbf rate 1mbit burst 2kb limit 1mb",
    ] {
        within_attempts(|| {
            let Some(_line) = Qdisc::new(
                "netem::a_slow_line_delays_in_the_packet_scheduler_or_in_tcp",
                &pair.client,
                device,
                line,
            ) else {
                return Ok(());
            };
            let built = pair.stat_peer(LARGE);
            // 320 ms each. A request fits into the first window of the receiver.
            within("tx", total(&built), 4 * ms(300)..=4 * ms(480))?;
            explains_together(&["tx.qdisc", "tx.queue/tsq"], &built, &undisturbed)
        });
    }
}

fn total(report: &Value) -> u64 {
    number(&report["tx"]["total"]["sum_ns"])
}

/// Check that these together are at least nine tenths of the additional time.
fn explains_together(names: &[&str], built: &Value, undisturbed: &Value) -> Result<(), String> {
    let more: u64 = names
        .iter()
        .map(|name| sum(built, name).saturating_sub(sum(undisturbed, name)))
        .sum();
    let excess = total(built).saturating_sub(total(undisturbed));
    println!("{names:?}: {more} of {excess} ns");
    within(names.join(" and "), more, excess / 10 * 9..=u64::MAX)
}
