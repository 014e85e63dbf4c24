//! Compiles the programs, with the headers of sockstamp's own.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Result;
use bpf_build::Clang;

/// Include the headers shared by all programs from here.
const HEADERS: &str = "../sockstamp-bpf/src";

fn main() -> Result<()> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=src/bpf");
    for folder in ["abi", "kernel", "sample", "select"] {
        println!("cargo:rerun-if-changed={HEADERS}/{folder}");
    }
    let clang = Clang::find()?;
    for name in [
        "filter", "floor", "naive", "points", "redirect", "sample", "sink", "stranger",
    ] {
        clang.skeleton(
            &format!("src/bpf/{name}.bpf.c"),
            &out,
            &[Path::new(HEADERS)],
        )?;
    }
    Ok(())
}
