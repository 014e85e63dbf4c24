//! The SQL of docs/sql gives the answers of the subcommands in Apache Spark, with several workers.
//! `cargo xtask test sql-spark` runs it: it needs Java and a package of 500 MB.

mod answers;

use std::path::Path;

use answers::Tables;
use serde::Deserialize;
use tempfile::tempdir;

/// Two workers in processes of their own, each with a processor and a gigabyte.
const CLUSTER: &str = "local-cluster[2,1,1024]";

#[derive(Deserialize)]
struct Answered {
    executors: usize,
    answers: Vec<Tables>,
}

#[test]
fn a_cluster_gives_the_same_answers() {
    let directory = tempdir().unwrap();
    let directory = directory.path();
    let questions = vec![
        answers::report(directory),
        answers::report_of_two_programs(directory),
        answers::explain(directory),
        answers::join(directory, &[]),
        answers::join(directory, &["--ptp"]),
        answers::explain_lives(directory),
    ];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/in_spark.py");
    let mut python = with::python_with("requirements-spark.txt");
    let output = python
        .arg(script)
        .args([CLUSTER, &answers::jobs(&questions)])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let answered: Answered =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
    assert_eq!(answered.executors, 2);
    answers::check(questions, &answered.answers);
}
