//! Read the `use` lines of our crates: no file may know itself through others, and the files of
//! `sockstamp-bpf` between facts and action know what ARCHITECTURE.md says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

const MAP: &str = "ARCHITECTURE.md";
/// The first line of the table.
const HEADING: &str = "| file or folder | content | imports of this crate |";
/// The crate that the table is about.
const LAYERED: &str = "crates/sockstamp-bpf/src";
/// Entries of a file that imports nothing of its crate, and of one that may import all of it.
const NONE: &str = "none";
const EVERYTHING: &str = "everything";

/// The path of a module below its crate, and of modules that it names.
type Module = Vec<String>;
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Fail if files of a crate know each other in a circle, or if the table names other imports.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    for sources in crates(root)? {
        let shown = sources.strip_prefix(root)?.display().to_string();
        let circles = circles(&imports(&read(&sources)?));
        wrong.extend(circles.iter().map(|circle| format!("{shown}: {circle}")));
    }
    ensure!(
        wrong.is_empty(),
        "files know each other in a circle:\n  {}",
        wrong.join("\n  ")
    );
    let text = fs::read_to_string(root.join(MAP)).with_context(|| format!("cannot read {MAP}"))?;
    let differences = differences(&table(&text)?, &imports(&read(&root.join(LAYERED))?));
    ensure!(
        differences.is_empty(),
        "{MAP} has other imports:\n  {}",
        differences.join("\n  ")
    );
    Ok(())
}

/// Return the folders of sources of our crates.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![
        root.join("bench/src"),
        root.join("kernel/lab/src"),
        root.join("xtask/src"),
    ];
    for entry in fs::read_dir(root.join("crates"))? {
        found.push(entry?.path().join("src"));
    }
    found.retain(|sources| sources.is_dir());
    Ok(found)
}

/// Return the text of each module that is not of tests.
fn read(sources: &Path) -> Result<BTreeMap<Module, String>> {
    let mut modules = BTreeMap::new();
    let mut folders = vec![sources.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let of_tests = path.file_stem().is_some_and(|name| name == "tests");
            if path.is_dir() && !of_tests {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") && !of_tests {
                let module = module(path.strip_prefix(sources)?);
                modules.insert(module, fs::read_to_string(&path)?);
            }
        }
    }
    Ok(modules)
}

fn module(path: &Path) -> Module {
    let stem = path.with_extension("");
    let mut module: Module = stem
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    if module
        .last()
        .is_some_and(|name| matches!(name.as_str(), "mod" | "lib" | "main"))
    {
        module.pop();
    }
    module
}

/// Return what each module imports: modules that are not above it, whose children it is one of.
fn imports(modules: &BTreeMap<Module, String>) -> Imports {
    let of = |(module, text): (&Module, &String)| {
        let paths = used_paths(text).into_iter();
        let named = paths.filter_map(|path| resolve(modules, module, &path));
        let known = named.filter(|named| !module.starts_with(named)).collect();
        (module.clone(), known)
    };
    modules.iter().map(of).collect()
}

/// Return each path of the `use` lines, outside of tests and of comments.
fn used_paths(text: &str) -> Vec<String> {
    let code = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let code: String = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    let statements = code.split(';');
    let uses = statements.filter_map(|statement| {
        let line = statement.lines().find(|line| is_use(line))?;
        let (_, rest) = statement.split_once(line)?;
        let (_, first) = line.split_once("use ")?;
        Some(format!("{first} {rest}"))
    });
    uses.flat_map(|tree| paths_of(&tree)).collect()
}

fn is_use(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ")
}

/// Return the paths of a tree, such as `a::{b, c::d}`.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![
            tree.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
        ];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for character in inside.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    let parts = parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty());
    parts
        .flat_map(|part| paths_of(&format!("{}{part}", before.trim())))
        .collect()
}

/// Return the module of this crate that a path leads to.
fn resolve(modules: &BTreeMap<Module, String>, at: &Module, path: &str) -> Option<Module> {
    let names: Vec<_> = path.split("::").map(str::trim).collect();
    let above = names.iter().take_while(|name| **name == "super").count();
    let (mut found, rest) = match names.first()? {
        &"crate" => (Vec::new(), &names[1..]),
        &"self" => (at.clone(), &names[1..]),
        &"super" => (at[..at.len().checked_sub(above)?].to_vec(), &names[above..]),
        name => {
            let child = [&at[..], &[(*name).to_owned()]].concat();
            modules
                .contains_key(&child)
                .then(|| (at.clone(), &names[..]))?
        }
    };
    for name in rest {
        found.push((*name).to_owned());
        if !modules.contains_key(&found) {
            found.pop();
            break;
        }
    }
    Some(found)
}

/// Return each circle once, as the modules on it.
fn circles(imports: &Imports) -> BTreeSet<String> {
    let reached: BTreeMap<_, _> = imports
        .keys()
        .map(|module| (module, reach(imports, module)))
        .collect();
    let on_circle = |module: &&Module| reached[module].contains(*module);
    let circle = |module: &Module| {
        let both = reached[module]
            .iter()
            .filter(|other| reached[other].contains(module));
        both.map(|module| module.join("::"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    imports.keys().filter(on_circle).map(circle).collect()
}

/// Return the modules that one leads to, itself only if it is on a circle.
fn reach(imports: &Imports, from: &Module) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut left = vec![from.clone()];
    while let Some(module) = left.pop() {
        for next in imports.get(&module).into_iter().flatten() {
            if reached.insert(next.clone()) {
                left.push(next.clone());
            }
        }
    }
    reached
}

/// Return the rows that name imports, by the name of the module.
fn table(text: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let rows: Vec<_> = text
        .lines()
        .skip_while(|line| *line != HEADING)
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    ensure!(
        !rows.is_empty(),
        "{MAP} has no table that begins with {HEADING}"
    );
    let mut table = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [path, _, imports] = cells.as_slice() else {
            bail!("{MAP} has a row that has not three cells: {row}");
        };
        let name = path
            .trim_matches('`')
            .trim_end_matches('/')
            .trim_end_matches(".rs");
        if *imports != EVERYTHING {
            let imports = imports.split(", ").filter(|name| *name != NONE);
            let imports = imports.map(|name| name.trim_matches('`').to_owned());
            table.insert(name.to_owned(), imports.collect());
        }
    }
    Ok(table)
}

fn differences(table: &BTreeMap<String, BTreeSet<String>>, imports: &Imports) -> Vec<String> {
    let differs = |(name, said): (&String, &BTreeSet<String>)| {
        let files = imports
            .iter()
            .filter(|(module, _)| module.first() == Some(name));
        let known = files
            .flat_map(|(_, known)| known)
            .filter_map(|known| known.first());
        let known: BTreeSet<_> = known.filter(|other| *other != name).cloned().collect();
        let shown = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        (known != *said).then(|| format!("{name} imports {}, not {}", shown(&known), shown(said)))
    };
    table.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> BTreeMap<Module, String> {
        let modules = files.iter();
        modules
            .map(|(path, text)| (module(Path::new(path)), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn our_files_know_each_other_in_no_circle_and_as_the_table_says() {
        check(crate::root()).unwrap();
    }

    #[test]
    fn a_circle_is_found_through_trees_and_children() {
        let files = crate_of(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            ("a/mod.rs", "mod inner;\n\npub(crate) use inner::Thing;"),
            (
                "a/inner.rs",
                "use std::fs;\nuse crate::{\n    b::{One, Two},\n    c,\n};",
            ),
            (
                "b.rs",
                "// Not by use crate::c;\nuse super::a::Thing as Other;",
            ),
            (
                "c.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::a::Thing;\n}",
            ),
        ]);
        let found = circles(&imports(&files));
        assert_eq!(found, BTreeSet::from(["a, a::inner, b".to_owned()]));
    }

    #[test]
    fn a_child_may_know_its_parent() {
        let files = crate_of(&[
            ("a/mod.rs", "mod child;\nuse child::work;"),
            ("a/child.rs", "use super::Setting;"),
        ]);
        assert!(circles(&imports(&files)).is_empty());
    }

    #[test]
    fn an_import_that_is_not_in_the_table_is_named() {
        let row = |path: &str, imports: &str| format!("| `{path}` | it | {imports} |\n");
        let rows =
            row("facts/", "none") + &row("plan/", "`facts`") + &row("session/", "everything");
        let table = table(&format!("{HEADING}\n|---|---|---|\n{rows}\n")).unwrap();
        let files = crate_of(&[
            ("facts/mod.rs", "use crate::plan::Plan;"),
            (
                "plan/mod.rs",
                "mod rules;\nuse self::rules::stamps;\nuse crate::facts::Facts;",
            ),
            ("plan/rules.rs", "use super::Reason;"),
            ("session/mod.rs", "use crate::plan::Plan;"),
        ]);
        let found = differences(&table, &imports(&files));
        assert_eq!(found, ["facts imports plan, not "]);
    }
}
