//! The files of `kernel/series`.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Patches, configuration and base.
pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../series");

/// Patches in order, and their programs.
#[derive(Debug)]
pub(crate) struct Series {
    /// The first two numbers of the kernel: `7.3`.
    pub(crate) base: String,
    /// Options, in a fragment for merge_config.sh.
    pub(crate) config: String,
    patches: Vec<Patch>,
    /// Names in tools/testing/selftests/bpf/prog_tests.
    selftests: Vec<String>,
    /// Files by their path from tools/testing/selftests/net: programs by their source, and scripts.
    net_selftests: Vec<String>,
    /// The instruction counter: the text of its files.
    programs: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) path: PathBuf,
    text: String,
}

impl Series {
    pub(crate) fn read(folder: &Path) -> Result<Series> {
        let read = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let mut patches = Vec::new();
        for path in files(folder)? {
            let text = read(&path)?;
            // A cover letter changes nothing.
            if !touched(&text).is_empty() {
                patches.push(Patch { path, text });
            }
        }
        ensure!(!patches.is_empty(), "no patch in {}", folder.display());
        let lines = |name: &str| -> Result<Vec<String>> {
            Ok(read(&folder.join(name))?
                .lines()
                .map(str::to_owned)
                .collect())
        };
        Ok(Series {
            base: read(&folder.join("base"))?.trim().to_owned(),
            config: read(&folder.join("config"))?,
            patches,
            selftests: lines("selftests")?,
            net_selftests: lines("selftests-net")?,
            programs: vec![
                read(&folder.join("count/count.bpf.c"))?,
                read(&folder.join("count/count.c"))?,
            ],
        })
    }

    pub(crate) fn without_patches(mut self) -> Series {
        self.patches.clear();
        self
    }

    /// Add options to the configuration.
    pub(crate) fn with_options(mut self, options: &str) -> Series {
        self.config.push_str(options);
        self
    }

    /// Keep the first patches alone.
    pub(crate) fn until(mut self, number: usize) -> Result<Series> {
        let all = self.patches.len();
        ensure!(
            (1..=all).contains(&number),
            "patches are numbered from 1 to {all}"
        );
        self.patches.truncate(number);
        Ok(self)
    }

    pub(crate) fn patches(&self) -> &[Patch] {
        &self.patches
    }

    pub(crate) fn selftests(&self) -> &[String] {
        &self.selftests
    }

    pub(crate) fn net_selftests(&self) -> &[String] {
        &self.net_selftests
    }

    /// Files that it changes or adds, by their place in the tree.
    pub(crate) fn touched(&self) -> BTreeSet<String> {
        self.patches
            .iter()
            .flat_map(|patch| touched(&patch.text))
            .collect()
    }

    /// Return the lines that its patches add to a file.
    pub(crate) fn added(&self, path: &str) -> Vec<&str> {
        let mut lines = Vec::new();
        for patch in &self.patches {
            let mut file = None;
            for line in patch.text.lines() {
                if let Some(name) = line.strip_prefix("+++ b/") {
                    file = Some(name);
                } else if let Some(added) = line.strip_prefix('+').filter(|_| file == Some(path)) {
                    lines.push(added);
                }
            }
        }
        lines
    }

    /// Return the key of all inputs of kernel and programs, except the last number of the source's
    /// version.
    pub(crate) fn key(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.base, &self.config, &self.programs).hash(&mut hasher);
        (&self.selftests, &self.net_selftests).hash(&mut hasher);
        for patch in &self.patches {
            patch.text.hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    }
}

/// Return the patches of a folder and of the folders in it, in their order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("cannot read {}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if path.is_dir() {
            paths.append(&mut files(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "patch")
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Return the paths of the lines `+++ b/PATH` of a patch.
fn touched(patch: &str) -> BTreeSet<String> {
    let paths = patch.lines().filter_map(|line| line.strip_prefix("+++ b/"));
    paths.map(str::to_owned).collect()
}

#[cfg(test)]
impl Series {
    /// Write all files of a series but its patches, without content.
    pub(crate) fn make_empty(folder: &Path) {
        fs::create_dir(folder.join("count")).unwrap();
        for name in [
            "base",
            "config",
            "selftests",
            "selftests-net",
            "count/count.c",
            "count/count.bpf.c",
        ] {
            fs::write(folder.join(name), "").unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "--- a/net/ipv4/tcp.c\n+++ b/net/ipv4/tcp.c\n@@ -1 +1 @@\n-a\n+b\n";

    fn series(patch: &str) -> (tempfile::TempDir, Series) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("count")).unwrap();
        for (name, text) in [
            ("base", "7.3\n"),
            ("config", "CONFIG_NET=y\n"),
            ("selftests", "one\ntwo\n"),
            ("selftests-net", "three.c\n"),
            ("count/count.bpf.c", ""),
            ("count/count.c", ""),
            ("0000-cover-letter.patch", "words\n"),
            ("0001-a.patch", patch),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let series = Series::read(folder.path()).unwrap();
        (folder, series)
    }

    #[test]
    fn a_cover_letter_is_no_patch() {
        let (_folder, series) = series(PATCH);
        assert_eq!(series.patches().len(), 1);
        assert_eq!(
            series.touched(),
            BTreeSet::from(["net/ipv4/tcp.c".to_owned()])
        );
        assert_eq!(series.base, "7.3");
        assert_eq!(series.selftests(), ["one", "two"]);
        assert_eq!(series.net_selftests(), ["three.c"]);
    }

    #[test]
    fn the_first_patches_are_a_series_as_well() {
        let (folder, _) = series(PATCH);
        let later = folder.path().join("2-later");
        fs::create_dir(&later).unwrap();
        fs::write(later.join("0001-b.patch"), PATCH.replace("tcp", "udp")).unwrap();
        let until = |number| Series::read(folder.path()).unwrap().until(number);
        assert_eq!(
            until(1).unwrap().touched(),
            BTreeSet::from(["net/ipv4/tcp.c".to_owned()])
        );
        assert_eq!(until(2).unwrap().touched().len(), 2);
        assert_ne!(until(1).unwrap().key(), until(2).unwrap().key());
        for number in [0, 3] {
            assert!(until(number).is_err());
        }
    }

    #[test]
    fn a_changed_patch_is_another_kernel() {
        let key = |patch: &str| series(patch).1.key();
        assert_eq!(key(PATCH), key(PATCH));
        assert_ne!(key(PATCH), key(&PATCH.replace("+b", "+c")));
        assert_ne!(key(PATCH), series(PATCH).1.without_patches().key());
    }

    /// Return the subject of a patch without its brackets, and the numbers in them.
    fn subject(text: &str) -> (String, String) {
        let (_, rest) = text.split_once("Subject: [").unwrap();
        let (brackets, rest) = rest.split_once("] ").unwrap();
        let (lines, _) = rest.split_once("\n").unwrap();
        // A long one goes on in the next line.
        let more = rest[lines.len() + 1..].lines();
        let more = more.take_while(|line| line.starts_with(' '));
        let whole = [lines].into_iter().chain(more.map(str::trim));
        (
            whole.collect::<Vec<_>>().join(" "),
            brackets.rsplit(' ').next().unwrap().to_owned(),
        )
    }

    /// What mailing takes, of the documents of the base; but for what a person adds.
    #[test]
    fn each_series_has_a_cover_that_tells_of_its_patches() {
        let folders = fs::read_dir(FOLDER)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let is_series = |folder: &PathBuf| folder.join("0000-cover-letter.patch").exists();
        let folders: Vec<_> = folders.filter(is_series).collect();
        assert!(folders.len() > 5, "{folders:?}");
        for folder in folders {
            let texts: Vec<String> = files(&folder)
                .unwrap()
                .iter()
                .map(|path| fs::read_to_string(path).unwrap())
                .collect();
            let (cover, patches) = texts.split_first().unwrap();
            let name = folder.display();
            let count = patches.len();
            assert!((1..=15).contains(&count), "{name}");
            for part in ["\nTo: ", "\nCc: ", "\nBased on Linux ", " insertion"] {
                assert!(cover.contains(part), "{name} lacks {part:?}");
            }
            let history = ["\nChanges since v1:\n", "\nNew in v2: "];
            assert!(history.iter().any(|part| cover.contains(part)), "{name}");
            assert_eq!(subject(cover).1, format!("0/{count}"), "{name}");
            assert!(cover.contains(&format!("\n{count} patches:\n")), "{name}");
            let mut listed = cover.as_str();
            for (number, patch) in (1..).zip(patches) {
                let (title, place) = subject(patch);
                assert_eq!(place, format!("{number}/{count}"), "{name}: {title}");
                let line = format!("\n  {title}\n");
                let (_, rest) = listed
                    .split_once(&line)
                    .unwrap_or_else(|| panic!("{name} does not list {title:?} in its place"));
                listed = rest;
                // The line's end is the beginning of the next line.
                listed = &cover[cover.len() - listed.len() - 1..];
                assert!(patch.contains("\nAssisted-by: LLM\n"), "{name}: {title}");
                assert!(!patch.contains("\nSigned-off-by:"), "{name}: {title}");
            }
            for text in &texts {
                let sender = text.lines().find(|line| line.starts_with("From: "));
                assert_eq!(
                    sender,
                    Some("From: The person who signs (README.md)"),
                    "{name}"
                );
            }
        }
    }
}
