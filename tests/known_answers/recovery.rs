//! A message is lost, with all that follow for a while: what is sent later waits in the write queue
//! until TCP has recovered.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use testbed::{Direction, Family, LinkConfig, PATIENCE, Process, within_attempts};
use with::expected::explains_stage;
use with::pair::Pair;
use with::{Stat, in_short, number, over_both_families, peer, wait_until};

over_both_families!(check);

/// The retransmissions themselves end no wait: data after them still waits.
#[test]
fn waits_through_an_outage_of_a_second_are_explained() {
    let pair = Pair::relay(
        LinkConfig::default().delay(Duration::from_millis(10)),
        Family::V4,
    );
    // A small window, and more to send: when the outage begins, ACKs have shown that data waits for
    // it.
    pair.server
        .set_sysctl("net.ipv4.tcp_rmem", "4096 8192 8192")
        .unwrap();
    let _sink = pair.serve(&["sink"]);
    within_attempts(|| {
        let stat = Stat::start(&["--netns", pair.client.netns_name()]);
        let blast = start_blast(&pair, "--sends 300 --size 1400 --interval-ms 3");
        wait_until_passed(&pair, 70_000);
        let link = LinkConfig::default().delay(Duration::from_millis(10));
        pair.link.set_config(link.clone().loss(1.0)).unwrap();
        thread::sleep(Duration::from_secs(1));
        pair.link.set_config(link).unwrap();
        blast.wait(PATIENCE).unwrap();
        let report = stat.finish();
        println!("{}", in_short(&report));
        let part = |name: &str| number(&report["tx"]["parts"]["tx.queue"][name]["sum_ns"]);
        let waited = number(&report["tx"]["stages"]["tx.queue"]["sum_ns"]);
        let explained = part("retransmit") + part("rwnd");
        match explained * 10 >= waited * 9 && waited > 10_000_000_000 {
            true => Ok(()),
            false => Err(format!("{explained} of {waited} ns")),
        }
    });
}

fn check(family: Family) {
    let config = LinkConfig::default()
        .delay(Duration::from_millis(10))
        .offload(false);
    let pair = Pair::relay(config, family);
    // The congestion window is never full but in recovery.
    pair.route("initcwnd 1000");
    let _sink = pair.serve(&["sink"]);
    within_attempts(|| {
        let undisturbed = blast(&pair, 0);
        let built = blast(&pair, 12);
        assert!(number(&built["tx"]["retransmits"]) >= 12, "{built}");
        explains_stage("tx.queue/retransmit", &built, &undisturbed)
    });
}

/// Start to send messages at intervals.
fn start_blast(pair: &Pair, words: &str) -> Process {
    let address = pair.address.to_string();
    let blast = ["blast", "--connect", &address, "--nodelay", "true"];
    let words: Vec<&str> = blast.into_iter().chain(words.split(' ')).collect();
    pair.client.spawn(peer(), &words).unwrap()
}

/// Wait until so many bytes more have passed the link.
fn wait_until_passed(pair: &Pair, bytes: u64) {
    let passed = || pair.link.statistics().a_to_b.bytes;
    let before = passed();
    wait_until("messages flow", || passed() >= before + bytes);
}

/// A message every 10 ms for one second; `lost` of them are lost on the way.
fn blast(pair: &Pair, lost: u64) -> Value {
    let stat = Stat::start(&["--netns", pair.client.netns_name()]);
    let blast = start_blast(pair, "--sends 100 --size 1000 --interval-ms 10");
    wait_until_passed(pair, 20_000);
    pair.link.lose_next_data(Direction::AToB, lost).unwrap();
    blast.wait(PATIENCE).unwrap();
    let report = stat.finish();
    println!("{}", in_short(&report));
    report
}
