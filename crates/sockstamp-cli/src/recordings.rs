//! The files of a recording.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Return the path, or all files of a recording below it by time:
/// `date=…/hour=…/host=…/….parquet`.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    const LEVELS: usize = 3;
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut directories = vec![path.to_owned()];
    let mut files = Vec::new();
    for _ in 0..=LEVELS {
        for directory in std::mem::take(&mut directories) {
            let entries = directory
                .read_dir()
                .with_context(|| format!("cannot read {}", directory.display()))?;
            for entry in entries {
                let entry = entry
                    .with_context(|| format!("cannot read {}", directory.display()))?
                    .path();
                if entry.is_dir() {
                    directories.push(entry);
                } else if entry.extension().is_some_and(|extension| extension == "parquet") {
                    files.push(entry);
                }
            }
        }
    }
    if files.is_empty() {
        bail!("{}: no recording is in it", path.display());
    }
    files.sort();
    Ok(files)
}
