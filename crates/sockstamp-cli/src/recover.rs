//! `sockstamp recover`: cut recordings after their last row group, and write their footers.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_model::name::Escaped;
use sockstamp_record::recover::recover;
use sockstamp_run::escape::complain;

/// Options of `recover`.
#[derive(Debug, Args)]
pub struct Options {
    /// Recordings
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut output = io::stdout();
    // One bad file is no reason to leave others as they are.
    let mut failed = Vec::new();
    for path in &options.files {
        let recovered = match recover(path) {
            Ok(recovered) => recovered,
            Err(error) => {
                failed.push(error);
                continue;
            }
        };
        let name = Escaped(path.as_os_str().as_encoded_bytes());
        let (rows, cut) = (recovered.rows, recovered.cut);
        writeln!(output, "{name}: {rows} messages, {cut} bytes cut").context("cannot print")?;
    }
    let Some(last) = failed.pop() else {
        return Ok(ExitCode::SUCCESS);
    };
    for error in failed {
        complain(format_args!("{:#}", anyhow::Error::from(error)));
    }
    Err(last.into())
}
