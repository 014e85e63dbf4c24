//! Questions to recordings: the SQL of docs/sql that answers them, and what the subcommands answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sockstamp_model::clock::Nanos;
use tempfile::tempdir_in;
use with::{recording, two_recordings};

/// The rows of each table.
pub type Tables = Vec<Vec<Value>>;

/// SQL over views of files.
pub struct Job {
    views: Vec<(&'static str, PathBuf)>,
    files: Vec<PathBuf>,
}

/// A job, and the check of its tables.
pub struct Question {
    pub job: Job,
    pub check: Box<dyn FnOnce(&Tables)>,
}

impl Question {
    pub fn new(
        views: Vec<(&'static str, PathBuf)>,
        files: &[&str],
        check: impl FnOnce(&Tables) + 'static,
    ) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sql");
        let files = files.iter().map(|file| folder.join(file)).collect();
        Self {
            job: Job { views, files },
            check: Box::new(check),
        }
    }
}

/// Return the JSON of a subcommand about a recording.
pub fn told(subcommand: &str, recording: &Path) -> Value {
    told_with(subcommand, &[], recording)
}

fn told_with(subcommand: &str, options: &[&str], recording: &Path) -> Value {
    let mut command = Command::new(with::sockstamp());
    let output = command
        .args([subcommand, "--format", "json"])
        .args(options)
        .arg(recording)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Return a figure, whether it is whole or not.
pub fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// The tables of `report`.
pub fn report(directory: &Path) -> Question {
    let file = directory.join("report.parquet");
    recording::write(&file, &recording::population(5_000));
    let report = told("report", &file);
    let of_groups = told_with("report", &["--by", "comm,port"], &file);
    let of_series = told_with("report", &["--by", "comm", "--interval", "10s"], &file);
    Question::new(
        vec![("recording", file)],
        &["messages.sql", "report.sql"],
        move |tables| {
            check_report(tables, &report);
            check_members(&tables[3], of_groups["groups"].as_array().unwrap());
            check_members(&tables[4], of_series["series"]["rows"].as_array().unwrap());
        },
    )
}

/// Recordings of two programs: the later one has columns that the earlier one lacks.
pub fn report_of_two_programs(directory: &Path) -> Question {
    let recordings = directory.join("programs");
    fs::create_dir(&recordings).unwrap();
    recording::write(&recordings.join("a.parquet"), &recording::population(500));
    let fixture = "../crates/sockstamp-record/tests/without-containers.parquet";
    let earlier = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture);
    fs::copy(earlier, recordings.join("b.parquet")).unwrap();
    let report = told("report", &recordings);
    let of_later = directory.join("of_later.sql");
    let sql = "SELECT count(*) AS messages, count(cpu) AS cpus, min(container) AS container
        FROM recording;";
    fs::write(&of_later, sql).unwrap();
    Question::new(
        vec![("recording", recordings.join("*.parquet"))],
        &["messages.sql", "report.sql", of_later.to_str().unwrap()],
        move |tables| {
            let [later] = &tables.last().unwrap()[..] else {
                panic!("{tables:?}");
            };
            assert_eq!(figure(&later["messages"]), 503.0);
            assert!(figure(&later["cpus"]) <= 500.0, "{later}");
            assert_eq!(tables[0].len(), 2);
            for row in &tables[0] {
                let reported = &report[row["direction"].as_str().unwrap()];
                for key in ["messages", "bytes"] {
                    assert_eq!(figure(&row[key]), figure(&reported[key]), "{row} {key}");
                }
            }
        },
    )
}

/// Compare rows of a direction each with groups of both, by their names and the begin of their
/// interval.
fn check_members(rows: &[Value], groups: &[Value]) {
    assert_eq!(rows.len(), 2 * groups.len());
    for row in rows {
        let is_of_row = |group: &&Value| {
            let of_key = |key: &str| row.get(key).is_none_or(|value| *value == group["key"][key]);
            let begins = row
                .get("begin_ns")
                .is_none_or(|begin| *begin == group["time_ns"]);
            begins && of_key("comm") && of_key("port")
        };
        let mut found = groups.iter().filter(is_of_row);
        let group = found.next().unwrap_or_else(|| panic!("{row}"));
        assert!(found.next().is_none(), "{row}");
        let group = &group[row["direction"].as_str().unwrap()];
        for key in ["messages", "measured", "refused", "bytes", "retransmits"] {
            assert_eq!(figure(&row[key]), figure(&group[key]), "{row} {key}");
        }
        let total = &group["total"];
        for key in ["count", "sum_ns", "max_ns"] {
            assert_eq!(figure(&row[key]), figure(&total[key]), "{row} {key}");
        }
        for key in ["p50_ns", "p90_ns", "p99_ns"] {
            let off = figure(&row[key]) / figure(&total[key]);
            assert!((0.915..1.093).contains(&off), "{key}: {row} {total}");
        }
    }
}

fn check_report(tables: &Tables, report: &Value) {
    let [directions, verdicts, stages, _, _] = &tables[..] else {
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
    // Three of them are sums of stages.
    assert_eq!(stages.len(), 11 + 3);
    for row in stages {
        let direction = &report[row["direction"].as_str().unwrap()];
        let reported = match row["stage"].as_str().unwrap() {
            sum @ ("sent" | "total") => &direction[sum],
            stage => &direction["stages"][stage],
        };
        for key in ["count", "sum_ns", "max_ns"] {
            assert_eq!(figure(&row[key]), figure(&reported[key]), "{row} {key}");
        }
        for key in ["p50_ns", "p90_ns", "p99_ns"] {
            let off = figure(&row[key]) / figure(&reported[key]);
            assert!((0.955..1.046).contains(&off), "{key}: {row} {reported}");
        }
    }
}

/// The ranking of `explain`.
pub fn explain(directory: &Path) -> Question {
    let file = directory.join("explain.parquet");
    recording::write(&file, &recording::population(20_000));
    let told = told_with("explain", &["-r"], &file);
    Question::new(
        vec![("recording", file)],
        &["messages.sql", "explain.sql"],
        move |tables| check_ranking(tables, &told),
    )
}

fn check_ranking(tables: &Tables, told: &Value) {
    let [ranking] = &tables[..] else {
        panic!("{tables:?}");
    };
    let explanations = told["explanations"].as_array().unwrap();
    let first = explanations
        .iter()
        .filter(|each| each["without_former"] == false);
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
    let reads: Vec<_> = ranking
        .iter()
        .filter(|row| row["kind"] == "reads")
        .collect();
    assert_eq!(reads[0]["component"], "rx.app");
}

/// Lives, as JSON and as a recording, and the offsets of the clocks.
struct Joined {
    rows: Vec<Value>,
    lives: PathBuf,
    clocks: PathBuf,
    recordings: [PathBuf; 2],
}

fn joined(directory: &Path, options: &[&str]) -> Joined {
    let folder = tempdir_in(directory).unwrap().keep();
    let rows = two_recordings::rows(Nanos::from_millis(30));
    let [first, second] = two_recordings::write(&folder, &rows);
    let [lines, lives, clocks] =
        ["lives.json", "lives.parquet", "clocks.csv"].map(|name| folder.join(name));
    let mut command = Command::new(with::sockstamp());
    command.arg("join").args(options).arg("--lives").arg(&lines);
    command.arg("-o").arg(&lives).arg("--clocks").arg(&clocks);
    let output = command.args([&first, &second]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = fs::read_to_string(lines).unwrap();
    let mut found: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    found.sort_by_key(|row| {
        let sender = row["sender"]["address"].as_str().unwrap().to_owned();
        (row["time_ns"].as_u64(), sender)
    });
    assert_eq!(found.len(), rows[0].len());
    Joined {
        rows: found,
        lives,
        clocks,
        recordings: [first, second],
    }
}

/// The lives of `join`, with these options.
pub fn join(directory: &Path, options: &[&str]) -> Question {
    let Joined {
        rows,
        clocks,
        recordings: [first, second],
        ..
    } = joined(directory, options);
    let views = vec![
        ("recording_1", first),
        ("recording_2", second),
        ("clocks", clocks),
    ];
    Question::new(views, &["join.sql"], move |tables| {
        check_lives(tables, &rows)
    })
}

fn check_lives(tables: &Tables, expected: &[Value]) {
    let [found] = &tables[..] else {
        panic!("{tables:?}");
    };
    assert_eq!(found.len(), expected.len());
    for (row, life) in found.iter().zip(expected) {
        assert_eq!(row["sender"], life["from"]);
        for key in [
            "time_ns",
            "bytes",
            "weight",
            "retransmits",
            "net_back_ns",
            "clock_error_ns",
        ] {
            assert_eq!(figure(&row[key]), figure(&life[key]), "{key}: {row} {life}");
        }
        let mut stages = 0;
        for (stage, duration) in life["stages"].as_object().unwrap() {
            let column = format!("{}_ns", stage.replace('.', "_"));
            assert_eq!(
                figure(&row[&column]),
                figure(duration),
                "{stage}: {row} {life}"
            );
            stages += 1;
        }
        assert_eq!(stages, 6, "{life}");
    }
}

/// The recording of lives is one as others are.
pub fn explain_lives(directory: &Path) -> Question {
    let lives = joined(directory, &["--ptp"]).lives;
    let views = vec![("recording", lives)];
    Question::new(views, &["messages.sql", "explain.sql"], |tables| {
        let first = &tables.last().unwrap()[0];
        assert_eq!(
            (&first["kind"], &first["component"]),
            (&"lives".into(), &"net.forward".into())
        );
    })
}

/// Return the jobs as the scripts take them.
pub fn jobs(questions: &[Question]) -> String {
    let jobs = questions.iter().map(|question| {
        let views = question.job.views.iter();
        let views =
            views.map(|(name, path)| ((*name).to_owned(), Value::from(path.to_str().unwrap())));
        serde_json::json!({
            "views": views.collect::<serde_json::Map<_, _>>(),
            "files": question.job.files,
        })
    });
    Value::from_iter(jobs).to_string()
}

/// Check the tables of each.
pub fn check(questions: Vec<Question>, answers: &[Tables]) {
    assert_eq!(questions.len(), answers.len());
    for (question, tables) in questions.into_iter().zip(answers) {
        (question.check)(tables);
    }
}
