//! Compare the numbers that the series takes with those that Linux has given away: a number may go
//! to another option between the base and the next kernel.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::patches::Series;
use crate::apt::Apt;
use crate::arch::Arch;
use crate::package;
use crate::release::Archive;

/// The headers that programs are built with, of all architectures.
const PACKAGE: &str = "linux-libc-dev";
/// The suites with the newest: release candidates come to experimental.
const SUITES: [&str; 2] = ["trixie-backports", "experimental"];

/// Numbers, and the names that have them.
type Numbers = BTreeMap<u32, String>;

/// What the comparison was with, and what it found.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Packages with their versions.
    pub(crate) with: Vec<String>,
    /// A sentence for each number that was given away.
    pub(crate) clashes: Vec<String>,
}

/// Compare with Debian's newest headers.
pub(crate) fn compare(series: &Series, folder: &Path) -> Result<Compared> {
    let mut compared = Compared::default();
    for suite in SUITES {
        let lists = folder.join(format!("apt-of-{suite}"));
        let apt = Apt::update(&lists, Archive::Main, suite, Arch::Amd64)?;
        let work = tempfile::tempdir_in(folder).context("cannot write to the cache")?;
        apt.download(&[PACKAGE.to_owned()], work.path())?;
        for package in package::all(work.path())? {
            package::extract(&package, work.path())?;
        }
        let headers = format!("{PACKAGE} {}", apt.version(PACKAGE)?);
        let sentences = beside(series, work.path()).into_iter();
        let clashes = sentences.map(|sentence| format!("{headers}: {sentence}"));
        compared.clashes.extend(clashes);
        compared.with.push(headers);
    }
    Ok(compared)
}

/// Compare with the headers of the package that is unpacked in `root`.
fn beside(series: &Series, root: &Path) -> Vec<String> {
    let mut sentences = Vec::new();
    for path in series.touched() {
        let Some(header) = installed(&path) else {
            continue;
        };
        let Ok(text) = fs::read_to_string(root.join(&header)) else {
            continue;
        };
        let given = numbers(text.lines());
        for (number, ours) in numbers(series.added(&path).into_iter()) {
            if let Some(theirs) = given.get(&number).filter(|theirs| **theirs != ours) {
                sentences.push(format!("{path}: {ours} is {number}, as {theirs}"));
            }
        }
    }
    sentences
}

/// Return the place in the package of a header of the tree with numbers of socket options.
fn installed(path: &str) -> Option<String> {
    if path == "include/uapi/asm-generic/socket.h" {
        return Some("usr/include/asm-generic/socket.h".into());
    }
    let architecture = path
        .strip_prefix("arch/")?
        .strip_suffix("/include/uapi/asm/socket.h")?;
    Some(format!("usr/lib/linux/uapi/{architecture}/asm/socket.h"))
}

/// Find `#define SO_NAME 85` and `#define SCM_NAME 0x5e`.
fn numbers<'a>(lines: impl Iterator<Item = &'a str>) -> Numbers {
    lines
        .filter_map(|line| {
            let mut words = line.strip_prefix("#define")?.split_whitespace();
            let (name, value) = (words.next()?, words.next()?);
            let number = match value.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => value.parse(),
            };
            let is_option = name.starts_with("SO_") || name.starts_with("SCM_");
            Some((number.ok().filter(|_| is_option)?, name.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_went_to_another_name_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        Series::make_empty(folder.path());
        write(
            "0001.patch",
            "--- a/include/uapi/asm-generic/socket.h\n+++ b/include/uapi/asm-generic/socket.h\n\
             @@ -1 +1,2 @@\n #define SO_OLD 85\n+#define SCM_OURS\t86\n\
             --- a/arch/sparc/include/uapi/asm/socket.h\n+++ b/arch/sparc/include/uapi/asm/socket.h\n\
             @@ -1 +1,2 @@\n #define SO_OLD 0x5e\n+#define SCM_OURS\t0x5f\n",
        );
        let series = Series::read(folder.path()).unwrap();
        let generic = "usr/include/asm-generic/socket.h";
        write(generic, "#define SO_OLD 85\n#define SCM_OURS 86\n");
        assert_eq!(beside(&series, folder.path()), [""; 0]);
        write(generic, "#define SO_OLD 85\n#define SO_THEIRS 86\n");
        write(
            "usr/lib/linux/uapi/sparc/asm/socket.h",
            "#define SCM_THEIRS 0x5f\n",
        );
        assert_eq!(
            beside(&series, folder.path()),
            [
                "arch/sparc/include/uapi/asm/socket.h: SCM_OURS is 95, as SCM_THEIRS",
                "include/uapi/asm-generic/socket.h: SCM_OURS is 86, as SO_THEIRS",
            ]
        );
    }
}
