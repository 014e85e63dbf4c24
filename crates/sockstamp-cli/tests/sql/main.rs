//! The SQL of docs/sql gives the answers of the subcommands.

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sockstamp_model::clock::Nanos;
use tempfile::tempdir;

use common::{recording, two_recordings};

/// Return what a subcommand says in JSON about a recording.
fn told(subcommand: &str, recording: &Path) -> Value {
    let mut command = Command::new(common::sockstamp());
    let output = command
        .args([subcommand, "--format", "json"])
        .arg(recording)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Run files of docs/sql in DuckDB; return the rows of each table but those of the views.
fn tables(files: &[&str], recording: &Path) -> Vec<Vec<Value>> {
    tables_of(files, recording.to_str().unwrap())
}

/// Run files of docs/sql with these variables.
fn tables_of(files: &[&str], variables: &str) -> Vec<Vec<Value>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = common::python();
    python.arg(root.join("tests/sql/run.py")).arg(variables);
    python.args(files.iter().map(|file| root.join("../../docs/sql").join(file)));
    let output = python.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tables: Vec<Vec<Value>> = serde_json::from_slice(&output.stdout).unwrap();
    let is_table = |rows: &Vec<Value>| rows.iter().any(|row| row.get("Count").is_none());
    tables.into_iter().filter(is_table).collect()
}

/// Return a figure, whether it is whole or not.
fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn report_and_sql_agree() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("recording.parquet");
    recording::write(&file, &recording::population(5_000));
    let report = told("report", &file);
    let tables = tables(&["messages.sql", "report.sql"], &file);
    let [directions, verdicts, stages] = &tables[..] else {
        panic!("{tables:?}");
    };
    assert_eq!(directions.len(), 2);
    for row in directions {
        let reported = &report[row["direction"].as_str().unwrap()];
        for key in ["messages", "bytes"] {
            assert_eq!(figure(&row[key]), figure(&reported[key]), "{row} {key}");
        }
    }
    assert_eq!(verdicts.len(), 2);
    for row in verdicts {
        let reported = &report["verdicts"][row["verdict"].as_str().unwrap()];
        assert_eq!(figure(&row["messages"]), figure(reported), "{row}");
    }
    assert_eq!(stages.len(), 11);
    for row in stages {
        let reported = &report[row["direction"].as_str().unwrap()]["stages"][row["stage"].as_str().unwrap()];
        for key in ["count", "sum_ns", "max_ns"] {
            assert_eq!(figure(&row[key]), figure(&reported[key]), "{row} {key}");
        }
        for key in ["p50_ns", "p90_ns", "p99_ns"] {
            let off = figure(&row[key]) / figure(&reported[key]);
            assert!((0.955..1.046).contains(&off), "{key}: {row} {reported}");
        }
    }
}

#[test]
fn explain_and_sql_rank_the_same_stages() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("recording.parquet");
    recording::write(&file, &recording::population(20_000));
    let told = told("explain", &file);
    let tables = tables(&["messages.sql", "explain.sql"], &file);
    let [ranking] = &tables[..] else {
        panic!("{tables:?}");
    };
    let explanations = told["explanations"].as_array().unwrap();
    let first = explanations.iter().filter(|each| each["without_former"] == false);
    let mut compared = 0;
    for explanation in first {
        let kind = &explanation["kind"];
        for component in explanation["components"].as_array().unwrap() {
            let stage = component["stage"].as_str().unwrap();
            let name = match component["part"].as_str() {
                Some(part) => format!("{stage} {part}"),
                None => stage.to_owned(),
            };
            let is_same = |row: &&Value| row["kind"] == *kind && row["component"] == name.as_str();
            let row = ranking
                .iter()
                .find(is_same)
                .unwrap_or_else(|| panic!("{kind} {name}"));
            for key in ["norm_ns", "excess_ns", "share"] {
                let [here, there] = [&row[key], &component[key]].map(figure);
                assert!(
                    (here - there).abs() <= 1e-6 * there.abs().max(1.0),
                    "{key}: {row} {component}"
                );
            }
            compared += 1;
        }
    }
    assert_eq!(compared, ranking.len());
    // The late reader of the population.
    let reads: Vec<_> = ranking.iter().filter(|row| row["kind"] == "reads").collect();
    assert_eq!(reads[0]["component"], "rx.app");
}

/// Return the rows that `join` writes.
fn lives(first: &Path, second: &Path, directory: &Path) -> (Vec<Value>, PathBuf) {
    let [lines, lives] = ["lives.json", "lives.parquet"].map(|name| directory.join(name));
    let mut command = Command::new(common::sockstamp());
    command.args(["join", "--ptp", "--lives"]).arg(&lines);
    command.arg("-o").arg(&lives).args([first, second]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = fs::read_to_string(lines).unwrap();
    let mut rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    rows.sort_by_key(|row| {
        let sender = row["sender"]["address"].as_str().unwrap().to_owned();
        (row["time_ns"].as_u64(), sender)
    });
    (rows, lives)
}

#[test]
fn join_and_sql_find_the_same_lives() {
    let directory = tempdir().unwrap();
    let rows = two_recordings::rows(Nanos::from_millis(30));
    let [first, second] = two_recordings::write(directory.path(), &rows);
    let (expected, lives) = lives(&first, &second, directory.path());
    let variables = format!("first={},second={}", first.display(), second.display());
    let tables = tables_of(&["join.sql"], &variables);
    let found = tables.last().unwrap();
    assert_eq!((found.len(), expected.len()), (rows[0].len(), rows[0].len()));
    for (row, life) in found.iter().zip(&expected) {
        assert_eq!(row["sender"], life["from"]);
        for key in ["time_ns", "bytes", "weight", "retransmits", "net_back_ns"] {
            assert_eq!(figure(&row[key]), figure(&life[key]), "{key}: {row} {life}");
        }
        let mut stages = 0;
        for (stage, duration) in life["stages"].as_object().unwrap() {
            let column = format!("{}_ns", stage.replace('.', "_"));
            assert_eq!(figure(&row[&column]), figure(duration), "{stage}: {row} {life}");
            stages += 1;
        }
        assert_eq!(stages, 6, "{life}");
    }
    // The recording of lives is one as others are.
    let tables = self::tables(&["messages.sql", "explain.sql"], &lives);
    let first = &tables.last().unwrap()[0];
    assert_eq!(
        (&first["kind"], &first["component"]),
        (&"lives".into(), &"net.forward".into())
    );
}
