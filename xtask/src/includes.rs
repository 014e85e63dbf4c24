//! Check that no folders of the BPF programs include each other in a circle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::imports::{Imports, Module, circles};

const SOURCES: &str = "crates/sockstamp-bpf/src";

/// Fail if a folder includes itself through others.
pub(crate) fn check(root: &Path) -> Result<()> {
    let circles = Vec::from_iter(circles(&includes(&read(&root.join(SOURCES))?)));
    ensure!(
        circles.is_empty(),
        "folders of {SOURCES} include each other in a circle:\n  {}",
        circles.join("\n  ")
    );
    Ok(())
}

/// Return the text of each file of C, by its path below the folder.
fn read(sources: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![sources.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|kind| kind == "h" || kind == "c")
            {
                let text = fs::read_to_string(&path)?;
                files.insert(path.strip_prefix(sources)?.to_owned(), text);
            }
        }
    }
    Ok(files)
}

/// Return the other folders that the files of each folder include.
fn includes(files: &BTreeMap<PathBuf, String>) -> Imports {
    let mut includes = Imports::new();
    for (path, text) in files {
        let from = folder(path);
        let quoted = text
            .lines()
            .filter_map(|line| line.strip_prefix("#include \""));
        let folders = quoted.map(|rest| folder(Path::new(rest)));
        let others = folders.filter(|to| !to.is_empty() && *to != from);
        includes.entry(from.clone()).or_default().extend(others);
    }
    includes
}

fn folder(path: &Path) -> Module {
    let parent = path.parent().into_iter().flatten();
    parent
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        let files = files.iter();
        files
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn our_folders_include_each_other_in_no_circle() {
        check(crate::root::root()).unwrap();
    }

    #[test]
    fn a_circle_of_folders_is_found_where_files_include_each_other_in_none() {
        let files = files(&[
            ("tcp/flow.bpf.h", "#include \"tcp/send/state.bpf.h\"\n"),
            ("tcp/send/state.bpf.h", "#include <bpf/bpf_helpers.h>\n"),
            ("tcp/send/end.bpf.h", "#include \"tcp/flow.bpf.h\"\n"),
            ("bpf/all.bpf.c", "#include \"tcp/send/end.bpf.h\"\n"),
        ]);
        assert_eq!(
            Vec::from_iter(circles(&includes(&files))),
            ["tcp, tcp::send"]
        );
    }
}
