//! A server looks at each request 30 ms after it arrived: it was in the socket at once, and read after 30 ms.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use testbed::{Family, Host, Link};

use crate::common::{Stat, in_short, number, peer, within_three_attempts};
use crate::support::{ms, over_both_families, within};

over_both_families!(check);

const REQUESTS: u64 = 20;
const TIMEOUT: Duration = Duration::from_secs(20);

fn check(family: Family) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    let address = SocketAddr::new(link.address_b(family), 7000);
    let _serve = server
        .spawn(peer(), &["serve", "--port", "7000", "--think", "30"])
        .unwrap();
    server.wait_for_port(address, TIMEOUT).unwrap();
    within_three_attempts(|| measure(&client, &server, address));
}

fn measure(client: &Host, server: &Host, address: SocketAddr) -> Result<(), String> {
    let stat = Stat::start(&["--cumulative", "--netns", server.netns_name()]);
    let (address, count) = (address.to_string(), REQUESTS.to_string());
    client
        .run(peer(), &["client", "--connect", &address, "--count", &count])
        .unwrap();
    let report = stat.finish();
    println!("{}; {}", in_short(&report), report["cumulative"]);
    let figure = |hook: &str, figure: &str| number(&report["cumulative"]["hooks"][hook][figure]);
    for hook in ["tcp-socket-enqueued", "tcp-socket-read"] {
        assert_eq!(figure(hook, "count"), REQUESTS, "{report}");
    }
    assert_ne!(report["cumulative"]["absent"]["ip-start"], Value::Null);
    within(
        "p90 at tcp-socket-enqueued",
        figure("tcp-socket-enqueued", "p90_ns"),
        0..=ms(1),
    )?;
    within(
        "the median at tcp-socket-read",
        figure("tcp-socket-read", "p50_ns"),
        ms(30)..=ms(32),
    )
}
