//! Define where subcommands print, and in which format.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
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

/// Do the same, but refuse to write over a file that is read.
pub(crate) fn create_beside(path: &Path, read: &[PathBuf]) -> Result<Box<dyn Write>> {
    let file = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    let known = file(path);
    if known.is_some() && read.iter().any(|read| file(read) == known) {
        bail!(
            "{} is one of the recordings to read: write to another file",
            path.display()
        );
    }
    create(path)
}
