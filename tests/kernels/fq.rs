//! SO_MAX_PACING_RATE: where the interface has the packet scheduler fq, that holds packets back
//! until they may leave; else TCP itself does. Either is named.

use serde_json::Value;
use testbed::{Family, within_attempts};
use with::expected::explains;
use with::pair::Pair;
use with::qdisc::Qdisc;

/// 20 ms for each request, which leaves as one packet, and for which the next one must wait.
const PACED: &str = "client --count 15 --request 10000 --pacing 500000";
const UNDISTURBED: &str = "client --count 15 --request 10000";

fn pair() -> Pair {
    Pair::veth(Family::V4)
}

#[test]
fn pacing_by_fq_is_in_tx_qdisc() {
    let pair = pair();
    let _serve = pair.serve(&["serve", "--request", "10000"]);
    let device = pair.link.interface_a();
    let Some(_fq) = Qdisc::new(
        "fq::pacing_by_fq_is_in_tx_qdisc",
        &pair.client,
        device,
        "fq",
    ) else {
        return;
    };
    within_attempts(|| explained_by(&pair, "tx.qdisc"));
}

#[test]
fn pacing_by_tcp_is_in_tx_queue() {
    let pair = pair();
    let _serve = pair.serve(&["serve", "--request", "10000"]);
    within_attempts(|| explained_by(&pair, "tx.queue/pacing"));
}

fn explained_by(pair: &Pair, name: &str) -> Result<(), String> {
    let undisturbed: Value = pair.stat_peer(UNDISTURBED);
    explains(&[name], &pair.stat_peer(PACED), &undisturbed)
}
