//! The man pages, which are generated from the header.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::installed::{declared, installed};

fn pages() -> Vec<PathBuf> {
    let folder = fs::read_dir(installed().path("share/man/man3")).unwrap();
    folder.map(|page| page.unwrap().path()).collect()
}

#[test]
fn each_function_is_named_by_one_page_and_no_other_is() {
    let mut named = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let names = text
            .split(".SH NAME\n")
            .nth(1)
            .unwrap()
            .split("\\-")
            .next()
            .unwrap();
        // The first one is the page's own.
        let names = names
            .split([',', '\n', ' '])
            .filter(|name| !name.is_empty());
        named.extend(names.skip(1).map(str::to_owned));
    }
    named.sort();
    assert_eq!(named, declared());
}

#[test]
fn pages_have_no_faults() {
    let output = Command::new("mandoc")
        .args(["-T", "lint", "-W", "warning"])
        .args(pages())
        .output()
        .unwrap();
    let faults = String::from_utf8(output.stdout).unwrap();
    assert_eq!(faults, "");
}
