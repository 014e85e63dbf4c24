//! The header, as compilers see it.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::installed::{header, installed, run};

/// The newest that scripts/deps.sh installs one of: it knows C++ where gcc comes without.
fn clang() -> String {
    let names = (16..=19).rev().map(|version| format!("clang-{version}"));
    let mut there = names.filter(|name| Command::new(name).arg("--version").output().is_ok());
    there.next().unwrap()
}

#[test]
fn the_header_stands_alone_in_each_standard_and_in_cpp() {
    let include = installed().path("include");
    for (language, standard) in [
        ("c", "c99"),
        ("c", "c11"),
        ("c", "gnu17"),
        ("c++", "c++11"),
        ("c++", "c++20"),
    ] {
        run(Command::new(clang())
            .args([
                "-fsyntax-only",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-x",
                language,
            ])
            .arg(format!("-std={standard}"))
            .arg(include.join("sockstamp.h")));
    }
}

/// The flags of SO_TIMESTAMPING are compared with the library's, which are compared with the
/// kernel's.
#[test]
fn numbers_that_the_kernel_names_are_its_own() {
    // Newer than the headers of Debian 12.
    const NEW: &str = "SOCKSTAMP_KIND_COMPLETION";
    let mut source = String::from(
        "#include <sockstamp.h>\n#include <linux/errqueue.h>\n#include <linux/tcp.h>\n",
    );
    let mut compared = 0;
    for name in header().split_whitespace().filter(|word| *word != NEW) {
        let kernels = match name
            .split_once("_KIND_")
            .or(name.split_once("SOCKSTAMP_TCP_"))
        {
            Some(("SOCKSTAMP", kind)) => format!("SCM_TSTAMP_{kind}"),
            Some(("", value)) => format!("TCP_NLA_{value}"),
            _ => continue,
        };
        writeln!(
            source,
            "_Static_assert((int){name} == (int){kernels}, \"{name}\");"
        )
        .unwrap();
        compared += 1;
    }
    assert_eq!(compared, 26, "{source}");
    let path = installed().path("numbers.c");
    fs::write(&path, source).unwrap();
    run(Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only", "-I"])
        .arg(installed().path("include"))
        .arg(path));
}
