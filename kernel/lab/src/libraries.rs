//! Find the shared libraries of a program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Return the files that the dynamic loader would map, including the loader. There are none for
/// scripts and static programs.
pub(crate) fn of(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").env("LC_ALL", "C").arg(program).output();
    let output = output.context("cannot run ldd (package libc-bin)")?;
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Lines `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)`; the vDSO has no path.
fn parse(ldd: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        let path = path.trim().split(" (").next()?;
        path.starts_with('/').then(|| path.into())
    };
    ldd.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_libraries_and_of_the_loader_are_found() {
        let ldd = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f1)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n";
        assert_eq!(
            parse(ldd),
            [
                Path::new("/lib/x86_64-linux-gnu/libz.so.1"),
                Path::new("/lib64/ld-linux-x86-64.so.2")
            ]
        );
        assert!(parse("\tstatically linked\n").is_empty());
    }
}
