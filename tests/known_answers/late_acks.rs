//! An ACK comes late because the peer's kernel holds it back, not because of the network.

use testbed::{Family, within_attempts};
use with::expected::explains;
use with::over_both_families;
use with::pair::Pair;

mod server_that_thinks {
    super::over_both_families!(super::check_thinking);
}

/// Its kernel waits for the answer, 30 ms, and sends the ACK with it.
fn check_thinking(family: Family) {
    const REQUESTS: &str = "client --count 20";
    let pair = Pair::veth(family);
    within_attempts(|| {
        let undisturbed = {
            let _serve = pair.serve(&["serve"]);
            pair.stat_peer(REQUESTS)
        };
        let _serve = pair.serve(&["serve", "--think", "30"]);
        explains(
            &["tx.network/delayed-ack"],
            &pair.stat_peer(REQUESTS),
            &undisturbed,
        )
    });
}

/// No answer comes, and the server reads too seldom to send an ACK for that
/// (`__tcp_cleanup_rbuf()`, net/ipv4/tcp.c). The first 16 Linux acknowledges at once
/// (TCP_MAX_QUICKACKS, include/net/tcp.h), the others by a timer of 40 ms.
#[test]
fn acks_of_a_server_that_never_answers_are_delayed_acks() {
    const SENDS: &str = "blast --sends 32 --interval-ms 50 --nodelay true";
    let pair = Pair::veth(Family::V4);
    let _sink = pair.serve(&["sink", "--rate-limit", "200"]);
    let to_client = pair.link.address_a(Family::V4).to_string();
    let route = |quick_ack| {
        let words = [
            "route",
            "replace",
            &to_client,
            "dev",
            pair.link.interface_b(),
        ];
        pair.server
            .run("ip", &[&words[..], &["quickack", quick_ack]].concat())
            .unwrap();
    };
    within_attempts(|| {
        route("1");
        let undisturbed = pair.stat_peer(SENDS);
        route("0");
        explains(
            &["tx.network/delayed-ack"],
            &pair.stat_peer(SENDS),
            &undisturbed,
        )
    });
}
