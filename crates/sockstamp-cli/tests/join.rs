//! Whole lives from the recordings of two made-up hosts.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_model::stage::Stage;
use tempfile::{TempDir, tempdir};
use with::{number, two_recordings};

const SLOW: Nanos = Nanos::from_millis(30);

/// Return what a subcommand prints.
fn printed(arguments: &[&str], files: &[&Path]) -> String {
    let mut command = Command::new(with::sockstamp());
    let output = command.args(arguments).args(files).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn told(subcommand: &str, files: &[&Path]) -> Value {
    serde_json::from_str(&printed(&[subcommand, "--format", "json"], files)).unwrap()
}

/// Join two recordings; return the report, and the recording of their lives.
fn join(directory: &TempDir, rows: &[Vec<Message>; 2]) -> (Value, PathBuf) {
    let paths = two_recordings::write(directory.path(), rows);
    let lives = directory.path().join("lives.parquet");
    let output = ["join", "--format", "json", "-o", lives.to_str().unwrap()];
    let told = printed(&output, &[&paths[0], &paths[1]]);
    (serde_json::from_str(&told).unwrap(), lives)
}

#[test]
fn report_has_the_stages_of_both_hosts_and_the_network() {
    let directory = tempdir().unwrap();
    let rows = two_recordings::rows(SLOW);
    let (joined, lives) = join(&directory, &rows);
    let report = told("report", &[&lives]);
    let sum = |joined: &Value, stage: &str| -> u64 {
        let directions = joined["directions"].as_array().unwrap().iter();
        directions
            .map(|direction| number(&direction["stages"][stage]["sum_ns"]))
            .sum()
    };
    for stage in [
        "tx.copy",
        "tx.queue",
        "tx.qdisc",
        "net.forward",
        "rx.stack",
        "rx.app",
    ] {
        let reported = &report["tx"]["stages"][stage];
        assert_eq!(number(&reported["sum_ns"]), sum(&joined, stage), "{stage}");
        assert_eq!(number(&reported["count"]), rows[0].len() as u64, "{stage}");
    }
    let of_both = |key: &str| -> u64 {
        let directions = joined["directions"].as_array().unwrap().iter();
        directions
            .map(|direction| number(&direction[key]["sum_ns"]))
            .sum()
    };
    assert_eq!(number(&report["tx"]["sent"]["sum_ns"]), of_both("total"));
    assert_eq!(number(&report["tx"]["total"]["sum_ns"]), of_both("total"));
    let back = &report["tx"]["stages"]["net.back"]["sum_ns"];
    assert_eq!(number(back), of_both("net_back"));
    assert_eq!(report["rx"]["messages"], 0);
    // The parts of the sender's stages are kept.
    let queue = sum(&joined, "tx.queue");
    let cwnd = number(&report["tx"]["parts"]["tx.queue"]["cwnd"]["sum_ns"]);
    assert!(
        cwnd.abs_diff(queue / 2) < rows[0].len() as u64,
        "{cwnd} of {queue}"
    );
    let text = printed(&["report"], &[&lives]);
    let row = |name: &str| {
        text.lines()
            .position(|line| line.trim_start().starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let order = [
        "lives:",
        "tx.copy",
        "net.forward",
        "rx.stack",
        "rx.app",
        "life ",
        "net.back",
    ]
    .map(row);
    assert!(order.is_sorted(), "{text}");
    assert!(
        !text.contains("rx total") && !text.contains("rx:"),
        "{text}"
    );
}

#[test]
fn explain_names_the_way_between_the_hosts() {
    let directory = tempdir().unwrap();
    let (_, lives) = join(&directory, &two_recordings::rows(SLOW));
    let told = printed(&["explain", "--format", "json", "-r"], &[&lives]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let explanations = told["explanations"].as_array().unwrap();
    assert!(
        explanations
            .iter()
            .all(|explanation| explanation["kind"] == "lives")
    );
    let first = &explanations[0]["components"][0];
    assert_eq!(first["stage"], "net.forward", "{told}");
    assert!(first["share"].as_f64().unwrap() > 0.9, "{first}");
    let text = printed(&["explain", "-r"], &[&lives]);
    assert!(text.contains("of the excess is net.forward"), "{text}");
}

#[test]
fn diff_finds_the_changed_stages_of_whole_lives() {
    let [before, after] = [tempdir().unwrap(), tempdir().unwrap()];
    let (_, fast) = join(&before, &two_recordings::rows(Nanos::ZERO));
    let mut rows = two_recordings::rows(Nanos::ZERO);
    // The reader of the second host takes longer.
    for read in rows[1]
        .iter_mut()
        .filter(|row| row.stages[Stage::RxApp].is_some())
    {
        read.stages[Stage::RxApp] =
            read.stages[Stage::RxApp].map(|app| app + Nanos::from_millis(1));
        let later = |time: u64| time + 1_000_000;
        read.stamps.read = read
            .stamps
            .read
            .map(|stamp| Timestamp::from_nanos(later(stamp.as_nanos())));
        read.time = Timestamp::from_nanos(later(read.time.as_nanos()));
    }
    let (_, slow) = join(&after, &rows);
    let told = told("diff", &[&fast, &slow]).to_string();
    assert!(
        told.contains("rx.app") && told.contains("\"life\""),
        "{told}"
    );
}

#[test]
fn lives_are_not_joined_again() {
    let directory = tempdir().unwrap();
    let (_, lives) = join(&directory, &two_recordings::rows(SLOW));
    let copy = directory.path().join("copy.parquet");
    std::fs::copy(&lives, &copy).unwrap();
    let mut command = Command::new(with::sockstamp());
    let output = command.arg("join").args([&lives, &copy]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("lives.parquet: its messages are joined already"),
        "{errors}"
    );
}

#[test]
fn recordings_of_other_hours_are_not_joined() {
    let directory = tempdir().unwrap();
    let mut rows = two_recordings::rows(SLOW);
    for message in &mut rows[1] {
        message.time = Timestamp::from_nanos(message.time.as_nanos() + 3_600_000_000_000);
        message.seq_end = message.seq_end.wrapping_add(1 << 30);
    }
    let paths = two_recordings::write(directory.path(), &rows);
    let before = ["lives", "clocks"].map(|name| directory.path().join(name));
    for path in &before {
        std::fs::write(path, "of yesterday").unwrap();
    }
    let new = directory.path().join("new.parquet");
    let mut command = Command::new(with::sockstamp());
    command.arg("join").args(paths);
    command
        .arg("--lives")
        .arg(&before[0])
        .arg("--clocks")
        .arg(&before[1]);
    let output = command.arg("-o").arg(&new).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let told = "nothing was joined: by their hosts' clocks, the first is of ";
    assert!(errors.contains(told), "{errors}");
    for path in before {
        assert_eq!(std::fs::read(path).unwrap(), b"of yesterday");
    }
    assert!(!new.exists());
}

#[test]
fn a_recording_of_lives_takes_a_new_file() {
    let directory = tempdir().unwrap();
    let paths = two_recordings::write(directory.path(), &two_recordings::rows(SLOW));
    let script = directory.path().join("client.py");
    std::fs::write(&script, "pass").unwrap();
    let mut command = Command::new(with::sockstamp());
    let output = command.arg("join").args(paths).arg("-o").arg(&script);
    let output = output.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("client.py exists: name another"),
        "{errors}"
    );
    assert_eq!(std::fs::read(script).unwrap(), b"pass");
}

/// A row may follow a later one by at most the seconds that a row group spans.
#[test]
fn late_bounds_and_times_below_zero_are_counted() {
    let directory = tempdir().unwrap();
    let mut rows = two_recordings::rows(SLOW);
    let end = rows[0][40].seq_end;
    for rows in &mut rows {
        let early = rows.iter().position(|row| row.seq_end == end).unwrap();
        let early = rows.remove(early);
        rows.push(early);
    }
    // The acknowledgement is stamped before the socket is readable.
    let sent = rows[0]
        .iter()
        .position(|row| row.stamps.ack.is_some())
        .unwrap();
    let end = rows[0][sent].seq_end;
    let read = rows[1].iter().find(|row| row.seq_end == end).unwrap();
    let ready = read.time.as_nanos() - read.stages[Stage::RxApp].unwrap().0;
    let sent = &mut rows[0][sent];
    let earlier = Nanos(sent.time.as_nanos() - ready + 1_000);
    sent.stages[Stage::TxNetwork] = sent.stages[Stage::TxNetwork].unwrap().checked_sub(earlier);
    sent.stamps.ack = sent.stamps.ack.unwrap().before(earlier);
    sent.time = sent.time.before(earlier).unwrap();
    let paths = two_recordings::write(directory.path(), &rows);
    let files = [paths[0].as_path(), paths[1].as_path()];
    let joined = printed(&["join", "--ptp", "--format", "json"], &files);
    let joined: Value = serde_json::from_str(&joined).unwrap();
    let late = number(&joined["clocks"]["late"]);
    assert!(late > 0, "{joined}");
    assert_eq!(joined["clamped"]["net_back"], 1, "{joined}");
    let text = printed(&["join", "--ptp"], &files);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(&format!("without {late} bounds that came late")),
        "{text}"
    );
    assert!(
        text.contains("below zero, given as zero: net.back 1"),
        "{text}"
    );
}
