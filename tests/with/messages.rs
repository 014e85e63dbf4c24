//! Messages as `trace --format json` shows them, and what holds for each.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sockstamp_model::stage::Stage;

use crate::number;

/// Largest difference between a message's total and the sum of its stages.
const TOLERANCE_NS: u64 = 1_000;

/// The messages in a file that `trace --format json` wrote, without connections. Their stages add
/// up.
pub fn messages(path: &Path) -> Vec<Value> {
    let mut messages = lines(path);
    messages.retain(|line| !is_connection(line));
    messages.iter().for_each(assert_adds_up);
    messages
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

pub(crate) fn is_connection(line: &Value) -> bool {
    line["direction"] == "conn"
}

/// A valid message's stages add up to its total, and its total is the time between its outermost
/// stamps.
pub fn assert_adds_up(message: &Value) {
    if message["verdict"] != "valid" {
        return;
    }
    let stages = message["stages"].as_object().unwrap();
    // The stage lies before the message.
    let own = stages
        .iter()
        .filter(|(stage, _)| !stage.parse::<Stage>().unwrap().is_between_messages());
    let sum: u64 = own.map(|(_, value)| number(value)).sum();
    let stamps = &message["stamps"];
    let (first, last) = match (message["direction"].as_str(), message["protocol"].as_str()) {
        (Some("tx"), Some("tcp")) => (&stamps["entry"], &stamps["ack"]),
        // Connected sends have no stamp of their entry, and one of their end where the packet then
        // waited for its neighbour.
        (Some("tx"), _) if stamps["entry"].is_null() => {
            let begins = ["queued", "sched_last"].map(|name| &stamps[name]);
            let first = begins.into_iter().find(|stamp| !stamp.is_null());
            (first.unwrap(), &stamps["snd_last"])
        }
        (Some("tx"), _) => (&stamps["entry"], &stamps["snd_last"]),
        _ => (&stamps["rx_software"], &stamps["read"]),
    };
    for total in [number(&message["total_ns"]), number(last) - number(first)] {
        assert!(
            sum.abs_diff(total) <= TOLERANCE_NS,
            "{sum} ns in stages: {message}"
        );
    }
    assert_parts_add_up(message);
}

/// The parts of each stage add up to it.
fn assert_parts_add_up(message: &Value) {
    let Some(parts) = message["parts"].as_object() else {
        return;
    };
    for (stage, parts) in parts {
        let sum: u64 = parts.as_object().unwrap().values().map(number).sum();
        assert_eq!(sum, number(&message["stages"][stage]), "{stage}: {message}");
    }
}

/// The exact median of a stage: the value of the rank that a report's p50 has. Of one read in five
/// it may be unknown.
pub fn median(messages: &[&Value], stage: &str) -> u64 {
    let mut times: Vec<u64> = messages
        .iter()
        .map(|message| &message["stages"][stage])
        .filter(|time| !time.is_null())
        .map(number)
        .collect();
    assert!(
        times.len() * 5 >= messages.len() * 4,
        "{stage} of {} in {}",
        times.len(),
        messages.len()
    );
    times.sort_unstable();
    times[(times.len() - 1) / 2]
}

/// The part of `messages` that was sent ("tx") or received ("rx").
pub fn of_direction<'a>(messages: &'a [Value], direction: &str) -> Vec<&'a Value> {
    messages
        .iter()
        .filter(|message| message["direction"] == direction)
        .collect()
}
