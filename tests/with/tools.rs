//! Programs that tests use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::NamedTempFile;

/// Python with the packages of scripts/requirements.txt.
pub fn python() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/python.sh"))
}

/// Do the same, with the packages of another file of requirements.
pub fn python_with(requirements: &str) -> Command {
    let mut python = python();
    python.env("REQUIREMENTS", requirements);
    python
}

/// Socket programs whose behaviour is known.
pub fn peer() -> String {
    let path = testbed::peer_program().unwrap();
    path.into_os_string().into_string().unwrap()
}

/// Return a path in packaging/.
pub fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../packaging")
        .join(path)
}

/// Run a command to its successful end; return all that it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// Return the objects of a YAML file, as PyYAML reads them.
pub fn objects(yaml: &str) -> Vec<Value> {
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, yaml).unwrap();
    let script =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let json = run(python().args(["-c", script]).arg(file.path()));
    serde_json::from_str(&json).unwrap()
}
