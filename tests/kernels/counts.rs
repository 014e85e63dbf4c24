//! A hundred requests and answers on each connection: each is a message, valid, with every stage.

use serde_json::Value;
use testbed::Family;
use with::pair::Pair;
use with::{FAMILIES, Stat, number, skip};

const REQUESTS: u64 = 100;
const REQUEST_BYTES: u64 = 500;
/// Connections per IP version. Sequence numbers start anywhere: dependences on them show in some.
const CONNECTIONS: usize = 4;

#[test]
fn counts_by_the_best_hooks_equal_the_kernels() {
    check("best");
}

#[test]
fn counts_by_older_hooks_equal_the_kernels() {
    check("older");
}

fn check(hooks: &str) {
    let pair = Pair::veth(Family::V4);
    let bytes = REQUEST_BYTES.to_string();
    let _serve = pair.serve(&["serve", "--request", &bytes, "--response", &bytes]);
    let choice = format!("hooks={hooks}");
    let target = ["--expert", &choice, "--by", "flow", "tcp", "port", "7000"];
    let stat = match Stat::try_start("--every", &target) {
        Err(reason) if hooks == "older" && reason.contains("fentry") => {
            skip(
                "counts::counts_by_older_hooks_equal_the_kernels",
                reason.trim(),
            );
            return;
        }
        started => started.unwrap(),
    };
    for family in FAMILIES {
        for _ in 0..CONNECTIONS {
            converse(&pair, family);
        }
    }
    let report = stat.finish();
    println!("lost {}; absent {}", report["lost"], report["absent"]);
    for (stage, reason) in report["absent"].as_object().unwrap() {
        let reason = reason.as_str().unwrap();
        assert!(
            reason == "no NIC clock"
                || reason == "NIC clock unused"
                || reason.starts_with("in rx.app: "),
            "{stage}: {reason}"
        );
    }
    let flows = report["groups"].as_array().unwrap();
    for host in [&pair.client, &pair.server] {
        let of_host: Vec<&Value> = flows
            .iter()
            .filter(|flow| flow["key"]["flow"]["netns"] == host.netns_inode())
            .collect();
        assert_eq!(of_host.len(), CONNECTIONS * FAMILIES.len(), "{report}");
        of_host.into_iter().for_each(is_complete);
    }
}

fn converse(pair: &Pair, family: Family) {
    let (address, count) = (pair.link.address_b(family), REQUESTS.to_string());
    let address = std::net::SocketAddr::new(address, 7000).to_string();
    let bytes = REQUEST_BYTES.to_string();
    let sizes = ["--request", &bytes, "--response", &bytes];
    let words = ["client", "--connect", &address, "--count", &count];
    pair.client
        .run(with::peer(), &[&words[..], &sizes].concat())
        .unwrap();
}

/// Assert as many messages as requests in both directions, and no refusal.
fn is_complete(flow: &Value) {
    for (direction, stages) in [
        ("tx", &["tx.copy", "tx.queue", "tx.qdisc", "tx.network"][..]),
        ("rx", &["rx.stack", "rx.app"]),
    ] {
        let part = &flow[direction];
        assert_eq!(number(&part["messages"]), REQUESTS, "{direction}: {flow}");
        assert_eq!(number(&part["measured"]), REQUESTS, "{direction}: {flow}");
        assert_eq!(
            number(&part["bytes"]),
            REQUESTS * REQUEST_BYTES,
            "{direction}: {flow}"
        );
        assert_eq!(number(&part["refused"]), 0, "{direction}: {flow}");
        assert_eq!(
            number(&part["total"]["count"]),
            REQUESTS,
            "{direction}: {flow}"
        );
        for stage in stages {
            assert_eq!(
                number(&part["stages"][stage]["count"]),
                REQUESTS,
                "{stage}: {flow}"
            );
        }
    }
    // The stage lies between a read and the next send: the client's first request has none.
    let services = number(&flow["tx"]["stages"]["app.service"]["count"]);
    assert!((REQUESTS - 1..=REQUESTS).contains(&services), "{flow}");
    assert_eq!(
        number(&flow["rx"]["stages"]["rx.hol"]["count"]),
        0,
        "{flow}"
    );
}
