//! An ACK comes late because the peer's kernel holds it back, not because of the network.

use serde_json::Value;
use testbed::{Family, within_attempts};
use with::Trace;
use with::expected::explains;
use with::over_both_families;
use with::pair::Pair;
use with::programs::start_slow_web;

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

/// Nobody waits for the ACK: the client waits for the answer, which its read and the server's send
/// show.
#[test]
fn a_late_answer_is_slow_at_both_ends_and_the_late_ack_of_its_question_is_not() {
    const QUESTIONS: usize = 5;
    let pair = Pair::veth(Family::V4);
    let _web = start_slow_web(&pair.server, pair.address, ["0.06", "0"]);
    let url = format!("http://{}/?[1-{QUESTIONS}]", pair.address);
    within_attempts(|| {
        let traces = Trace::start_in([&pair.client, &pair.server], &["--slow", "20ms"]);
        pair.client.run("curl", &["-s", &url]).unwrap();
        let [client, server] = traces.map(Trace::finish);
        // The server sleeps for so long, whatever the machine does.
        let late = |shown: &[Value], direction: &str, stage: &str| {
            let is_late = |message: &&Value| {
                message["direction"] == direction
                    && message["stages"][stage].as_u64() >= Some(60_000_000)
            };
            shown.iter().filter(is_late).count()
        };
        let told = [
            late(&client, "rx", "peer.answer"),
            late(&server, "tx", "app.service"),
        ];
        assert_eq!(told, [QUESTIONS; 2], "{client:#?} {server:#?}");
        match [client.len(), server.len()] == told {
            true => Ok(()),
            false => Err(format!("others took longer, too: {client:#?} {server:#?}")),
        }
    });
}
