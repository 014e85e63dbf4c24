//! A server reads each request 30 ms after it arrived: the time is the application's.

use std::net::SocketAddr;

use testbed::{Family, Host, Link, PATIENCE, within_attempts};
use with::expected::{median_within, ms, within};
use with::{Stat, Trace, in_short, of_direction, over_both_families, peer, stage};

over_both_families!(check);

const REQUESTS: u64 = 40;

fn check(family: Family) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    let address = SocketAddr::new(link.address_b(family), 7000);
    let _serve = server
        .spawn(peer(), &["serve", "--port", "7000", "--think", "30"])
        .unwrap();
    server.wait_for_port(address, PATIENCE).unwrap();
    within_attempts(|| measure(&client, &server, address));
}

fn measure(client: &Host, server: &Host, address: SocketAddr) -> Result<(), String> {
    let target = ["--netns", server.netns_name()];
    let (stat, trace) = (Stat::start(&target), Trace::start(&target));
    let (address, count) = (address.to_string(), REQUESTS.to_string());
    client
        .run(
            peer(),
            &["client", "--connect", &address, "--count", &count],
        )
        .unwrap();
    let (messages, report) = (trace.finish(), stat.finish());
    println!("{}", in_short(&report));
    let read = of_direction(&messages, "rx");
    assert_eq!(read.len() as u64, REQUESTS, "one read per request");
    assert_eq!(stage(&report, "rx.app", "count"), REQUESTS);
    median_within("rx.app", &read, &report, ms(30)..=ms(32))?;
    within(
        "p90 of rx.stack",
        stage(&report, "rx.stack", "p90_ns"),
        0..=ms(1),
    )
}
