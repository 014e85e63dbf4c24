//! A small packet that TCP holds back: by Nagle's algorithm, or because the program asks for it.

use testbed::Family;

use crate::common::within_three_attempts;
use crate::support::{Pair, explains, over_both_families};

mod nagle {
    super::over_both_families!(super::check_nagle);
}

/// The classic: two small writes, then a read. The second waits for the ACK of the first, which the server's kernel
/// delays, since its program has nothing to answer yet.
fn check_nagle(family: Family) {
    const REQUESTS: &str = "client --count 12 --pieces 2";
    let pair = Pair::veth(family);
    let _serve = pair.serve(&["serve"]);
    within_three_attempts(|| {
        let undisturbed = pair.stat_peer(REQUESTS);
        let built = pair.stat_peer(&format!("{REQUESTS} --nodelay false"));
        explains(
            &["tx.queue/nagle", "tx.network/delayed-ack"],
            &built,
            &undisturbed,
        )
    });
}

#[test]
fn by_tcp_cork() {
    held_back("cork", Family::V4);
}

#[test]
fn by_msg_more() {
    held_back("more", Family::V6);
}

/// The program takes 30 ms between the two pieces of a request, and asks TCP to send them together.
fn held_back(way: &str, family: Family) {
    const REQUESTS: &str = "client --count 20 --pieces 2";
    let pair = Pair::veth(family);
    let _serve = pair.serve(&["serve"]);
    within_three_attempts(|| {
        let undisturbed = pair.stat_peer(REQUESTS);
        let built = pair.stat_peer(&format!("{REQUESTS} --hold 30 --hold-back {way}"));
        explains(&["tx.queue/cork"], &built, &undisturbed)
    });
}
