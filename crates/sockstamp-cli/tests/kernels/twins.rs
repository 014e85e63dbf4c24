//! Two measurements of the same messages at the same time, by different hooks: their stamps are the same.

use std::collections::BTreeMap;

use serde_json::Value;
use testbed::Family;

use crate::common::{Trace, skip};
use crate::scene::apart;
use crate::support::Pair;

const REQUESTS: usize = 300;

#[test]
fn of_both_kinds_of_hooks() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve"]);
    let target = ["--netns", pair.client.netns_name(), "tcp"];
    let older = match Trace::try_start("--every", &[&["--hooks", "older"], &target[..]].concat()) {
        Err(reason) if reason.contains("fentry") => {
            skip("twins::of_both_kinds_of_hooks", reason.trim());
            return;
        }
        started => started.unwrap(),
    };
    let best = Trace::start(&target);
    pair.run_peer(&format!("client --count {REQUESTS}"));
    let (older, best) = (by_message(older.finish()), by_message(best.finish()));
    for messages in [&older, &best] {
        assert_eq!(messages.len(), 2 * REQUESTS);
        let valid = messages.values().filter(|message| message["verdict"] == "valid");
        // Where a clock is read while the machine stands still, the message is refused.
        assert!(valid.count() >= 2 * REQUESTS * 9 / 10);
    }
    let mut differences = BTreeMap::<(String, String), Vec<i64>>::new();
    for (key, message) in &older {
        let twin = best.get(key).unwrap_or_else(|| panic!("only by one: {message}"));
        if message["verdict"] != "valid" || twin["verdict"] != "valid" {
            continue;
        }
        for (stamp, at) in message["stamps"].as_object().unwrap() {
            if let (Some(at), Some(twin)) = (at.as_i64(), twin["stamps"][stamp].as_i64()) {
                let name = (key.0.clone(), stamp.clone());
                differences.entry(name).or_default().push(at - twin);
            }
        }
    }
    let all: Vec<_> = differences
        .iter_mut()
        .map(|((direction, stamp), differences)| {
            Difference::new(&format!("{direction} {stamp}"), differences)
        })
        .collect();
    let bound = apart();
    println!("{bound} ns apart at most: {all:?}");
    for difference in &all {
        assert!(
            difference.median.unsigned_abs() < bound,
            "{difference:?} of {all:#?}"
        );
    }
}

/// By direction, local end, remote end and last byte.
type Key = (String, String, String, u64);

fn by_message(messages: Vec<Value>) -> BTreeMap<Key, Value> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    messages
        .into_iter()
        .map(|message| {
            let key = (
                text(&message["direction"]),
                text(&message["local"]),
                text(&message["remote"]),
                message["seq_end"].as_u64().unwrap(),
            );
            (key, message)
        })
        .collect()
}

/// How much later the older hooks saw the same, in nanoseconds.
#[derive(Debug)]
#[expect(dead_code, reason = "printed, for who reads why a test failed")]
struct Difference {
    stamp: String,
    count: usize,
    p10: i64,
    median: i64,
    p90: i64,
    max: i64,
}

impl Difference {
    fn new(stamp: &str, differences: &mut [i64]) -> Difference {
        differences.sort_unstable();
        let at = |percent| differences[(differences.len() - 1) * percent / 100];
        Difference {
            stamp: stamp.to_owned(),
            count: differences.len(),
            p10: at(10),
            median: at(50),
            p90: at(90),
            max: at(100),
        }
    }
}
