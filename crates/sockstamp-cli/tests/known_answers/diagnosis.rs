//! The last line of plain `stat`: which fault it names, and that it names none where there is none.

use std::fs;

use tempfile::NamedTempFile;
use testbed::{Family, LinkConfig, within_attempts};

use std::time::Duration;

use crate::common::{hooks, peer, sockstamp};
use crate::support::Pair;

/// Return the last sentence of `stat -- client`.
fn last_line(pair: &Pair, words: &str) -> String {
    let output = NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap();
    let (address, peer, hooks) = (pair.address.to_string(), peer(), hooks());
    let mut arguments = vec!["stat", "--every", "-o", path];
    arguments.extend(hooks.iter().map(String::as_str));
    arguments.extend(["--", &peer]);
    arguments.extend(words.split_whitespace());
    arguments.extend(["--connect", &address]);
    pair.client.run(sockstamp(), &arguments).unwrap();
    let text = fs::read_to_string(path).unwrap();
    println!("{text}");
    let text = text.trim_end();
    // A sentence may take several lines.
    let start = text
        .rfind("\n diagnosis:")
        .unwrap_or_else(|| text.rfind('\n').unwrap());
    text[start..].split_whitespace().collect::<Vec<_>>().join(" ")
}

fn says(pair: &Pair, words: &str, expected: &str) -> Result<(), String> {
    let line = last_line(pair, words);
    if line.starts_with("diagnosis: ") && line.contains(expected) {
        Ok(())
    } else {
        Err(line)
    }
}

#[test]
fn a_peer_that_thinks_is_named_by_the_last_line_of_stat() {
    let link = LinkConfig::default().delay(Duration::from_millis(5));
    let pair = Pair::relay(link, Family::V4);
    let _serve = pair.serve(&["serve", "--think", "60"]);
    within_attempts(|| {
        says(
            &pair,
            "client --count 10",
            "ms to answer, of which the path is 10",
        )
    });
}

#[test]
fn nagles_algorithm_is_named_by_the_last_line_of_stat() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve", "--request", "128"]);
    let words = "client --count 20 --request 128 --pieces 2 --nodelay false";
    within_attempts(|| says(&pair, words, "Nagle's algorithm"));
}

#[test]
fn no_fault_is_named_where_requests_are_answered_at_once() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve"]);
    within_attempts(|| {
        let line = last_line(&pair, "client --count 500");
        match line.starts_with("lost: ") {
            true => Ok(()),
            false => Err(line),
        }
    });
}
