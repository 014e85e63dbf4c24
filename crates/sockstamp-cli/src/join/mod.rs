//! `sockstamp join`: whole lives of messages, from the recordings of both hosts.

mod halves;
mod joined;
mod json;
mod lives;
mod offsets;
mod options;
mod sums;
mod text;
mod waterfall;

use std::io;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::output::Format;
use crate::recordings::files;

use joined::Joined;
use lives::Lives;
pub use options::Options;

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let paths = [files(&options.first)?, files(&options.second)?];
    let mut lives = Lives::create(options, &paths.concat())?;
    let joined = Joined::of(options, &paths, &mut |life| lives.write(life))?;
    lives.finish()?;
    if let Some(path) = &options.clocks {
        offsets::write(path, &paths.concat(), &joined)?;
    }
    let mut output = io::stdout();
    let printed = match options.format {
        Format::Text => text::all(&mut output, &joined),
        Format::Json => json::all(&mut output, &joined),
    };
    match printed {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot print")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
