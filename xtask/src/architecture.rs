//! Compare ARCHITECTURE.md's table of crates with cargo's metadata: a new crate or a new dependency
//! must change the table as well.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

const MAP: &str = "ARCHITECTURE.md";
/// The first line of the table.
const HEADING: &str = "| path | content | knows |";
/// The entry of a crate that knows no other crate of ours.
const NOBODY: &str = "nobody";
/// Crates outside of the workspace.
const OTHER_WORKSPACES: [&str; 1] = ["fuzz"];

/// By a crate's folder, the crates that it knows, as the table calls them.
type Known = BTreeMap<String, BTreeSet<String>>;

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// None: an ordinary one, not of tests or of the build.
    kind: Option<String>,
    /// None: it is of a registry.
    path: Option<String>,
}

/// Fail if the table names other crates than there are, or another one's dependencies.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join(MAP)).with_context(|| format!("cannot read {MAP}"))?;
    let differences = differences(&table(&text)?, &of_cargo(root)?);
    ensure!(
        differences.is_empty(),
        "{MAP} is not as the manifests have it:\n  {}",
        differences.join("\n  ")
    );
    Ok(())
}

fn table(text: &str) -> Result<Known> {
    let mut lines = text
        .lines()
        .skip_while(|line| *line != HEADING)
        .skip(2)
        .peekable();
    ensure!(
        lines.peek().is_some(),
        "{MAP} has no table that begins with {HEADING}"
    );
    lines
        .take_while(|line| line.starts_with('|'))
        .map(row)
        .collect()
}

fn row(line: &str) -> Result<(String, BTreeSet<String>)> {
    let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [path, _, knows] = cells.as_slice() else {
        bail!("{MAP} has a row that has not three cells: {line}");
    };
    let path = path.trim_matches('`').trim_end_matches('/').to_owned();
    let known = knows.split(", ").filter(|name| *name != NOBODY);
    Ok((path, known.map(str::to_owned).collect()))
}

fn of_cargo(root: &Path) -> Result<Known> {
    let mut known = of_workspace(root, root)?;
    for folder in OTHER_WORKSPACES {
        known.extend(of_workspace(root, &root.join(folder))?);
    }
    Ok(known)
}

fn of_workspace(root: &Path, folder: &Path) -> Result<Known> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--format-version=1",
            "--manifest-path",
        ])
        .arg(folder.join("Cargo.toml"))
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("what cargo metadata printed")?;
    metadata
        .packages
        .into_iter()
        .map(|package| {
            let path = Path::new(&package.manifest_path).strip_prefix(root)?;
            let path = path.parent().context("a manifest is in a folder")?;
            Ok((path.to_string_lossy().into_owned(), known_by(&package)))
        })
        .collect()
}

fn known_by(package: &Package) -> BTreeSet<String> {
    let ours = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind.is_none() && dependency.path.is_some());
    ours.filter(|dependency| dependency.name != package.name)
        .map(|dependency| short(&dependency.name).to_owned())
        .collect()
}

/// `bpf` of `sockstamp-bpf`.
fn short(name: &str) -> &str {
    name.strip_prefix("sockstamp-").unwrap_or(name)
}

fn differences(table: &Known, manifests: &Known) -> Vec<String> {
    let paths: BTreeSet<_> = table.keys().chain(manifests.keys()).collect();
    paths
        .into_iter()
        .filter_map(|path| match (table.get(path), manifests.get(path)) {
            (Some(said), Some(known)) if said == known => None,
            (Some(said), Some(known)) => {
                Some(format!("{path} knows {}, not {}", list(known), list(said)))
            }
            (Some(_), None) => Some(format!("{path} is not a crate")),
            (None, _) => Some(format!("{path} is missing")),
        })
        .collect()
}

fn list(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return NOBODY.to_owned();
    }
    names
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_crates_is_as_the_manifests_have_it() {
        check(crate::root::root()).unwrap();
    }

    #[test]
    fn a_dependency_that_is_not_in_the_table_is_named() {
        let text = "| path | content | knows |\n|---|---|---|\n| `a` | it | nobody |\n| `b/` | it | a, c |\n\n| no row |\n";
        let table = table(text).unwrap();
        let known = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let manifests = BTreeMap::from([
            ("a".to_owned(), known(&[])),
            ("b".to_owned(), known(&["a"])),
            ("c".to_owned(), known(&[])),
        ]);
        assert_eq!(
            differences(&table, &manifests),
            ["b knows a, not a, c", "c is missing"]
        );
    }
}
