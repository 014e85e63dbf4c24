//! The code of docs/python.md and its notebook gives the figures of `report`, and copies that other
//! programs write are read.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;
use with::recording;

use crate::answers::{figure, told};

const NAMES: [(&str, &str); 4] = [
    ("tx_copy_ns", "tx.copy"),
    ("tx_queue_ns", "tx.queue"),
    ("tx_qdisc_ns", "tx.qdisc"),
    ("tx_network_ns", "tx.network"),
];

/// Run all code that the pages have, and write all copies.
fn run_the_code(folder: &Path) -> Vec<Value> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = with::python_with("requirements-data.txt")
        .arg(here.join("sql/in_python.py"))
        .args([&here.join("../docs"), folder])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn compare(table: &Value, report: &Value) {
    let rows = table.as_object().unwrap();
    assert!(rows.len() >= 3, "{table}");
    for (column, row) in rows {
        let (_, stage) = NAMES.iter().find(|(name, _)| name == column).unwrap();
        let reported = &report["tx"]["stages"][*stage];
        assert_eq!(figure(&row["count"]), figure(&reported["count"]), "{stage}");
        assert_eq!(figure(&row["max"]), figure(&reported["max_ns"]), "{stage}");
        for quantile in ["p50", "p99"] {
            let exact = figure(&row[quantile]);
            let off = exact / figure(&reported[format!("{quantile}_ns")]);
            assert!((0.955..1.046).contains(&off), "{stage} {quantile}: {off}");
        }
    }
}

/// Return the error of a file that is refused.
fn refusal(file: &Path) -> String {
    let report = Command::new(with::sockstamp())
        .arg("report")
        .arg(file)
        .output();
    let Output { status, stderr, .. } = report.unwrap();
    assert!(!status.success(), "{}", file.display());
    String::from_utf8(stderr).unwrap()
}

#[test]
fn the_code_of_the_documentation_and_report_agree_and_copies_are_read() {
    let directory = tempdir().unwrap();
    let folder = directory.path();
    let original = folder.join("recording.parquet");
    recording::write(&original, &recording::population(5_000));
    let report = told("report", &original);
    let tables = run_the_code(folder);
    assert_eq!(tables.len(), 4, "three programs, and the notebook");
    for table in &tables {
        compare(table, &report);
    }

    let copy = |name: &str| folder.join(name).with_extension("parquet");
    for name in [
        "duckdb", "polars", "pandas", "pyarrow", "lz4", "zstd", "none",
    ] {
        let copied = told("report", &copy(name));
        for key in ["tx", "rx", "verdicts"] {
            assert_eq!(copied[key], report[key], "{name}: {key}");
        }
    }
    let part = told("report", &copy("part"));
    assert!(figure(&part["tx"]["messages"]) < figure(&report["tx"]["messages"]));
    let many = told("report", &copy("many"));
    for direction in ["tx", "rx"] {
        let messages = figure(&many[direction]["messages"]);
        assert_eq!(messages, 40.0 * figure(&report[direction]["messages"]));
    }

    for (name, reason) in [
        ("points", "has another type: DOUBLE, and not INT64"),
        ("gzip", "it is compressed by GZIP"),
        ("null", "column weight: "),
    ] {
        let told = refusal(&copy(name));
        assert!(told.contains(reason), "{told}");
        assert!(name == "null" || !told.contains("damaged"), "{told}");
    }
}
