//! Compiles BPF programs to skeletons, for build scripts, and checks headers.

#![forbid(unsafe_code)]

mod miscompiled;
#[cfg(test)]
mod order;
#[cfg(test)]
mod pairs;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::libbpf_sys;

/// Older ones lose the upper half of 64-bit enumerators.
const OLDEST_CLANG: u32 = 16;
const NEWEST_CLANG: u32 = 22;
/// Tries per source.
const MOST_COMPILATIONS: usize = 8;

/// A compiler for BPF.
#[derive(Debug)]
pub struct Clang {
    path: PathBuf,
    /// Arguments that define macros.
    definitions: Vec<String>,
}

impl Clang {
    /// Find the newest clang, or take the one that CLANG names.
    ///
    /// # Errors
    ///
    /// If there is none that is new enough.
    pub fn find() -> Result<Self> {
        find_clang().map(Self::named)
    }

    /// Take this clang.
    #[must_use]
    pub fn named(clang: impl Into<PathBuf>) -> Self {
        Self {
            path: clang.into(),
            definitions: Vec::new(),
        }
    }

    /// Define a macro in all that it compiles to skeletons.
    #[must_use]
    pub fn defining(mut self, name: &str) -> Self {
        self.definitions.push(format!("-D{name}"));
        self
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
        println!("cargo:rerun-if-env-changed=CLANG");
        let stem = stem(source)?;
        let mut compilation =
            Compilation::new(self, source, out.join(format!("{stem}.o")), headers);
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

    /// Compile a header alone, to nothing. Includes are looked for in these folders.
    ///
    /// # Errors
    ///
    /// If clang refuses.
    pub fn compile_alone(&self, header: &Path, folders: &[&Path]) -> Result<()> {
        let mut command = Command::new(&self.path);
        command.args(["-fsyntax-only", "-x", "c", "-Wall", "-Werror"]);
        // Other files use what a header defines.
        command.arg("-Wno-unused-function");
        if is_of_programs(header) {
            command.args(["-target", "bpf"]);
        }
        for folder in folders {
            command.arg("-I").arg(folder);
        }
        let output = command.arg(header).output();
        let output = output.with_context(|| format!("cannot run {}", self.path.display()))?;
        ensure!(
            output.status.success(),
            "{} does not compile alone:\n{}",
            header.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Compile once, to an object in the folder `out`, and return true if it has a load through a
    /// constant.
    ///
    /// # Errors
    ///
    /// If clang refuses.
    pub fn miscompiles(&self, source: &str, out: &Path, headers: &[&Path]) -> Result<bool> {
        let object = out.join(format!("{}.o", stem(source)?));
        Ok(!Compilation::new(self, source, object, headers).is_sound()?)
    }
}

/// Write the headers of libbpf to the folder `bpf` in this one.
///
/// # Errors
///
/// If they cannot be written.
pub fn write_libbpf_headers(folder: &Path) -> Result<()> {
    let folder = folder.join("bpf");
    fs::create_dir_all(&folder)?;
    for (name, text) in libbpf_sys::API_HEADERS {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// Return true for headers that user space does not share.
fn is_of_programs(header: &Path) -> bool {
    let name = header.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(".bpf.h") || name == "vmlinux.h")
}

/// A source on its way to an object.
struct Compilation<'a> {
    clang: &'a Path,
    source: &'a str,
    object: PathBuf,
    builder: SkeletonBuilder,
}

impl<'a> Compilation<'a> {
    fn new(clang: &'a Clang, source: &'a str, object: PathBuf, headers: &[&Path]) -> Self {
        let mut builder = builder(clang, source, headers);
        builder.obj(&object);
        Self {
            clang: &clang.path,
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

fn builder(clang: &Clang, source: &str, headers: &[&Path]) -> SkeletonBuilder {
    let mut builder = SkeletonBuilder::new();
    builder
        .source(source)
        .clang(&clang.path)
        // Skip formatting if this program does not exist. The result is not read, and a toolchain
        // without rustfmt may have a stand-in that only complains.
        .rustfmt("sockstamp-needs-no-rustfmt")
        .clang_args(
            headers
                .iter()
                .map(|folder| format!("-iquote{}", folder.display()))
                .chain(["-Wall".to_owned(), "-Werror".to_owned()])
                .chain(folder_less())
                .chain(clang.definitions.iter().cloned()),
        );
    builder
}

/// Return the argument that keeps this folder's path out of objects, whose type information names
/// the file of each line.
fn folder_less() -> Option<String> {
    let folder = env::current_dir().ok()?;
    Some(format!("-ffile-prefix-map={}=.", folder.display()))
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
