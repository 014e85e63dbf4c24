//! Compiles the programs and generates what Rust and C share: the skeleton, the Rust types of
//! `abi.h`, and the C table of the model's histogram bounds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use libbpf_cargo::SkeletonBuilder;

/// Older ones lose the upper half of 64-bit enumerators.
const OLDEST_CLANG: u32 = 16;
const NEWEST_CLANG: u32 = 22;
/// Of one source.
const MOST_COMPILATIONS: usize = 8;

fn main() -> Result<()> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for sources in [
        "src/abi",
        "src/bpf",
        "src/clock",
        "src/completions",
        "src/filter",
        "src/flow",
        "src/group",
        "src/histogram",
        "src/host_path",
        "src/sample",
        "src/sched",
        "src/tcp",
        "src/udp",
    ] {
        println!("cargo:rerun-if-changed={sources}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");

    fs::write(
        out.join("histogram_bounds.h"),
        sockstamp_model::histogram::c_header(),
    )?;
    generate_types(&out)?;
    let clang = find_clang()?;
    println!("cargo:rustc-env=CLANG_VERSION={}", version(&clang)?);
    compile(
        &clang,
        "src/bpf/sockstamp.bpf.c",
        &out.join("sockstamp.skel.rs"),
        &out,
    )?;
    compile(
        &clang,
        "src/bpf/completions.bpf.c",
        &out.join("completions.skel.rs"),
        &out,
    )?;
    compile(&clang, "src/bpf/floor.bpf.c", &out.join("floor.skel.rs"), &out)?;
    compile(&clang, "src/bpf/points.bpf.c", &out.join("points.skel.rs"), &out)?;
    compile(&clang, "src/bpf/probe.bpf.c", &out.join("probe.skel.rs"), &out)?;
    compile(&clang, "src/bpf/sink.bpf.c", &out.join("sink.skel.rs"), &out)?;
    compile(
        &clang,
        "src/bpf/stranger.bpf.c",
        &out.join("stranger.skel.rs"),
        &out,
    )?;
    compile(
        &clang,
        "src/bpf/filter_test.bpf.c",
        &out.join("filter_test.skel.rs"),
        &out,
    )?;
    compile(
        &clang,
        "src/bpf/sample_test.bpf.c",
        &out.join("sample_test.skel.rs"),
        &out,
    )
}

/// clang 19 does not make the same object of the same source each time. Now and then it leaves a load in a program that it should
/// have replaced, for the verifier to refuse: in 3 of 28 compilations of sockstamp.bpf.c, each time at another place. What is left
/// over points to BPFMISimplifyPatchable, which keeps the addresses of instructions in a set. So an object counts when it came
/// out twice.
fn compile(clang: &Path, source: &str, skeleton: &Path, out: &Path) -> Result<()> {
    let mut objects: Vec<Vec<u8>> = Vec::new();
    for attempt in 0..MOST_COMPILATIONS {
        let folder = out.join(format!("compilation-{attempt}"));
        fs::create_dir_all(&folder)?;
        let object = folder.join(object_name(source)?);
        let mut builder = builder(clang, source, out);
        builder
            .obj(&object)
            .build()
            .with_context(|| format!("cannot compile {source} with {}", clang.display()))?;
        let bytes = fs::read(&object)?;
        if objects.contains(&bytes) {
            return builder
                .generate(skeleton)
                .with_context(|| format!("cannot write the skeleton of {source}"));
        }
        objects.push(bytes);
    }
    bail!(
        "{} makes another object of {source} each time, {MOST_COMPILATIONS} times: name another clang in CLANG",
        clang.display()
    )
}

/// The skeleton's types have their names from it.
fn object_name(source: &str) -> Result<String> {
    let name = Path::new(source).file_name().and_then(|name| name.to_str());
    let stem = name.and_then(|name| name.strip_suffix(".bpf.c"));
    Ok(format!("{}.o", stem.context("sources end in .bpf.c")?))
}

fn builder(clang: &Path, source: &str, out: &Path) -> SkeletonBuilder {
    let mut builder = SkeletonBuilder::new();
    builder
        .source(source)
        .clang(clang)
        // Formatting is left out where this program does not exist. Nobody reads the result, and a
        // toolchain without rustfmt may have a stand-in that only complains.
        .rustfmt("sockstamp-needs-no-rustfmt")
        .clang_args(["-iquotesrc", &format!("-I{}", out.display()), "-Wall", "-Werror"]);
    builder
}

fn generate_types(out: &Path) -> Result<()> {
    bindgen::Builder::default()
        .clang_arg("-iquotesrc")
        .header("src/group/group.h")
        .header("src/filter/filter.h")
        .header("src/completions/completions.h")
        .allowlist_file(".*/(abi|group|filter|completions)\\.h")
        .default_enum_style(bindgen::EnumVariation::ModuleConsts)
        .derive_default(true)
        .layout_tests(false)
        .formatter(bindgen::Formatter::None)
        .generate()?
        .write_to_file(out.join("abi.rs"))
        .context("cannot write the types of abi.h and filter.h")
}

fn find_clang() -> Result<PathBuf> {
    if let Ok(clang) = env::var("CLANG") {
        return Ok(clang.into());
    }
    let named = (OLDEST_CLANG..=NEWEST_CLANG)
        .rev()
        .map(|version| format!("clang-{version}"));
    for name in named.chain(["clang".into()]) {
        if major_version(&name).is_some_and(|version| version >= OLDEST_CLANG) {
            return Ok(name.into());
        }
    }
    bail!("no clang {OLDEST_CLANG} or newer found: install clang-19, or name one in CLANG")
}

fn major_version(clang: &str) -> Option<u32> {
    let version = version(Path::new(clang)).ok()?;
    version.split('.').next()?.parse().ok()
}

fn version(clang: &Path) -> Result<String> {
    let output = Command::new(clang).arg("-dumpversion").output();
    let output = output.with_context(|| format!("cannot run {}", clang.display()))?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
