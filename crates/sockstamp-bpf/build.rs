//! Compiles the programs and generates what Rust and C share: the skeleton, the Rust types of
//! `abi.h`, and in C the model's lists and histogram bounds.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};
use bpf_build::Clang;

fn main() -> Result<()> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for sources in [
        "src/abi",
        "src/answer",
        "src/arrival",
        "src/bpf",
        "src/clock",
        "src/completions",
        "src/connection",
        "src/demand",
        "src/drops",
        "src/group",
        "src/histogram",
        "src/host_path",
        "src/kernel",
        "src/ledger",
        "src/neighbour",
        "src/nic",
        "src/packets",
        "src/record",
        "src/sample",
        "src/sched",
        "src/select",
        "src/stuck",
        "src/tcp",
        "src/udp",
        "src/unix",
        "src/wait",
        "src/window",
    ] {
        println!("cargo:rerun-if-changed={sources}");
    }

    fs::write(
        out.join("histogram_bounds.h"),
        sockstamp_model::histogram::c_header(),
    )?;
    fs::write(out.join("lists.h"), sockstamp_model::lists::c_header())?;
    println!("cargo:include={}", out.display());
    generate_types(&out)?;
    let mut clang = Clang::find()?;
    if env::var_os("CARGO_FEATURE_SERIES").is_some() {
        clang = clang.defining("SOCKSTAMP_SERIES");
    }
    println!("cargo:rustc-env=CLANG_VERSION={}", clang.version()?);
    let headers = [Path::new("src"), &out];
    for source in [
        "src/bpf/sockstamp.bpf.c",
        "src/bpf/completions.bpf.c",
        "src/bpf/packets.bpf.c",
        "src/bpf/probe.bpf.c",
        "src/bpf/stuck.bpf.c",
        "src/bpf/symbols.bpf.c",
        "src/bpf/unix.bpf.c",
    ] {
        clang.skeleton(source, &out, &headers)?;
    }
    Ok(())
}

fn generate_types(out: &Path) -> Result<()> {
    bindgen::Builder::default()
        .clang_arg("-iquotesrc")
        .clang_arg(format!("-iquote{}", out.display()))
        .header("src/group/group.h")
        .header("src/select/filter.h")
        .header("src/completions/completions.h")
        .header("src/packets/packets.h")
        .header("src/stuck/stuck.h")
        .header("src/unix/unix.h")
        .allowlist_file(".*/(abi|lists|group|filter|completions|packets|stuck|unix)\\.h")
        .default_enum_style(bindgen::EnumVariation::ModuleConsts)
        .derive_default(true)
        .layout_tests(false)
        .formatter(bindgen::Formatter::None)
        .generate()?
        .write_to_file(out.join("abi.rs"))
        .context("cannot write the types of abi.h")
}
