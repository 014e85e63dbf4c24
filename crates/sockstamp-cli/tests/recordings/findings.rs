//! Find stages and changes in recordings by `explain` and `diff`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sockstamp_model::stage::Stage;
use sockstamp_record::{Batch, Writer};
use tempfile::tempdir;
use with::{number, recording};

use super::{ask_slow, end, record};

#[test]
fn explain_names_a_server_that_is_slow_at_times() {
    const FLOWS: usize = 25;
    const WORK: Duration = Duration::from_millis(50);
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let recording = record(&file, &[], &["tcp", "port", &port]);
    for _ in 0..FLOWS {
        ask_slow(&listener, 130, Duration::ZERO, [WORK, Duration::ZERO]);
    }
    end(recording);
    let text = explain(&file, &[]);
    let answers = text
        .split(" answers:")
        .nth(1)
        .unwrap_or_else(|| panic!("{text}"));
    let first = answers
        .lines()
        .find(|line| line.contains("of the excess is"));
    let first = first.unwrap_or_else(|| panic!("{text}"));
    assert!(first.contains("peer.answer peer"), "{text}");
    assert!(answers.contains("usual cure: That of the peer"), "{text}");
    let first_cause = answers
        .split(" answers without these:")
        .next()
        .unwrap_or_default();
    assert_eq!(first_cause.matches("one of them:").count(), 3, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }

    // One answer of each flow took as long as the server worked, by the server's own sleep.
    let json = explain(&file, &["--format", "json", "--slow", "49ms"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["version"], 2);
    let explanations = json["explanations"].as_array().unwrap();
    let answers = explanations
        .iter()
        .find(|one| one["kind"] == "answers")
        .unwrap();
    assert!(number(&answers["slow"]) >= FLOWS as u64, "{answers}");
    assert_eq!(answers["claim"], "first");
    assert_eq!(answers["components"][0]["part"], "peer");
    for life in answers["lives"].as_array().unwrap() {
        assert!(
            number(&life["stages"]["peer.answer"]) >= 49_000_000,
            "{life}"
        );
    }
}

fn explain(recording: &Path, options: &[&str]) -> String {
    let output = Command::new(with::sockstamp())
        .args(["explain", "-r"])
        .arg(recording)
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn diff(before: &Path, after: &Path, options: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(with::sockstamp())
        .arg("diff")
        .args([before, after])
        .args(options)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[test]
fn without_a_message_there_is_nothing_to_compare() {
    let directory = tempdir().unwrap();
    let [some, none] = ["some.parquet", "none.parquet"].map(|name| directory.path().join(name));
    recording::write(&some, &recording::population(10));
    recording::write(&none, &[]);
    for (sides, filter, lacks) in [
        ([&some, &none], &[][..], "no message matches after"),
        ([&none, &some], &[], "no message matches before"),
        (
            [&some, &some],
            &["port", "1"],
            "no message matches on either side",
        ),
    ] {
        let mut command = Command::new(with::sockstamp());
        let output = command.arg("diff").args(sides).args(filter).output();
        let output = output.unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("nothing to compare: ") && told.contains(lacks),
            "{told}"
        );
    }
}

#[test]
fn diff_finds_a_server_that_works_longer() {
    const FLOWS: usize = 25;
    const WORK: Duration = Duration::from_millis(20);
    let directory = tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let [before, after] = [("before", Duration::ZERO), ("after", WORK)].map(|(name, work)| {
        let file = directory.path().join(name);
        let recording = record(&file, &[], &["tcp", "port", &port]);
        for _ in 0..FLOWS {
            ask_slow(&listener, 10, Duration::ZERO, [work; 2]);
            // All answers of one moment would not tell what chance makes of moments.
            thread::sleep(Duration::from_millis(50));
        }
        end(recording);
        file
    });
    // The server's sleep is the change, by its own clock.
    let (status, json) = diff(&before, &after, &["--format", "json"]);
    assert_eq!(status, Some(0), "{json}");
    let json: Value = serde_json::from_str(&json).unwrap();
    let changes = json["changes"].as_array().unwrap();
    let answer = changes
        .iter()
        .find(|change| change["stage"] == "peer.answer" && change["quantile"] == "p50")
        .unwrap_or_else(|| panic!("{json}"));
    assert_eq!(answer["beyond_chance"], true, "{answer}");
    assert_eq!(answer["matters"], true, "{answer}");
    assert_eq!(changes[0]["beyond_chance"], true, "{json}");
    let [old, new] = ["before_ns", "after_ns"].map(|key| answer[key].as_f64().unwrap());
    // Buckets are 3 % wide.
    assert!(new >= WORK.as_nanos() as f64 * 0.97, "{answer}");
    assert!(old < new, "{answer}");

    let gate = ["--fail-if", "peer.answer.p50 > +20%"];
    let (status, text) = diff(&before, &after, &gate);
    assert_eq!(status, Some(3), "{text}");
    assert!(text.contains("fails: peer.answer.p50 > +20%"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let (status, text) = diff(&before, &before, &gate);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("changed: by too little to matter"), "{text}");
    // Recordings of either system, named twice as if they were others.
    let several = |sides: [&[&PathBuf]; 2]| {
        let mut command = Command::new(with::sockstamp());
        command.arg("diff").arg("--before").args(sides[0]);
        let output = command
            .arg("--after")
            .args(sides[1])
            .args(gate)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (status, text) = several([&[&before; 3], &[&after; 3]]);
    assert_eq!(status, Some(3), "{text}");
    let (status, text) = several([&[&before, &after, &before], &[&after, &before, &after]]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("changed: maybe "), "{text}");
    // A connection was accepted on one side only: no change of that can hold.
    let accepted = directory.path().join("accepted");
    let mut messages = recording::population(5_000);
    recording::write(&accepted, &messages);
    let none = directory.path().join("none");
    messages.retain(|message| message.stages[Stage::ConnAccept].is_none());
    recording::write(&none, &messages);
    let gate = ["--fail-if", "conn.accept.p50 > +20%"];
    for (sides, side) in [
        ([&none, &accepted], "after"),
        ([&accepted, &none], "before"),
    ] {
        let (status, text) = diff(sides[0], sides[1], &gate);
        assert_eq!(status, Some(1), "{text}");
        let line = text
            .lines()
            .find(|line| line.contains("conn.accept"))
            .unwrap();
        assert!(line.contains(&format!("only {side}: ")), "{text}");
        assert!(!text.contains("fails:"), "{text}");
        let (_, json) = diff(sides[0], sides[1], &["--format", "json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        let [one] = &json["one_sided"].as_array().unwrap()[..] else {
            panic!("{json}");
        };
        assert_eq!(
            (&one["stage"], &one["side"]),
            (&"conn.accept".into(), &side.into())
        );
        assert!(number(&one["messages"]) > 0, "{json}");
    }
    // An absent stage cannot be examined.
    let (status, _) = diff(&before, &after, &["--fail-if", "rx.nic.p50 > +20%"]);
    assert_eq!(status, Some(1));
}

#[test]
fn explain_says_that_only_slow_messages_were_recorded() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    let facts = [("slower_than_ns", "50000000".to_owned())];
    let mut writer = Writer::create(&file, &facts).unwrap();
    let mut batch = Batch::new();
    for message in recording::population(5_000) {
        batch.push(&message);
    }
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let text = explain(&file, &[]);
    let expected = " recording: only messages that took longer than 50.0 ms were recorded";
    assert!(text.starts_with(expected), "{text}");
    let json: Value = serde_json::from_str(&explain(&file, &["--format", "json"])).unwrap();
    assert_eq!(json["recorded_slower_than_ns"], 50_000_000);
    assert_eq!(json["explanations"][0]["percentiles_rounded"], false);
}
