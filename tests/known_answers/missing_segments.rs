//! One packet in a hundred is lost on a link of 20 ms: later data waits for its retransmission.
//! That wait is `rx.hol`, and no other stage of a read is longer than the link.

use std::time::Duration;

use serde_json::Value;
use testbed::{Direction, Family, LinkConfig, within_attempts};
use with::expected::{ms, sum, within};
use with::pair::Pair;
use with::{number, over_both_families, stage};

over_both_families!(check);

const ONE_WAY: Duration = Duration::from_millis(20);
/// A message every 2 ms, read one by one: a reader that takes all at once would see the wait of the
/// last only.
const SENDS: &str = "blast --sends 500 --interval-ms 2 --nodelay true";

fn check(family: Family) {
    // Single segments, as on a line: with offload a loss takes many.
    let link = LinkConfig::default().delay(ONE_WAY).offload(false);
    let pair = Pair::relay(link.clone(), family);
    // The capacity of the link, also after a loss.
    pair.route("initcwnd 200");
    let _serve = pair.serve(&["serve"]);
    let measure = |loss: f64, options: &[&str]| {
        let lossy = link.clone().loss(loss);
        pair.link.set_direction(Direction::AToB, lossy).unwrap();
        pair.stat_peer_at(&pair.server, options, SENDS)
    };
    within_attempts(|| {
        let undisturbed = measure(0.0, &[]);
        split(&measure(0.01, &[]), &undisturbed)?;
        included(&measure(0.01, &["--expert=hol=include"]))?;
        excluded(&measure(0.01, &["--expert=hol=exclude"]))?;
        excluded(&measure(0.01, &["--expert=causes=off"]))
    });
}

fn split(report: &Value, undisturbed: &Value) -> Result<(), String> {
    let total = |report: &Value| number(&report["rx"]["total"]["sum_ns"]);
    let excess = total(report).saturating_sub(total(undisturbed));
    let waited = sum(report, "rx.hol");
    within("rx.hol", waited, excess / 10 * 9..=u64::MAX)?;
    assert!(stage(report, "rx.hol", "max_ns") >= ms(20), "{report}");
    nothing_longer_than_the_link(report, &["rx.stack", "rx.app"])
}

/// One undivided time, from the arrival of the last byte.
fn included(report: &Value) -> Result<(), String> {
    assert_eq!(stage(report, "rx.hol", "count"), 0, "{report}");
    assert!(stage(report, "rx.stack", "max_ns") >= ms(20), "{report}");
    nothing_longer_than_the_link(report, &["rx.app"])
}

/// Reads that waited are not in it.
fn excluded(report: &Value) -> Result<(), String> {
    assert!(number(&report["verdicts"]["hol"]) > 0, "{report}");
    nothing_longer_than_the_link(report, &["rx.stack", "rx.app"])
}

fn nothing_longer_than_the_link(report: &Value, names: &[&str]) -> Result<(), String> {
    names
        .iter()
        .try_for_each(|name| within(name, stage(report, name, "max_ns"), 0..=ms(20)))
}
