//! Run one command in a guest.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::guest::Guest;
use crate::setting::Setting;

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setting: Setting,
    /// Kill the guest after this many seconds
    #[arg(long, default_value_t = 240, value_name = "SECONDS")]
    time_limit: u64,
    /// Write the kernel's messages here [default: a file in the temporary folder, if the guest
    /// fails]
    #[arg(long, value_name = "FILE")]
    console: Option<PathBuf>,
    /// A program of this host if it is a path, else one of the guest
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Returns the exit status of the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (kernel, mut image) = arguments.setting.prepare()?;
    let mut command = arguments.command.clone();
    if command[0].contains('/') {
        let program = std::path::absolute(&command[0])?;
        image.host_file(Path::new(&command[0]), &program)?;
        command[0] = program
            .to_str()
            .context("the program's path is not UTF-8")?
            .to_owned();
    }
    let script: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    image.file("/lab/command", 0o644, script.join(" ").into_bytes());
    let kept = tempfile::Builder::new()
        .prefix("sockstamp-lab-")
        .suffix(".log")
        .tempfile()?;
    let console = arguments.console.as_deref().unwrap_or(kept.path());
    let guest = Guest {
        kernel: &kernel,
        image: &image,
        machine: arguments.setting.machine(),
        time_limit: Duration::from_secs(arguments.time_limit),
        console,
    };
    let status = guest.run(io::stdout(), io::stderr());
    if status.is_err() {
        kept.keep()?;
    }
    Ok(ExitCode::from(status?))
}

/// Quote a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
