//! Sends of 1 MB through a send buffer of 64 KB into a line of 20 Mbit/s: the sender waits inside
//! send.

use std::net::SocketAddr;

use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE, within_attempts};
use with::expected::within;
use with::{Trace, in_short, number, of_direction, over_both_families, peer, stage, stat_command};

over_both_families!(check);

const SENDS: u64 = 6;
const SEND_BYTES: u64 = 1 << 20;

fn check(family: Family) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    // Packets as they are on a line, not of 64 KB: the whole buffer would be a single one.
    let line = LinkConfig::default()
        .rate_bits_per_second(20_000_000)
        .offload(false);
    let link = Link::relay(&client, &server, line).unwrap();
    let address = SocketAddr::new(link.address_b(family), 7000);
    let _sink = server.spawn(peer(), &["sink", "--port", "7000"]).unwrap();
    server.wait_for_port(address, PATIENCE).unwrap();
    within_attempts(|| measure(&client, address));
}

fn measure(client: &Host, address: SocketAddr) -> Result<(), String> {
    let trace = Trace::start(&["--netns", client.netns_name(), "tcp"]);
    let (address, sends, size) = (
        address.to_string(),
        SENDS.to_string(),
        SEND_BYTES.to_string(),
    );
    let blast = [&peer(), "blast", "--connect", &address, "--sends", &sends];
    let sizes = ["--size", &size, "--sndbuf", "65536"];
    let measured = stat_command(client, &[&blast[..], &sizes[..]].concat());
    let messages = trace.finish();
    assert!(measured.status.success(), "{}", measured.stderr);
    let program: Value = serde_json::from_str(&measured.stdout).unwrap();
    let copied = stage(&measured.report, "tx.copy", "sum_ns");
    println!(
        "{}; {copied} ns in tx.copy; the program: {program}",
        in_short(&measured.report)
    );

    assert_eq!(of_direction(&messages, "tx").len() as u64, SENDS);
    assert_eq!(measured.report["tx"]["bytes"], SENDS * SEND_BYTES);
    let count = stage(&measured.report, "tx.copy", "count");
    assert_eq!(count, SENDS, "{}", measured.report["verdicts"]);
    // Each send waits for most of 1 MB to leave at 20 Mbit/s, so the wait is all but a little of
    // it.
    let spent = number(&program["send_ns"]);
    assert!(spent > SENDS * 200_000_000, "{program}");
    within(
        "the sum of tx.copy",
        copied,
        spent - spent / 10..=spent + spent / 10,
    )
}
