//! Write the generated files that are checked in: `cargo xtask generate` calls this.

#![forbid(unsafe_code)]

mod c_manual;
mod closing;
#[cfg(test)]
mod commands;
mod files;
mod headers;
mod kernels;
mod manual;
mod reference;
mod root_page;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::files::{Files, root};

/// Write man pages, completions, and the references of stages and kernels to docs/.
#[derive(Debug, Parser)]
struct Options {
    /// Write nothing; fail if a file is not as it would be generated, or if a header of the BPF
    /// programs does not compile alone
    #[arg(long)]
    check: bool,
}

/// Folders that hold nothing else, so that a file too many in them is noticed.
const GENERATED_FOLDERS: [&str; 2] = [manual::PAGES, manual::COMPLETIONS];

fn main() -> ExitCode {
    let Options { check } = Options::parse();
    let done = generated().and_then(|files| {
        if check {
            compare(&files)?;
            headers::check(root())
        } else {
            write(&files)
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask-docs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn generated() -> Result<Files> {
    let mut files = manual::pages()?;
    files.extend(c_manual::pages()?);
    files.extend(manual::completions()?);
    files.insert(
        "docs/kernel-support.md".into(),
        kernels::support(root())?.into_bytes(),
    );
    files.insert("docs/stages.md".into(), reference::stages().into_bytes());
    files.insert(
        "docs/diagnosis.md".into(),
        reference::diagnosis().into_bytes(),
    );
    files.insert("docs/advice.md".into(), reference::advice().into_bytes());
    files.insert("docs/metrics.md".into(), reference::metrics().into_bytes());
    Ok(files)
}

fn write(files: &Files) -> Result<()> {
    for path in superfluous(files) {
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    for (path, contents) in files {
        let path = root().join(path);
        let folder = path.parent().context("every file is in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&path, contents).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn compare(files: &Files) -> Result<()> {
    let differing = files
        .iter()
        .map(|(path, contents)| (root().join(path), contents))
        .filter(|(path, contents)| fs::read(path).ok().as_ref() != Some(*contents))
        .map(|(path, _)| path);
    let wrong: Vec<_> = differing.chain(superfluous(files)).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let mut list = String::new();
    for path in &wrong {
        let shown = path.strip_prefix(root()).unwrap_or(path);
        list.push_str(&format!("\n  {}", shown.display()));
    }
    bail!("out of date; run `cargo xtask generate`:{list}")
}

fn superfluous(files: &Files) -> Vec<PathBuf> {
    GENERATED_FOLDERS
        .iter()
        .filter_map(|folder| fs::read_dir(root().join(folder)).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.strip_prefix(root())
                .is_ok_and(|path| !files.contains_key(path))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn hidden_subcommands_are_in_no_file() {
        for (path, contents) in generated().unwrap() {
            let text = String::from_utf8(contents).unwrap();
            assert!(!text.contains("janitor"), "{}", path.display());
        }
    }

    #[test]
    fn every_visible_subcommand_has_a_page() {
        let files = generated().unwrap();
        for page in [
            "sockstamp.1",
            "sockstamp-stat.1",
            "sockstamp-trace.1",
            "sockstamp-doctor.1",
        ] {
            assert!(
                files.contains_key(&Path::new(manual::PAGES).join(page)),
                "{page}"
            );
        }
    }
}
