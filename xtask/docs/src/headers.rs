//! Check that each header of the BPF programs compiles alone.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bpf_build::Clang;
use sockstamp_model::{histogram, lists};

const SOURCES: &str = "crates/sockstamp-bpf/src";

/// Fail if a header includes less than it uses.
pub(crate) fn check(root: &Path) -> Result<()> {
    let sources = root.join(SOURCES);
    let written = tempfile::tempdir().context("cannot make a folder")?;
    bpf_build::write_libbpf_headers(written.path())?;
    for (name, text) in [
        ("histogram_bounds.h", histogram::c_header()),
        ("lists.h", lists::c_header()),
    ] {
        fs::write(written.path().join(name), text)?;
    }
    let clang = Clang::find()?;
    for header in headers(&sources)? {
        clang.compile_alone(&header, &[&sources, written.path()])?;
    }
    Ok(())
}

fn headers(sources: &Path) -> Result<Vec<PathBuf>> {
    let mut headers = Vec::new();
    let mut folders = vec![sources.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "h") {
                headers.push(path);
            }
        }
    }
    headers.sort();
    Ok(headers)
}
