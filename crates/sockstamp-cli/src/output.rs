//! Define where subcommands print, and in which format.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;

/// Output formats of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, times with units
    #[default]
    Text,
    /// JSON, all times in nanoseconds
    Json,
}

/// Open the file that `-o` names.
pub(crate) fn create(path: &Path) -> Result<Box<dyn Write>> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
