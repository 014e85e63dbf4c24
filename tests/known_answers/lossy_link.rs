//! Every 50th packet is lost: retransmissions are counted as the kernel counts them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE};
use with::kernel_counts::{EndedFlows, KernelCounts};
use with::{Trace, in_short, number, of_direction, over_both_families, peer, plan, stat_command};

over_both_families!(check);

const SENDS: u64 = 200;
const SEND_BYTES: u64 = 20_000;

fn check(family: Family) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let line = LinkConfig::default()
        .delay(Duration::from_millis(2))
        .loss(0.02)
        // With it, a packet of many segments would be lost as one.
        .offload(false);
    let link = Link::relay(&client, &server, line).unwrap();
    let address = SocketAddr::new(link.address_b(family), 7000);
    let _sink = server.spawn(peer(), &["sink", "--port", "7000"]).unwrap();
    server.wait_for_port(address, PATIENCE).unwrap();

    let flows = EndedFlows::watch(&client);
    let trace = Trace::start(&["--netns", client.netns_name(), "tcp"]);
    let (address, sends, size) = (
        address.to_string(),
        SENDS.to_string(),
        SEND_BYTES.to_string(),
    );
    let blast = [
        &peer(),
        "blast",
        "--connect",
        &address,
        "--sends",
        &sends,
        "--size",
        &size,
    ];
    let measured = stat_command(&client, &blast);
    // From now on nothing is lost, so the flow's end needs no more time.
    link.set_config(LinkConfig::default()).unwrap();
    let kernel = KernelCounts::sum(&flows.counts());
    let messages = trace.finish();
    assert!(measured.status.success(), "{}", measured.stderr);
    let program: Value = serde_json::from_str(&measured.stdout).unwrap();
    println!(
        "{}; the program: {program}; {kernel:?}",
        in_short(&measured.report)
    );

    let sent = of_direction(&messages, "tx");
    assert_eq!(sent.len() as u64, SENDS);
    let counted = number(&program["total_retrans"]);
    assert!(counted > 0, "nothing was lost: {program}");
    assert_eq!(
        number(&measured.report["tx"]["retransmits"]),
        counted,
        "{kernel:?}"
    );
    if plan().uses_bit() {
        assert_eq!(
            number(&measured.report["tx"]["segments"]),
            kernel.data_segments_sent,
            "{kernel:?}"
        );
    }
    assert_eq!(measured.report["tx"]["bytes"], SENDS * SEND_BYTES);
    // A segment may lie in two messages.
    let of_messages: u64 = sent
        .iter()
        .map(|message| number(&message["retransmits"]))
        .sum();
    let of_data = counted - number(&measured.report["tx"]["resent"]["syns"]);
    assert!(
        of_messages >= of_data,
        "messages have {of_messages} of {of_data} segments that were sent again"
    );
}
