//! A script that starts programs which wait, and tells which do.

use std::process::Command;

use serde_json::Value;
use testbed::{Host, Process};

use crate::PATIENCE;

/// Programs of a test, in a host of their own, until this is dropped.
pub(crate) struct Programs {
    pub(crate) host: Host,
    process: Process,
}

impl Programs {
    /// Start a script of this folder with these words.
    pub(crate) fn start(name: &str, script: &str, words: &[&str]) -> Self {
        let host = Host::new(name).unwrap();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stuck");
        let script = format!("{folder}/{script}");
        let words = [&["python3", &script], words].concat();
        let mut process = host.spawn("setsid", &words).unwrap();
        process.wait_for_stdout("ready", PATIENCE).unwrap();
        Self { host, process }
    }

    /// The waits that the programs announced.
    pub(crate) fn expected(&self) -> Vec<Value> {
        let text = self.process.stdout();
        let lines = text.lines().filter(|line| line.starts_with('{'));
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Drop for Programs {
    /// The forks of the script stay in its session.
    fn drop(&mut self) {
        let session = self.process.id().to_string();
        let ended = Command::new("pkill").args(["-9", "-s", &session]).status();
        ended.unwrap();
    }
}
