//! Keep the public API of the library's crates in a file each, so that no change of it is made
//! unseen: `cargo run -p xtask-api` writes them.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use public_api::PublicApi;

/// Those that others depend on.
const CRATES: [&str; 2] = ["sockstamp", "sockstamp-clock"];

/// Write `api.txt` of each crate of the library.
#[derive(Debug, Parser)]
struct Options {
    /// Write nothing; fail if a file is not as it would be written
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let Options { check } = Options::parse();
    let differing: Result<Vec<_>> = CRATES.into_iter().map(|name| keep(name, check)).collect();
    match differing.map(|differing| differing.concat()) {
        Ok(lines) if lines.is_empty() || !check => ExitCode::SUCCESS,
        Ok(lines) => {
            eprintln!(
                "xtask-api: the public API has changed; run `cargo run -p xtask-api`:{lines}"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask-api: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Write the file of a crate, unless it is only checked; return the lines that differ.
fn keep(name: &str, check: bool) -> Result<String> {
    let path = root().join("crates").join(name).join("api.txt");
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let now = api(name)?;
    if !check {
        fs::write(&path, &now).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(differences(&kept, &now))
}

fn differences(kept: &str, now: &str) -> String {
    let missing = |text: &str, from: &str, sign: &str| -> Vec<String> {
        let lines = text.lines();
        let lines = lines.filter(|line| !from.lines().any(|other| other == *line));
        lines.map(|line| format!("\n  {sign} {line}")).collect()
    };
    let mut lines = missing(kept, now, "-");
    lines.extend(missing(now, kept, "+"));
    lines.concat()
}

/// Return a crate's public items, a line each.
fn api(name: &str) -> Result<String> {
    let api = public_api::Builder::from_rustdoc_json(rustdoc(name)?)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| format!("cannot read what rustdoc wrote of {name}"))?;
    Ok(text(&api))
}

fn text(api: &PublicApi) -> String {
    api.items().map(|item| format!("{item}\n")).collect()
}

/// Run rustdoc, and return the file with what it knows of a crate. The folder is its own: with
/// `RUSTC_BOOTSTRAP`, build scripts run again, and what they built elsewhere would be built anew.
fn rustdoc(name: &str) -> Result<PathBuf> {
    let target = root().join("target/api");
    let status = Command::new("cargo")
        .args(["rustdoc", "--quiet", "--locked", "--all-features", "--lib"])
        .args(["--package", name, "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(root())
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "cargo rustdoc of {name}: {status}");
    let file = target.join(format!("doc/{}.json", name.replace('-', "_")));
    if !file.is_file() {
        bail!("cargo rustdoc wrote no {}", file.display());
    }
    Ok(file)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("xtask/api is two folders below the root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_came_and_went_are_the_difference() {
        assert_eq!(differences("a\nb\n", "a\nb\n"), "");
        assert_eq!(differences("a\nb\n", "a\nc\n"), "\n  - b\n  + c");
    }
}
