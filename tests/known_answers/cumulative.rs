//! A server reads each request 30 ms after it arrived: it was in the socket at once, and read after
//! 30 ms.

use std::net::SocketAddr;

use serde_json::Value;
use testbed::{Family, Host, Link, PATIENCE, within_attempts};
use with::expected::{ms, within};
use with::{Stat, in_short, number, peer, stage};

mod of_tcp {
    with::over_both_families!(super::check_tcp);
}

mod of_udp {
    with::over_both_families!(super::check_udp);
}

const REQUESTS: u64 = 20;

fn check_tcp(family: Family) {
    check(family, "tcp", "udp");
}

fn check_udp(family: Family) {
    check(family, "udp", "tcp");
}

/// The other protocol has nothing.
fn check(family: Family, protocol: &str, other: &str) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    let address = SocketAddr::new(link.address_b(family), 7000);
    let mut serve = server
        .spawn(
            peer(),
            &[
                "serve",
                "--protocol",
                protocol,
                "--port",
                "7000",
                "--think",
                "30",
            ],
        )
        .unwrap();
    serve.wait_for_stdout("listening", PATIENCE).unwrap();
    within_attempts(|| {
        let report = measure(&client, &server, protocol, address);
        let figure =
            |hook: String, figure: &str| number(&report["cumulative"]["hooks"][hook][figure]);
        assert_ne!(report["cumulative"]["absent"]["ip-start"], Value::Null);
        for point in ["enqueued", "read"] {
            assert_eq!(
                figure(format!("{protocol}-socket-{point}"), "count"),
                REQUESTS,
                "{report}"
            );
            assert_eq!(
                figure(format!("{other}-socket-{point}"), "count"),
                0,
                "{report}"
            );
        }
        assert_eq!(stage(&report, "rx.stack", "count"), REQUESTS, "{report}");
        let enqueued = figure(format!("{protocol}-socket-enqueued"), "p90_ns");
        within("p90 until it is in the socket", enqueued, 0..=ms(1))?;
        let read = figure(format!("{protocol}-socket-read"), "p50_ns");
        within("the median until it is read", read, ms(30)..=ms(32))
    });
}

fn measure(client: &Host, server: &Host, protocol: &str, address: SocketAddr) -> Value {
    let stat = Stat::start(&[
        "--cumulative",
        "--expert=attach=all",
        "--netns",
        server.netns_name(),
    ]);
    let (address, count) = (address.to_string(), REQUESTS.to_string());
    let client_words = ["client", "--protocol", protocol, "--connect", &address];
    client
        .run(peer(), &[&client_words[..], &["--count", &count]].concat())
        .unwrap();
    let report = stat.finish();
    println!("{}; {}", in_short(&report), report["cumulative"]);
    report
}
