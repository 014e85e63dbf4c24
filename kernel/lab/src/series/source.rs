//! Keep the source: Debian's newest package, with the patches applied. It stays between builds, and
//! only files whose text changes are written, so that make rebuilds only what depends on them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::command::succeed;
use super::patches::{Patch, Series};
use crate::apt::Apt;
use crate::arch::Arch;
use crate::release::Archive;
use crate::{cache, package};

const SUITE: &str = "trixie-backports";
/// Its beginning; the kernel's first two numbers follow.
const PACKAGE: &str = "linux-source-";
/// Files that some series has changed, as they are in the package. In the tree.
const PRISTINE: &str = ".pristine";
/// A file of the tree with the names of changed files, one per line.
const CHANGED: &str = ".changed";

/// The tree with the patches of the series.
pub(crate) fn tree(series: &Series, folder: &Path) -> Result<PathBuf> {
    let tree = folder.join(format!("linux-{}", series.base));
    if !tree.exists() {
        fetch(&series.base, folder, &tree)?;
    }
    apply(series, &tree)?;
    Ok(tree)
}

/// Return a sentence if the suite has a newer kernel than the tree is.
pub(crate) fn newer(series: &Series, folder: &Path) -> Result<Option<String>> {
    let tree = folder.join(format!("linux-{}", series.base));
    let makefile = fs::read_to_string(tree.join("Makefile")).context("cannot read the cache")?;
    let ours = release(&makefile).context("the tree has no version")?;
    let apt = Apt::update(&folder.join("apt"), Archive::Main, SUITE, Arch::Amd64)?;
    let newest =
        newest(&apt.names(PACKAGE)?).with_context(|| format!("{SUITE} has no {PACKAGE}*"))?;
    let theirs = numbers(&apt.version(&newest)?);
    Ok(sentence(&ours, &newest, &theirs))
}

fn sentence(ours: &[u32], package: &str, theirs: &[u32]) -> Option<String> {
    let dotted = |numbers: &[u32]| {
        numbers
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(".")
    };
    (theirs > ours).then(|| {
        format!(
            "{SUITE} has {package} with Linux {}, and kernel/series was tried on {}",
            dotted(theirs),
            dotted(ours)
        )
    })
}

/// Return the newest by its number: linux-source-7.10 comes after linux-source-7.9.
fn newest(names: &[String]) -> Option<String> {
    let numbered = names.iter().filter_map(|name| {
        let numbers = numbers(name.strip_prefix(PACKAGE)?);
        (!numbers.is_empty()).then_some((numbers, name))
    });
    numbered.max().map(|(_, name)| name.clone())
}

/// Return the numbers that a version begins with: 7, 3 and 4 of `7.3.4-1~bpo13+1`.
fn numbers(version: &str) -> Vec<u32> {
    let upstream = version.split(|letter: char| letter != '.' && !letter.is_ascii_digit());
    let upstream = upstream.into_iter().next().unwrap_or_default();
    upstream
        .split('.')
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// Return the version that the kernel's Makefile states.
fn release(makefile: &str) -> Option<Vec<u32>> {
    let number = |key: &str| {
        let mut values = makefile.lines().filter_map(|line| line.strip_prefix(key));
        values.next()?.trim().parse().ok()
    };
    ["VERSION =", "PATCHLEVEL =", "SUBLEVEL ="]
        .into_iter()
        .map(number)
        .collect()
}

/// Gets the package and unpacks the tree that is in it.
fn fetch(base: &str, folder: &Path, tree: &Path) -> Result<()> {
    let apt = Apt::update(&folder.join("apt"), Archive::Main, SUITE, Arch::Amd64)?;
    let name = format!("{PACKAGE}{base}");
    ensure!(
        apt.has(&name)?,
        "{SUITE} has no {name} (any more): rebase kernel/series and write its new base into kernel/series/base"
    );
    eprintln!("sockstamp-lab: getting {name}");
    let work = tempfile::tempdir_in(folder).context("cannot write to the cache")?;
    apt.download(std::slice::from_ref(&name), work.path())?;
    let root = work.path().join("root");
    cache::make(&root)?;
    for package in package::all(work.path())? {
        package::extract(&package, &root)?;
    }
    let archive = root.join(format!("usr/src/{name}.tar.xz"));
    succeed(
        Command::new("tar")
            .arg("-xJf")
            .arg(&archive)
            .arg("-C")
            .arg(&root),
    )?;
    fs::rename(root.join(&name), tree).context("cannot write to the cache")
}

/// Bring the tree to the state of the package and the patches.
fn apply(series: &Series, tree: &Path) -> Result<()> {
    let changed = tree.join(CHANGED);
    let before: BTreeSet<String> = match fs::read_to_string(&changed) {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        Err(_) => BTreeSet::new(),
    };
    let touched = series.touched();
    let pristine = tree.join(PRISTINE);
    for path in &touched {
        if !before.contains(path) {
            copy(&tree.join(path), &pristine.join(path))?;
        }
    }
    // Write it before the first change, so that an interrupted run is repeated.
    let all: BTreeSet<String> = before.union(&touched).cloned().collect();
    let lines: String = all.iter().map(|path| format!("{path}\n")).collect();
    fs::write(&changed, lines).context("cannot write to the cache")?;

    let scratch = tempfile::tempdir_in(tree).context("cannot write to the cache")?;
    for path in &all {
        copy(&pristine.join(path), &scratch.path().join(path))?;
    }
    for patch in series.patches() {
        patched(scratch.path(), patch)?;
    }
    for path in &all {
        update(&scratch.path().join(path), &tree.join(path))?;
    }
    Ok(())
}

/// A file that a patch adds has no original.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.exists() {
        cache::make(to.parent().context("a file is in a folder")?)?;
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

fn patched(scratch: &Path, patch: &Patch) -> Result<()> {
    let mut command = Command::new("patch");
    command
        .args([
            "-p1",
            "--quiet",
            "--forward",
            "--no-backup-if-mismatch",
            "-d",
        ])
        .arg(scratch)
        .arg("-i")
        .arg(&patch.path);
    succeed(&mut command).with_context(|| format!("{} does not apply", patch.path.display()))
}

/// Write the file only if its content changes, since make compares times.
fn update(new: &Path, file: &Path) -> Result<()> {
    let text = fs::read(new).ok();
    if text == fs::read(file).ok() {
        return Ok(());
    }
    match text {
        Some(text) => {
            cache::make(file.parent().context("a file is in a folder")?)?;
            fs::write(file, text)
        }
        None => fs::remove_file(file),
    }
    .with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: &str = "--- a/old\n+++ b/old\n@@ -1 +1 @@\n-one\n+two\n";
    const ADDITION: &str = "--- /dev/null\n+++ b/net/new\n@@ -0,0 +1 @@\n+text\n";

    fn series(patches: &[&str]) -> (tempfile::TempDir, Series) {
        let folder = tempfile::tempdir().unwrap();
        Series::make_empty(folder.path());
        for (number, patch) in patches.iter().enumerate() {
            fs::write(folder.path().join(format!("{number}.patch")), patch).unwrap();
        }
        let series = Series::read(folder.path()).unwrap();
        (folder, series)
    }

    #[test]
    fn a_tree_follows_the_series_there_and_back() {
        let tree = tempfile::tempdir().unwrap();
        let text = |name: &str| fs::read_to_string(tree.path().join(name)).ok();
        fs::write(tree.path().join("old"), "one\n").unwrap();
        let (_both, both) = series(&[CHANGE, ADDITION]);
        apply(&both, tree.path()).unwrap();
        assert_eq!(text("old").as_deref(), Some("two\n"));
        assert_eq!(text("net/new").as_deref(), Some("text\n"));
        let (_one, one) = series(&[ADDITION]);
        apply(&one, tree.path()).unwrap();
        assert_eq!(text("old").as_deref(), Some("one\n"));
        apply(&one.without_patches(), tree.path()).unwrap();
        assert_eq!(text("net/new"), None);
    }

    #[test]
    fn a_newer_package_is_told_by_its_numbers() {
        let names = ["linux-source", "linux-source-7.9", "linux-source-7.10"].map(str::to_owned);
        assert_eq!(newest(&names).as_deref(), Some("linux-source-7.10"));
        assert_eq!(newest(&names[..1]), None);
        assert_eq!(numbers("7.3.4-1~bpo13+1"), [7, 3, 4]);
        let makefile = "# SPDX\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n";
        let ours = release(makefile).unwrap();
        assert_eq!(ours, [7, 3, 4]);
        assert_eq!(sentence(&ours, "linux-source-7.3", &[7, 3, 4]), None);
        for theirs in [[7, 3, 5], [7, 10, 0]] {
            assert!(sentence(&ours, "linux-source-7.10", &theirs).is_some());
        }
    }

    #[test]
    fn a_file_that_stays_the_same_is_not_written() {
        let tree = tempfile::tempdir().unwrap();
        let old = tree.path().join("old");
        fs::write(&old, "one\n").unwrap();
        let (_folder, series) = series(&[CHANGE]);
        apply(&series, tree.path()).unwrap();
        let written = fs::metadata(&old).unwrap().modified().unwrap();
        apply(&series, tree.path()).unwrap();
        assert_eq!(fs::metadata(&old).unwrap().modified().unwrap(), written);
    }

    #[test]
    fn a_patch_that_does_not_apply_changes_nothing() {
        let tree = tempfile::tempdir().unwrap();
        let old = tree.path().join("old");
        fs::write(&old, "three\n").unwrap();
        let (_folder, series) = series(&[CHANGE]);
        let error = apply(&series, tree.path()).unwrap_err();
        assert!(
            error.to_string().ends_with("0.patch does not apply"),
            "{error:#}"
        );
        assert_eq!(fs::read_to_string(&old).unwrap(), "three\n");
    }
}
