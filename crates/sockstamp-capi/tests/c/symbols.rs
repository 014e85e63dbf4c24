//! Check the symbols that the libraries export.

use std::process::Command;

use crate::installed::{declared, installed, run};

/// `nm` of an installed library: names alone, sorted.
fn symbols(library: &str, options: &[&str]) -> Vec<String> {
    let listed = run(Command::new("nm")
        .args(["--defined-only", "--extern-only", "--format=just-symbols"])
        .args(options)
        .arg(installed().path(library)));
    let mut names: Vec<_> = listed
        .lines()
        .filter(|line| !line.is_empty() && !line.ends_with(".o:"))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn the_functions_of_the_header_are_exported_and_nothing_else() {
    let exported = symbols(
        "lib/libsockstamp.so",
        &["--dynamic", "--without-symbol-versions"],
    );
    let expected = [vec!["SOCKSTAMP_0".to_owned()], declared()].concat();
    assert_eq!(exported, expected);
    assert!(
        expected.iter().any(|name| name == "sockstamp_queue_drain"),
        "{expected:?}"
    );
}

#[test]
fn the_static_library_shows_the_functions_of_the_header_and_nothing_else() {
    assert_eq!(symbols("lib/libsockstamp.a", &[]), declared());
}

#[test]
fn each_function_has_the_version_of_the_interface() {
    let exported = symbols("lib/libsockstamp.so", &["--dynamic"]);
    let versioned: Vec<_> = declared()
        .iter()
        .map(|name| format!("{name}@@SOCKSTAMP_0"))
        .collect();
    assert_eq!(exported[1..], versioned);
}

#[test]
fn the_soname_has_the_number_of_the_interface() {
    let dynamic = run(Command::new("readelf")
        .arg("--dynamic")
        .arg(installed().path("lib/libsockstamp.so")));
    assert!(
        dynamic.contains("Library soname: [libsockstamp.so.0]"),
        "{dynamic}"
    );
}
