//! Compiles BPF programs to skeletons, for build scripts.

#![forbid(unsafe_code)]

mod miscompiled;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use libbpf_cargo::SkeletonBuilder;

/// Older ones lose the upper half of 64-bit enumerators.
const OLDEST_CLANG: u32 = 16;
const NEWEST_CLANG: u32 = 22;
/// Tries per source.
const MOST_COMPILATIONS: usize = 8;

/// A compiler for BPF.
#[derive(Debug)]
pub struct Clang {
    path: PathBuf,
}

impl Clang {
    /// Find the newest clang, or take the one that CLANG names.
    ///
    /// # Errors
    ///
    /// If there is none that is new enough.
    pub fn find() -> Result<Self> {
        println!("cargo:rerun-if-env-changed=CLANG");
        find_clang().map(|path| Self { path })
    }

    /// Take this clang.
    #[must_use]
    pub fn named(clang: impl Into<PathBuf>) -> Self {
        Self { path: clang.into() }
    }

    /// Return the version that it reports.
    ///
    /// # Errors
    ///
    /// If it cannot be run.
    pub fn version(&self) -> Result<String> {
        version(&self.path)
    }

    /// Compile `NAME.bpf.c` to `NAME.skel.rs` in the folder `out`. Quoted includes are looked for
    /// in these folders.
    ///
    /// # Errors
    ///
    /// If clang refuses, or miscompiles each time.
    pub fn skeleton(&self, source: &str, out: &Path, headers: &[&Path]) -> Result<()> {
        let stem = stem(source)?;
        let mut compilation =
            Compilation::new(&self.path, source, out.join(format!("{stem}.o")), headers);
        for _ in 0..MOST_COMPILATIONS {
            if compilation.is_sound()? {
                return compilation
                    .builder
                    .generate(out.join(format!("{stem}.skel.rs")))
                    .with_context(|| format!("cannot write the skeleton of {source}"));
            }
        }
        bail!(
            "{} miscompiled {source} {MOST_COMPILATIONS} times: name another clang in CLANG",
            self.path.display()
        )
    }

    /// Compile once, to an object in the folder `out`, and return true if it has a load through a
    /// constant.
    ///
    /// # Errors
    ///
    /// If clang refuses.
    pub fn miscompiles(&self, source: &str, out: &Path, headers: &[&Path]) -> Result<bool> {
        let object = out.join(format!("{}.o", stem(source)?));
        Ok(!Compilation::new(&self.path, source, object, headers).is_sound()?)
    }
}

/// A source on its way to an object.
struct Compilation<'a> {
    clang: &'a Path,
    source: &'a str,
    object: PathBuf,
    builder: SkeletonBuilder,
}

impl<'a> Compilation<'a> {
    fn new(clang: &'a Path, source: &'a str, object: PathBuf, headers: &[&Path]) -> Self {
        let mut builder = builder(clang, source, headers);
        builder.obj(&object);
        Self {
            clang,
            source,
            object,
            builder,
        }
    }

    /// Compile, and return true if the object has no load through a constant.
    fn is_sound(&mut self) -> Result<bool> {
        let (source, clang) = (self.source, self.clang.display());
        self.builder
            .build()
            .with_context(|| format!("cannot compile {source} with {clang}"))?;
        Ok(!miscompiled::has_load_through_constant(&fs::read(
            &self.object,
        )?)?)
    }
}

/// The skeleton's types have their names from it.
fn stem(source: &str) -> Result<&str> {
    let name = Path::new(source).file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_suffix(".bpf.c"))
        .context("sources end in .bpf.c")
}

fn builder(clang: &Path, source: &str, headers: &[&Path]) -> SkeletonBuilder {
    let mut builder = SkeletonBuilder::new();
    builder
        .source(source)
        .clang(clang)
        // Skip formatting if this program does not exist. The result is not read, and a toolchain
        // without rustfmt may have a stand-in that only complains.
        .rustfmt("sockstamp-needs-no-rustfmt")
        .clang_args(
            headers
                .iter()
                .map(|folder| format!("-iquote{}", folder.display()))
                .chain(["-Wall".to_owned(), "-Werror".to_owned()]),
        );
    builder
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
