//! Build what guests of the series run: its selftests, those of BPF with the kernel's own harness,
//! and the instruction counter.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::command::{processors, succeed};
use super::patches::{FOLDER, Series};
use crate::cache;

const SELFTESTS: &str = "tools/testing/selftests/bpf";
const NET_SELFTESTS: &str = "tools/testing/selftests/net";
/// A partial copy of that folder, next to it: its Makefile builds all tests that it finds, a
/// thousand.
const PART: &str = "tools/testing/selftests/bpf-sockstamp";
/// Files of the folder that belong to the harness, not to tests.
const HARNESS_OMITS: [&str; 6] = [
    "prog_tests",
    "progs",
    "map_tests",
    "verifier",
    "benchs",
    "test_kmods",
];
/// Programs of other tests that the Makefile would want, and files that they need.
const NOTHING_ELSE: [&str; 7] = [
    "TRUNNER_EXTRA_FILES=",
    "LIBARENA_SKEL=",
    "LIBARENA_ASAN_SKEL=",
    "LSKELS=",
    "LSKELS_EXTRA=",
    "LSKELS_SIGNED=",
    "LINKED_SKELS=",
];

/// Builds `test_progs`, `count` and the selftests of net into a folder.
pub(crate) fn build(tree: &Path, series: &Series, home: &Path) -> Result<()> {
    let output = tree.join(".selftests");
    cache::make(&output)?;
    let part = tree.join(PART);
    choose(tree, series, &part)?;
    eprintln!("sockstamp-lab: building selftests");
    let program = output.join("test_progs");
    let mut make = Command::new("make");
    make.current_dir(&part)
        .arg(format!("--jobs={}", processors()))
        .arg("--silent")
        .arg(format!("OUTPUT={}", output.display()))
        .arg(format!("VMLINUX_BTF={}", tree.join("vmlinux").display()))
        .arg(format!("CLANG={}", clang()?))
        .args(["SKIP_LLVM=1", "SKIP_LIBBFD=1", "SKIP_DOCS=1"])
        .args(NOTHING_ELSE)
        .arg(&program);
    succeed(make.stdout(Stdio::null()))?;
    strip(&program, &home.join("test_progs"))?;
    let count = build_count(tree, &output)?;
    strip(&count, &home.join("count"))?;
    build_net(tree, series, home)
}

/// Compile each selftest of the network alone: none needs a library of the tree.
fn build_net(tree: &Path, series: &Series, home: &Path) -> Result<()> {
    succeed(
        Command::new("make")
            .current_dir(tree)
            .args(["--silent", "headers"]),
    )?;
    for file in series.net_selftests() {
        let source = tree.join(NET_SELFTESTS).join(file);
        let name = source.file_name().context("a file has a name")?;
        if source.extension().is_none_or(|extension| extension != "c") {
            fs::copy(&source, home.join(name)).with_context(|| format!("no {file}"))?;
            continue;
        }
        let mut compile = Command::new("cc");
        compile
            // Do as lib.mk of the selftests does.
            .args(["-O2", "-Wall", "-D_GNU_SOURCE="])
            .arg(format!(
                "-I{}",
                tree.join("tools/testing/selftests").display()
            ))
            .arg(format!("-I{}", tree.join("usr/include").display()))
            .arg(format!("-I{}", tree.join("tools/include").display()))
            .arg("-o")
            .arg(home.join(name).with_extension(""))
            .arg(&source)
            .arg("-lpthread");
        succeed(&mut compile)?;
    }
    Ok(())
}

/// Copy the harness, and the requested tests with their programs.
fn choose(tree: &Path, series: &Series, part: &Path) -> Result<()> {
    let all = tree.join(SELFTESTS);
    let mut copy = Command::new("rsync");
    copy.args(["--archive", "--checksum", "--no-times"]);
    for folder in HARNESS_OMITS {
        copy.arg(format!("--exclude=/{folder}"));
    }
    succeed(copy.arg(all.join("")).arg(part))?;
    without_keys(part)?;
    let mut wanted = BTreeSet::new();
    for test in series.selftests() {
        let test = format!("prog_tests/{test}.c");
        let text = fs::read_to_string(all.join(&test)).with_context(|| format!("no {test}"))?;
        wanted.extend(programs(&text));
        wanted.insert(test);
    }
    for folder in ["prog_tests", "progs", "map_tests"] {
        cache::make(&part.join(folder))?;
        for entry in fs::read_dir(all.join(folder)).context("cannot read the cache")? {
            let name = entry.context("cannot read the cache")?.file_name();
            let path = format!("{folder}/{}", name.to_string_lossy());
            let place = part.join(&path);
            if wanted.contains(&path) || path.ends_with(".h") && !path.ends_with("/tests.h") {
                copy_if_new(&all.join(&path), &place)?;
            } else if place.exists() && path.ends_with(".c") {
                fs::remove_file(&place).context("cannot write to the cache")?;
            }
        }
    }
    Ok(())
}

/// The harness registers a key for signed programs, and ends where it cannot. The kernel of the
/// series has no keyrings.
fn without_keys(part: &Path) -> Result<()> {
    const REGISTERING: &str =
        "static __u32 register_session_key(const char *key_data, size_t key_data_size)\n{\n";
    let file = part.join("test_progs.c");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let (before, after) = text
        .split_once(REGISTERING)
        .context("test_progs.c registers no key, or does it otherwise")?;
    fs::write(&file, format!("{before}{REGISTERING}\treturn 0;\n{after}"))
        .context("cannot write to the cache")
}

/// Return each NAME of `#include "NAME.skel.h"`.
fn programs(test: &str) -> impl Iterator<Item = String> {
    test.lines().filter_map(|line| {
        let name = line
            .strip_prefix("#include \"")?
            .strip_suffix(".skel.h\"")?;
        Some(format!("progs/{name}.c"))
    })
}

/// make compares times.
fn copy_if_new(from: &Path, to: &Path) -> Result<()> {
    if fs::read(from).ok() != fs::read(to).ok() {
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// Build it with the library and tools that the selftests have built.
fn build_count(tree: &Path, output: &Path) -> Result<PathBuf> {
    let source = Path::new(FOLDER).join("count");
    let headers = [
        format!("-I{}", output.join("tools/include").display()),
        format!("-I{}", tree.join("tools/include/uapi").display()),
    ];
    let object = output.join("count.bpf.o");
    let mut compile = Command::new(clang()?);
    compile
        .args([
            "-g",
            "-O2",
            "-Wno-missing-declarations",
            "-target",
            "bpf",
            "-c",
        ])
        .args(&headers)
        .arg(source.join("count.bpf.c"))
        .arg("-o")
        .arg(&object);
    succeed(&mut compile)?;
    let skeleton = Command::new(output.join("tools/sbin/bpftool"))
        .args(["gen", "skeleton"])
        .arg(&object)
        .args(["name", "count"])
        .output()
        .context("cannot run bpftool")?;
    fs::write(output.join("count.skel.h"), skeleton.stdout).context("cannot write to the cache")?;
    let program = output.join("count");
    let mut link = Command::new("cc");
    link.args(["-g", "-O2", "-Wall"])
        .args(&headers)
        .arg(format!("-I{}", output.display()))
        .arg(source.join("count.c"))
        .arg(output.join("tools/build/libbpf/libbpf.a"))
        .args(["-lelf", "-lz", "-o"])
        .arg(&program);
    succeed(&mut link)?;
    Ok(program)
}

/// The newest that scripts/deps.sh installs.
fn clang() -> Result<&'static str> {
    let works = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["clang-19", "clang-18", "clang-17", "clang"]
        .iter()
        .find(|name| works(name))
        .copied()
        .context("no clang here (scripts/deps.sh test)")
}

/// Return its version.
pub(crate) fn clang_version() -> Result<String> {
    let said = Command::new(clang()?).arg("--version").output();
    let said = said.context("cannot run clang")?.stdout;
    version(&String::from_utf8_lossy(&said)).context("clang does not tell its version")
}

fn version(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("clang version ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

fn strip(program: &Path, to: &Path) -> Result<()> {
    succeed(Command::new("strip").arg("-o").arg(to).arg(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_names_its_programs() {
        let text = "#include \"test_progs.h\"\n#include \"a.skel.h\"\n#include \"b.skel.h\"\n";
        let programs: Vec<String> = programs(text).collect();
        assert_eq!(programs, ["progs/a.c", "progs/b.c"]);
    }

    #[test]
    fn clang_tells_its_version_in_its_first_line() {
        let said = "Debian clang version 19.1.7 (3~deb12u1)\nTarget: x86_64-pc-linux-gnu\n";
        assert_eq!(version(said).as_deref(), Some("19.1.7"));
        assert_eq!(version("gcc 12"), None);
    }
}
