//! Read the paths in our crates, of `use` lines and of code: no file and no folder may know itself
//! through others, and the files of `sockstamp-bpf` between facts and action know what
//! ARCHITECTURE.md says. Tests may know anything.

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
pub(crate) type Module = Vec<String>;
pub(crate) type Imports = BTreeMap<Module, BTreeSet<Module>>;
/// The modules of a crate.
type Crate = BTreeMap<Module, Code>;

/// The names that a module uses outside of tests.
#[derive(Debug, Default)]
struct Code {
    /// The paths of `use` lines, by the names that they bring in.
    uses: Vec<(String, String)>,
    /// The other paths.
    paths: Vec<String>,
}

/// Re-exports that lead to one another.
const MOST_STEPS: u8 = 8;

/// Fail if files or folders of a crate know each other in a circle, or if the table names other
/// imports.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    for sources in crates(root)? {
        let shown = sources.strip_prefix(root)?.display().to_string();
        let imports = imports(&read(&sources)?);
        let circles = circles(&imports).into_iter().chain(folders(&imports));
        wrong.extend(circles.map(|circle| format!("{shown}: {circle}")));
    }
    ensure!(
        wrong.is_empty(),
        "files or folders know each other in a circle:\n  {}",
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
        root.join("xtask/docs/src"),
    ];
    for entry in fs::read_dir(root.join("crates"))? {
        found.push(entry?.path().join("src"));
    }
    found.retain(|sources| sources.is_dir());
    Ok(found)
}

/// Return the modules that are not of tests.
fn read(sources: &Path) -> Result<Crate> {
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
                modules.insert(module, Code::of(&fs::read_to_string(&path)?));
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

/// Return the modules that each one names.
fn imports(modules: &Crate) -> Imports {
    let of = |(module, code): (&Module, &Code)| {
        let used = code.uses.iter().map(|(_, path)| path);
        let named = used.chain(&code.paths);
        let named = named.filter_map(|path| resolve(modules, module, path, MOST_STEPS));
        let known = named.filter(|named| named != module).collect();
        (module.clone(), known)
    };
    modules.iter().map(of).collect()
}

impl Code {
    fn of(text: &str) -> Self {
        let code = without_tests(text);
        let mut read = Self::default();
        for statement in code.split_inclusive(';') {
            match used_tree(statement) {
                Some((before, tree)) => {
                    read.paths.extend(qualified_paths(before));
                    read.uses
                        .extend(paths_of(&tree).iter().map(|path| named(path)));
                }
                None => read.paths.extend(qualified_paths(statement)),
            }
        }
        read
    }
}

/// Return the text without comments, imports for tests, and the modules of tests at its end.
fn without_tests(text: &str) -> String {
    let lines = text.lines();
    let code: String = lines
        .map(|line| line.split("//").next().unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut parts = code.split("#[cfg(test)]\n");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let first = part.lines().next().unwrap_or_default();
        if first.contains("mod ") && first.ends_with('{') {
            break;
        }
        kept += match is_use(first) {
            true => part.split_once(';').map_or("", |(_, rest)| rest),
            false => part,
        };
    }
    kept
}

/// Return what is before the tree of a `use` line, and the tree.
fn used_tree(statement: &str) -> Option<(&str, String)> {
    let line = statement.lines().find(|line| is_use(line))?;
    let (before, rest) = statement.split_once(line)?;
    let (_, first) = line.split_once("use ")?;
    Some((before, format!("{first} {rest}").replace(';', "")))
}

fn is_use(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ")
}

/// Return a path by the name that it brings in: `path as name` has one of its own.
fn named(path: &str) -> (String, String) {
    let (path, name) = match path.split_once(" as ") {
        Some((path, name)) => (path, name),
        None => (
            path,
            path.rsplit("::")
                .find(|name| *name != "self")
                .unwrap_or(path),
        ),
    };
    (name.trim().to_owned(), path.trim().to_owned())
}

/// Return the paths in code, such as `recorded::run` of a call.
fn qualified_paths(code: &str) -> Vec<String> {
    let is_of_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    let words = code.split(|character| !is_of_path(character));
    let mut paths = Vec::new();
    let mut before = "";
    for word in words {
        // `pub(in crate::name)` names who may name it.
        if word.contains("::") && !word.starts_with(':') && before != "in" {
            paths.push(word.trim_end_matches(':').to_owned());
        }
        before = word;
    }
    paths
}

/// Return the paths of a tree, such as `a::{b, c::d}`.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else {
        let words: Vec<_> = tree.split_whitespace().collect();
        return vec![words.join(" ")];
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

/// Return the module of this crate that a path leads to, through so many re-exports at most.
fn resolve(modules: &Crate, at: &Module, path: &str, steps: u8) -> Option<Module> {
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
    for (index, name) in rest.iter().enumerate() {
        found.push((*name).to_owned());
        if modules.contains_key(&found) {
            continue;
        }
        found.pop();
        let brought = modules.get(&found)?.uses.iter();
        let mut brought = brought.filter(|(brought, _)| brought == name && found != *at);
        if let (Some((_, path)), Some(steps)) = (brought.next(), steps.checked_sub(1)) {
            let path = [&[path.as_str()], &rest[index + 1..]].concat().join("::");
            return resolve(modules, &found, &path, steps);
        }
        break;
    }
    Some(found)
}

/// Return each circle of folders and files that are side by side in one folder.
fn folders(imports: &Imports) -> BTreeSet<String> {
    let inside = imports.keys().filter(|module| !module.is_empty());
    let folders: BTreeSet<_> = inside.map(|module| &module[..module.len() - 1]).collect();
    let of = |folder: &&[String]| circles(&collapsed(imports, folder));
    folders.iter().flat_map(of).collect()
}

/// Return what the folders and files in a folder know of each other.
fn collapsed(imports: &Imports, folder: &[String]) -> Imports {
    let within = |module: &Module| {
        let is_inside = module.len() > folder.len() && module.starts_with(folder);
        is_inside.then(|| module[..=folder.len()].to_vec())
    };
    let mut all = Imports::new();
    for (module, known) in imports {
        if let Some(inside) = within(module) {
            let others = known.iter().filter_map(within);
            let others: Vec<_> = others.filter(|other| *other != inside).collect();
            all.entry(inside).or_default().extend(others);
        }
    }
    all
}

/// Return each circle once, as the modules on it.
pub(crate) fn circles(imports: &Imports) -> BTreeSet<String> {
    let reached: BTreeMap<_, _> = imports
        .keys()
        .map(|module| (module, reach(imports, module)))
        .collect();
    let on_circle = |module: &&Module| reached[module].contains(*module);
    let circle = |module: &Module| {
        let both = reached[module]
            .iter()
            .filter(|other| reached[other].contains(module));
        both.map(|module| match module.as_slice() {
            [] => "the crate's root".to_owned(),
            names => names.join("::"),
        })
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

    fn crate_of(files: &[(&str, &str)]) -> Crate {
        let modules = files.iter();
        modules
            .map(|(path, text)| (module(Path::new(path)), Code::of(text)))
            .collect()
    }

    fn circles_of(files: &[(&str, &str)]) -> BTreeSet<String> {
        circles(&imports(&crate_of(files)))
    }

    #[test]
    fn our_files_know_each_other_in_no_circle_and_as_the_table_says() {
        check(crate::root::root()).unwrap();
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
                "#[cfg(test)]\npub(super) mod tests {\n    use crate::a::Thing;\n}",
            ),
        ]);
        let found = circles(&imports(&files));
        assert_eq!(found, BTreeSet::from(["a::inner, b".to_owned()]));
    }

    #[test]
    fn paths_in_code_are_imports() {
        let found = circles_of(&[
            ("lib.rs", "mod a;\nmod b;"),
            ("a/mod.rs", "mod inner;\nfn run() { inner::run(1) }"),
            (
                "a/inner.rs",
                "pub(super) fn run() -> crate::b::Out { \"x\".into() }",
            ),
            (
                "b.rs",
                "#[cfg(test)]\nuse crate::a::Test;\nfn out() { super::a::run() }",
            ),
        ]);
        assert_eq!(found, BTreeSet::from(["a, a::inner, b".to_owned()]));
    }

    #[test]
    fn a_child_may_know_its_parent_only_if_that_does_not_know_it() {
        let child = ("a/child.rs", "use super::Setting;");
        let knowing = ("a/mod.rs", "mod child;\nuse child::work;");
        let found = circles_of(&[knowing, child]);
        assert_eq!(found, BTreeSet::from(["a, a::child".to_owned()]));
        assert!(circles_of(&[("a/mod.rs", "mod child;\nstruct Setting;"), child]).is_empty());
        let root = ("lib.rs", "mod one;\npub use one::One;");
        let found = circles_of(&[
            root,
            ("one.rs", "pub(in crate::one) struct One(crate::Two);"),
        ]);
        assert_eq!(found, BTreeSet::from(["the crate's root, one".to_owned()]));
    }

    #[test]
    fn a_re_export_leads_to_what_it_exports() {
        let parent = (
            "a/mod.rs",
            "mod one;\nmod two;\npub use one::{One as First, Other};",
        );
        let two = ("a/two.rs", "use super::First;\nuse super::Other;");
        assert!(circles_of(&[parent, ("a/one.rs", ""), two]).is_empty());
        let found = circles_of(&[parent, ("a/one.rs", "use super::two::Two;"), two]);
        assert_eq!(found, BTreeSet::from(["a::one, a::two".to_owned()]));
    }

    #[test]
    fn folders_in_a_circle_are_found_where_no_file_is() {
        let files = crate_of(&[
            ("a/mod.rs", "mod one;\nmod two;"),
            ("a/one.rs", "use crate::b::three::Three;"),
            ("a/two.rs", ""),
            ("b/mod.rs", "mod three;\nmod four;"),
            ("b/three.rs", ""),
            ("b/four.rs", "use crate::a::two;"),
        ]);
        let imports = imports(&files);
        assert!(circles(&imports).is_empty());
        assert_eq!(folders(&imports), BTreeSet::from(["a, b".to_owned()]));
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
