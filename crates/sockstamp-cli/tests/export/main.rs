//! Exports are read by the programs that they are for, or by their own schema.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sockstamp_model::message::Message;
use tempfile::{TempDir, tempdir};
use with::recording::{self, HOSTILE};
use with::{number, sockstamp};

struct Recording {
    directory: TempDir,
    file: PathBuf,
}

impl Recording {
    fn of(messages: &[Message]) -> Self {
        let directory = tempdir().unwrap();
        let file = directory.path().join("recording.parquet");
        recording::write(&file, messages);
        Self { directory, file }
    }

    fn export(&self, options: &[&str], output: &Path) -> Output {
        let mut command = Command::new(sockstamp());
        command.arg("export").args(options).arg("-o").arg(output);
        command.arg(&self.file).output().unwrap()
    }

    /// Return the slices of the trace, as Perfetto's schema has them.
    fn slices(&self, options: &[&str]) -> Vec<Value> {
        let trace = self.directory.path().join("trace");
        let exported = self.export(&[&["--perfetto"], options].concat(), &trace);
        assert!(exported.status.success(), "{exported:?}");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/slices.py");
        let mut python = with::python();
        let read = python.arg(script).arg(&trace).output().unwrap();
        assert!(
            read.status.success(),
            "{}",
            String::from_utf8_lossy(&read.stderr)
        );
        let lines = String::from_utf8(read.stdout).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn report(&self) -> Value {
        let mut command = Command::new(sockstamp());
        let output = command
            .args(["report", "--format", "json"])
            .arg(&self.file)
            .output();
        serde_json::from_slice(&output.unwrap().stdout).unwrap()
    }
}

fn words(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect()
}

#[test]
fn a_trace_for_perfetto_has_each_stage_of_each_message() {
    let mut messages = recording::population(2_000);
    messages.iter_mut().for_each(|message| message.weight = 1);
    let recording = Recording::of(&messages);
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut refused = 0;
    for slice in recording.slices(&[]) {
        let track = words(&slice["track"]);
        assert_eq!(track.len(), 3, "{slice}");
        let inside = words(&slice["inside"]);
        let name = slice["name"].as_str().unwrap();
        refused += u64::from(slice["instant"] == true);
        // A part is in its stage, and that in its message if it is of its path.
        let name = match inside[..] {
            [.., stage] if stage.contains('.') => format!("{stage} {name}"),
            _ if name.contains('.') => name.to_owned(),
            _ => track[2].to_owned(),
        };
        let sum = sums.entry(name).or_default();
        sum.0 += 1;
        sum.1 += number(&slice["duration"]);
    }
    let report = recording.report();
    let count = |kind: &str| sums[kind].0;
    assert_eq!(
        count("sends") + count("reads"),
        number(&report["tx"]["messages"]) + number(&report["rx"]["messages"])
    );
    assert_eq!(refused, number(&report["verdicts"]["reset"]));
    assert!(refused > 0);
    let stages = ["tx", "rx"].map(|direction| report[direction]["stages"].as_object().unwrap());
    let mut compared = 0;
    for (stage, figures) in stages.into_iter().flatten() {
        let (count, sum) = sums[stage];
        assert_eq!(
            (count, sum),
            (number(&figures["count"]), number(&figures["sum_ns"])),
            "{stage}"
        );
        compared += 1;
    }
    assert_eq!(compared, 11);
}

#[test]
fn names_in_a_trace_are_those_of_the_messages() {
    let messages = recording::population(300);
    let recording = Recording::of(&messages);
    let slices = recording.slices(&[]);
    let names: Vec<_> = slices
        .iter()
        .map(|slice| words(&slice["track"])[0])
        .collect();
    assert!(names.contains(&format!("{HOSTILE}/100").as_str()));
    assert!(names.contains(&"nginx/101"));
    let flow = slices
        .iter()
        .find(|slice| slice["values"]["cookie"] == 8)
        .unwrap();
    assert_eq!(
        words(&flow["track"])[1],
        "tcp 10.0.0.1:443 → 10.0.0.7:50007"
    );
}

#[test]
fn fast_messages_are_left_out_on_request() {
    let recording = Recording::of(&recording::population(2_000));
    let slices = recording.slices(&["--slow", "20ms"]);
    let messages = slices
        .iter()
        .filter(|slice| slice["values"]["bytes"].is_u64());
    let times: Vec<u64> = messages.map(|slice| number(&slice["duration"])).collect();
    assert!(
        !times.is_empty() && times.iter().all(|time| *time >= 20_000_000),
        "{times:?}"
    );
}

#[test]
fn a_recording_is_not_written_over() {
    let recording = Recording::of(&recording::population(10));
    let before = std::fs::read(&recording.file).unwrap();
    let refused = recording.export(&["--perfetto"], &recording.file);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("write to another file"),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&recording.file).unwrap(), before);
}

/// SIGXFSZ would end it without a word.
#[test]
fn a_file_that_grows_to_its_limit_is_an_error_in_words() {
    let recording = Recording::of(&recording::population(300));
    let output = recording.directory.path().join("trace");
    let mut command = Command::new("prlimit");
    command.arg("--fsize=512").arg(sockstamp());
    command.args(["export", "--perfetto", "-o"]).arg(output);
    let exported = command.arg(&recording.file).output().unwrap();
    let told = String::from_utf8_lossy(&exported.stderr);
    assert_eq!(exported.status.code(), Some(1), "{told}");
    assert!(told.contains("File too large"), "{told}");
}
