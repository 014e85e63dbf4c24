//! The `sockstamp` under test: the one of this build, beside the test programs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;
use std::{env, fs, io};

/// Return the path of the program under test.
///
/// Cargo builds a program for the tests of its own package alone, so that another package's may
/// find one of yesterday.
///
/// # Panics
///
/// Fails if there is none, or if it is older than its source.
pub fn sockstamp() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let program = beside(&env::current_exe().unwrap());
        if let Err(reason) = check(&program) {
            panic!("{reason}: run `cargo build --package sockstamp-cli`, with the tests' profile");
        }
        program.into_os_string().into_string().unwrap()
    })
}

/// `target/debug/sockstamp` for `target/debug/deps/test-0123`.
fn beside(test: &Path) -> PathBuf {
    test.parent().unwrap().with_file_name("sockstamp")
}

/// Compare a program with what it was made of, as cargo does, by cargo's own list.
fn check(program: &Path) -> Result<(), String> {
    let Ok(built) = newest(program) else {
        return Err(format!("{} is not built", program.display()));
    };
    // A guest of kernel/lab has the program alone, and no source.
    let list = fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let is_in_it = |source: &PathBuf| newest(source).is_ok_and(|changed| changed <= built);
    match sources(&list).into_iter().find(|source| !is_in_it(source)) {
        None => Ok(()),
        Some(source) => Err(format!(
            "{} is older than {}",
            program.display(),
            source.display()
        )),
    }
}

/// Return when a file was changed, or anything in a folder.
fn newest(path: &Path) -> io::Result<SystemTime> {
    let file = fs::metadata(path)?;
    let mut newest = file.modified()?;
    if file.is_dir() {
        for entry in fs::read_dir(path)? {
            newest = newest.max(self::newest(&entry?.path())?);
        }
    }
    Ok(newest)
}

/// Return the paths of a rule of make, as cargo writes it: `TARGET: PATH PATH…`, where a blank of a
/// path follows a backslash.
fn sources(rule: &str) -> Vec<PathBuf> {
    let paths = rule.split_once(": ").map_or("", |(_, paths)| paths);
    let words = paths.trim_end().replace("\\ ", "\0");
    let words = words.split(' ').filter(|word| !word.is_empty());
    words.map(|word| word.replace('\0', " ").into()).collect()
}
