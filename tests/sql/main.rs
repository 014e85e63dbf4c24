//! The SQL of docs/sql gives the answers of the subcommands, in DuckDB.

mod answers;
mod examples;
mod in_vain;
mod python;

use std::path::Path;

use answers::{Question, Tables};
use tempfile::tempdir;

fn ask(question: impl FnOnce(&Path) -> Question) {
    let directory = tempdir().unwrap();
    let questions = vec![question(directory.path())];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/in_duckdb.py");
    let mut python = with::python();
    let output = python
        .arg(script)
        .arg(answers::jobs(&questions))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tables: Vec<Tables> = serde_json::from_slice(&output.stdout).unwrap();
    answers::check(questions, &tables);
}

#[test]
fn report_and_sql_agree() {
    ask(answers::report);
    ask(answers::report_of_two_programs);
}

#[test]
fn report_and_the_examples_of_the_documentation_agree() {
    ask(examples::examples);
}

#[test]
fn explain_and_sql_rank_the_same_stages() {
    ask(answers::explain);
    ask(answers::explain_lives);
}

#[test]
fn join_and_sql_find_the_same_lives() {
    ask(|directory| answers::join(directory, &[]));
    ask(|directory| answers::join(directory, &["--ptp"]));
}
