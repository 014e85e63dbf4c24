//! A small packet that TCP holds back: by Nagle's algorithm, or because the program requests it.

use testbed::{Family, within_attempts};
use with::expected::explains;
use with::pair::Pair;
use with::{hooks, over_both_families, peer, sockstamp};

mod nagle {
    super::over_both_families!(super::check_nagle);
}

/// The classic: two small writes, then a read. The second waits for the ACK of the first, which the
/// server's kernel delays, since its program has nothing to answer yet.
fn check_nagle(family: Family) {
    const REQUESTS: &str = "client --count 12 --pieces 2";
    let pair = Pair::veth(family);
    let _serve = pair.serve(&["serve"]);
    within_attempts(|| {
        let undisturbed = pair.stat_peer(REQUESTS);
        let built = pair.stat_peer(&format!("{REQUESTS} --nodelay false"));
        explains(
            &["tx.queue/nagle", "tx.network/delayed-ack"],
            &built,
            &undisturbed,
        )
    });
}

/// Until they left, messages waited for Nagle; their acknowledgements, for the peer's timer.
#[test]
fn the_table_names_the_causes() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve"]);
    let (peer, address) = (peer(), pair.address.to_string());
    let client = [&peer[..], "client", "--connect", &address, "--count", "12"];
    let sending = ["--pieces", "2", "--nodelay", "false"];
    within_attempts(|| {
        let output = pair
            .client
            .command(sockstamp())
            .args(["stat", "--every", "--max-cost=none"])
            .args(hooks())
            .arg("--")
            .args([&client[..], &sending].concat())
            .output()
            .unwrap();
        let table = String::from_utf8(output.stderr).unwrap();
        for name in ["nagle", "delayed-ack"] {
            let share = share(&table, name);
            if !(90.0..=100.0).contains(&share) {
                return Err(format!("{name} {share} %:\n{table}"));
            }
        }
        Ok(())
    });
}

/// In per cent, the last column but the unit.
fn share(table: &str, name: &str) -> f64 {
    let mut rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|words| words.first() == Some(&name));
    let row = row.unwrap_or_else(|| panic!("no {name} in\n{table}"));
    let percent = row.iter().position(|&word| word == "%").expect("a share");
    // An upper bound has its sign.
    row[percent - 1].trim_start_matches('≤').parse().unwrap()
}

#[test]
fn data_held_back_by_tcp_cork_is_in_cork() {
    held_back("cork", Family::V4);
}

#[test]
fn data_held_back_by_msg_more_is_in_cork() {
    held_back("more", Family::V6);
}

/// The program takes 30 ms between the two pieces of a request, and makes TCP send them together.
fn held_back(way: &str, family: Family) {
    const REQUESTS: &str = "client --count 20 --pieces 2";
    let pair = Pair::veth(family);
    let _serve = pair.serve(&["serve"]);
    within_attempts(|| {
        let undisturbed = pair.stat_peer(REQUESTS);
        let built = pair.stat_peer(&format!("{REQUESTS} --hold 30 --hold-back {way}"));
        explains(&["tx.queue/cork"], &built, &undisturbed)
    });
}
