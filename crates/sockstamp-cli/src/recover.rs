//! `sockstamp recover`: cut recordings after their last row group, and write their footers.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_model::name::Escaped;
use sockstamp_record::recover::recover;
use sockstamp_run::escape::complain;

use crate::recordings::{PACKETS, WAITS, every_file};

/// Options of `recover`.
#[derive(Debug, Args)]
pub struct Options {
    /// Recordings: files, or directories of `record`
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut output = io::stdout();
    // One bad file is no reason to leave others as they are.
    let mut failed = Vec::new();
    for path in &every_file(&options.files)? {
        let recovered = match recover(path) {
            Ok(recovered) => recovered,
            Err(error) => {
                failed.push(error);
                continue;
            }
        };
        let name = Escaped(path.as_os_str().as_encoded_bytes());
        let (rows, cut) = (recovered.rows, recovered.cut);
        let what = match path.extension().and_then(OsStr::to_str) {
            Some(PACKETS) => "packets",
            Some(WAITS) => "waits",
            _ => "messages",
        };
        writeln!(output, "{name}: {rows} {what}, {cut} bytes cut").context("cannot print")?;
    }
    let Some(last) = failed.pop() else {
        return Ok(ExitCode::SUCCESS);
    };
    for error in failed {
        complain(format_args!("{:#}", anyhow::Error::from(error)));
    }
    Err(last.into())
}
