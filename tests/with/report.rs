//! The report of `stat`, and the figures in it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sockstamp_model::stage::Stage;

/// The object in a file that `stat --format json` wrote.
pub fn report(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A number in JSON.
pub fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// A figure of a stage in a report: `p50_ns`, `count`, ...
pub fn stage(report: &Value, stage: &str, figure: &str) -> u64 {
    let value = &report[direction_of(stage)]["stages"][stage][figure];
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no {figure} of {stage} in {report}"))
}

/// Return the key of the direction under which a report has a stage.
pub fn direction_of(stage: &str) -> &'static str {
    stage.parse::<Stage>().unwrap().direction().name()
}

/// Shorten a report for the message of a failed test.
pub fn in_short(report: &Value) -> String {
    let mut text = format!("verdicts {} lost {}", report["verdicts"], report["lost"]);
    for direction in ["tx", "rx"] {
        let part = &report[direction];
        text += &format!(
            "; {direction}: {} messages, {} bytes, {} retransmits",
            part["messages"], part["bytes"], part["retransmits"]
        );
        for (name, figures) in part["stages"].as_object().unwrap() {
            text += &format!(
                ", {name} p50 {} p90 {} max {}",
                figures["p50_ns"], figures["p90_ns"], figures["max_ns"]
            );
        }
        for (name, parts) in part["parts"].as_object().into_iter().flatten() {
            for (cause, figures) in parts.as_object().unwrap() {
                text += &format!(
                    ", {name}/{cause} {} ns of {}",
                    figures["sum_ns"], figures["count"]
                );
            }
        }
    }
    text
}
