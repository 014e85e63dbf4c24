//! Count the instructions of a message while sockstamp's own programs measure, and those of the
//! command next to traffic and alone.

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

/// The command, as users have it.
const COMMAND: &str = "sockstamp";

/// The programs that a guest runs.
pub(crate) struct Built {
    counter: PathBuf,
    command: PathBuf,
}

/// Build the program that measures, and the command with optimisation. The former with the features
/// that dependencies have in a build of everything, or they are built once more.
pub(crate) fn build(features: &[&str]) -> Result<Built> {
    let counter = ["--workspace", "--example", PROGRAM];
    let command = ["--release", "--package=sockstamp-cli", "--bin", COMMAND];
    Ok(Built {
        counter: cargo(PROGRAM, &[&counter, features].concat())?,
        command: cargo(COMMAND, &[&command, features].concat())?,
    })
}

fn cargo(name: &str, words: &[&str]) -> Result<PathBuf> {
    let cargo = Command::new("cargo")
        .args(["build", "--quiet", "--locked", "--message-format=json"])
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(cargo.status.success(), "cargo cannot build {name}");
    executable(name, &String::from_utf8_lossy(&cargo.stdout)).context("cargo built no program")
}

/// Return the path of a program that cargo has built, from its messages.
fn executable(name: &str, messages: &str) -> Option<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == name);
    built.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// Return a line per row.
pub(crate) fn count(kernel: &Kernel, home: &Path, built: &Built) -> Result<String> {
    let line = format!("{MADE_OF}; ./{PROGRAM} ./{COMMAND}");
    let programs = [built.counter.as_path(), &built.command];
    guests::run_beside(kernel, home, &programs, Time::Instructions, &line)
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
        assert_eq!(executable(PROGRAM, messages), Some("/a/b".into()));
        assert_eq!(executable(COMMAND, messages), None);
        assert_eq!(executable(PROGRAM, ""), None);
    }
}
