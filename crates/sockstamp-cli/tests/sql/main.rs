//! The SQL of docs/sql gives the answers of the subcommands.

#[path = "../common/mod.rs"]
mod common;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;

use common::recording;

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = common::python();
    python.arg(root.join("tests/sql/run.py")).arg(recording);
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
