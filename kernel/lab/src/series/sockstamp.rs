//! Count the instructions of a message while sockstamp's own programs measure.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::guests;
use super::instructions::MADE_OF;
use crate::guest::Time;
use crate::kernel::Kernel;

/// The program that measures, an example of `sockstamp-bpf`.
const PROGRAM: &str = "instructions";

/// Build the program that measures.
pub(crate) fn build() -> Result<PathBuf> {
    let cargo = Command::new("cargo")
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package=sockstamp-bpf",
            "--example",
            PROGRAM,
            "--message-format=json",
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(cargo.status.success(), "cargo cannot build {PROGRAM}");
    executable(&String::from_utf8_lossy(&cargo.stdout)).context("cargo built no program")
}

/// Return the path of the program that cargo has built, from its messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == PROGRAM);
    built.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// Return a line per row.
pub(crate) fn count(kernel: &Kernel, home: &Path, program: &Path) -> Result<String> {
    let line = format!("{MADE_OF}; ./{PROGRAM}");
    guests::run_beside(kernel, home, Some(program), Time::Instructions, &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_the_messages_of_cargo() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"libc"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"instructions"},"executable":"/a/b"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages), Some("/a/b".into()));
        assert_eq!(executable(""), None);
    }
}
