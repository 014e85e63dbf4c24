//! Programs that tests use.

use std::path::Path;
use std::process::Command;

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
