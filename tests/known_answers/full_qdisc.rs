//! A UDP flow fills a packet scheduler of 10 Mbit/s: what a TCP request waits there is the backlog
//! in front of it divided by the rate.

use std::net::SocketAddr;

use testbed::{Family, Host, Link, PATIENCE, within_attempts};
use with::expected::{median_within, ms, within};
use with::full_queue::{backlog_bytes, wait_of_requests, with_full_queue};
use with::{Stat, Trace, in_short, of_direction, over_both_families, peer, stage};

over_both_families!(check);

const REQUESTS: u64 = 30;

fn check(family: Family) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    let device = link.interface_a();
    let tbf = [
        "root", "tbf", "rate", "10mbit", "burst", "10kb", "limit", "1mb",
    ];
    client
        .run("tc", &[&["qdisc", "add", "dev", device], &tbf[..]].concat())
        .unwrap();
    let address = SocketAddr::new(link.address_b(family), 7000);
    let _serve = server.spawn(peer(), &["serve", "--port", "7000"]).unwrap();
    server.wait_for_port(address, PATIENCE).unwrap();
    // Read what arrives, so the server's kernel does not answer with ICMP.
    let receiver = server.udp_bind(SocketAddr::new(address.ip(), 0)).unwrap();
    let sender = client
        .udp_bind(SocketAddr::new(link.address_a(family), 0))
        .unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    with_full_queue(&sender, || {
        within_attempts(|| measure(&client, device, address));
    });
}

fn measure(client: &Host, device: &str, address: SocketAddr) -> Result<(), String> {
    // Not what fills the queue: that is this process.
    let target = ["--netns", client.netns_name(), "--comm", "testbed-peer"];
    let (stat, trace) = (Stat::start(&target), Trace::start(&target));
    let wait = wait_of_requests(client, address, REQUESTS, || backlog_bytes(client, device));
    let (messages, report) = (trace.finish(), stat.finish());
    println!("{}; wait {wait}", in_short(&report));

    let sent = of_direction(&messages, "tx");
    assert_eq!(sent.len() as u64, REQUESTS, "one send per request");
    // The link loses nothing: TCP probes where ACKs are late.
    if report["tx"]["retransmits"] != 0 {
        return Err(format!("segments were sent again: {report}"));
    }
    median_within(
        "tx.qdisc",
        &sent,
        &report,
        wait - wait / 10..=wait + wait / 10,
    )?;
    for name in ["tx.copy", "tx.queue", "tx.network", "rx.stack", "rx.app"] {
        within(
            format!("p50 of {name}"),
            stage(&report, name, "p50_ns"),
            0..=ms(1),
        )?;
    }
    Ok(())
}
