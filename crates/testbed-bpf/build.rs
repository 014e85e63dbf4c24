//! Compiles the programs, with the headers of sockstamp's own.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Result;
use bpf_build::Clang;

/// Include the headers shared by all programs from here, and those generated from
/// `DEP_SOCKSTAMP_BPF_INCLUDE`, which the build script of sockstamp-bpf sets.
const HEADERS: &str = "../sockstamp-bpf/src";

fn main() -> Result<()> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=src/bpf");
    for folder in ["abi", "kernel", "sample", "select"] {
        println!("cargo:rerun-if-changed={HEADERS}/{folder}");
    }
    let generated = PathBuf::from(env::var("DEP_SOCKSTAMP_BPF_INCLUDE")?);
    let clang = Clang::find()?;
    for name in [
        "filter", "floor", "naive", "points", "redirect", "sample", "sink", "stranger",
    ] {
        clang.skeleton(
            &format!("src/bpf/{name}.bpf.c"),
            &out,
            &[Path::new(HEADERS), &generated],
        )?;
    }
    Ok(())
}
