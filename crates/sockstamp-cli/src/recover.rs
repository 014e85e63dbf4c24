//! `sockstamp recover`: cut recordings after their last row group, and write their footers.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use sockstamp_model::name::Escaped;
use sockstamp_print::output::Format;
use sockstamp_record::recover::{Recovered, recover};
use sockstamp_run::escape::{self, complain};

use crate::recordings::{PACKETS, WAITS, every_file};

/// The version of the JSON: it changes when a key that exists changes.
const VERSION: u32 = 1;

/// Options of `recover`.
#[derive(Debug, Args)]
pub struct Options {
    /// Recordings: files, or directories of `record`
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Output format: a line of text or a JSON object per file
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    // A second name may have been meant for the result.
    if let Some(missing) = options.files.iter().find(|path| !path.exists()) {
        bail!(
            "cannot open {}: No such file or directory; nothing was cut, as each FILE is cut where \
             it is: copy it first to keep it",
            missing.display()
        );
    }
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
        let what = match path.extension().and_then(OsStr::to_str) {
            Some(PACKETS) => "packets",
            Some(WAITS) => "waits",
            _ => "messages",
        };
        if recovered.rows == 0 && recovered.cut > 0 {
            complain(format_args!(
                "{}: nothing in it was whole: if it is a copy that was cut short, copy it again",
                path.display()
            ));
        }
        let printed = print(&mut output, path, what, recovered, options.format);
        printed.context("cannot print")?;
    }
    let Some(last) = failed.pop() else {
        return Ok(ExitCode::SUCCESS);
    };
    for error in failed {
        complain(format_args!("{:#}", anyhow::Error::from(error)));
    }
    Err(last.into())
}

fn print(
    output: &mut dyn Write,
    path: &Path,
    what: &str,
    recovered: Recovered,
    format: Format,
) -> io::Result<()> {
    let Recovered { rows, cut, .. } = recovered;
    match format {
        Format::Text => {
            let name = Escaped(path.as_os_str().as_encoded_bytes());
            writeln!(output, "{name}: {rows} {what}, {cut} bytes cut")
        }
        Format::Json => {
            let file = path.to_string_lossy();
            let object = json!({
                "version": VERSION,
                "file": file,
                "holds": what,
                "rows": rows,
                "cut_bytes": cut,
            });
            escape::json(&mut *output, &object)?;
            writeln!(output)
        }
    }
}
