//! The option that names a file for what a subcommand prints.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use sockstamp_run::escape::quoted_path;

use crate::output::{create_beside, is_stdout};
use crate::wrong_use::WrongUse;

/// Where a subcommand prints.
#[derive(Debug, Clone, Default, Args)]
pub struct Output {
    /// Write to this file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The stream that a subcommand prints to unless a file is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Stream {
    /// Leave standard output to the command, if there is one.
    pub const fn beside(command: &[std::ffi::OsString]) -> Self {
        match command {
            [] => Self::Output,
            _ => Self::Error,
        }
    }
}

impl Output {
    /// Return the file if its name is that of a page.
    pub fn page(&self) -> Option<&Path> {
        let path = self.output.as_deref()?;
        let ending = path.extension()?;
        ["html", "htm"]
            .iter()
            .any(|page| ending == *page)
            .then_some(path)
    }

    /// Open what is named, or else the stream.
    pub fn open(&self, otherwise: Stream) -> Result<Box<dyn Write>> {
        self.open_beside(otherwise, &[])
    }

    /// Do the same, but refuse to write over a file that is read.
    pub fn open_beside(&self, otherwise: Stream, read: &[PathBuf]) -> Result<Box<dyn Write>> {
        if let Some(path) = self.page() {
            let told = format!(
                "a page is written by `report` alone, from recordings: \
                 write sockstamp report --html {} FILE",
                quoted_path(path)
            );
            return Err(WrongUse(told).into());
        }
        Ok(match (&self.output, otherwise) {
            (Some(path), _) => create_beside(path, read)?,
            (None, Stream::Output) => Box::new(io::stdout()),
            (None, Stream::Error) => Box::new(io::stderr()),
        })
    }

    /// Return true if a terminal shows what is printed.
    pub fn is_terminal(&self, otherwise: Stream) -> bool {
        match (&self.output, otherwise) {
            (Some(path), _) => is_stdout(path) && io::stdout().is_terminal(),
            (None, Stream::Output) => io::stdout().is_terminal(),
            (None, Stream::Error) => io::stderr().is_terminal(),
        }
    }
}
