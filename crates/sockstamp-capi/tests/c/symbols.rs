//! What the shared library shows to the linker.

use std::process::Command;

use crate::installed::{declared, installed, run};

#[test]
fn the_functions_of_the_header_are_exported_and_nothing_else() {
    let symbols = run(Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=just-symbols"])
        .arg(installed().path("lib/libsockstamp.so")));
    let mut exported: Vec<_> = symbols.lines().collect();
    exported.sort_unstable();
    assert_eq!(exported, declared());
    assert!(exported.contains(&"sockstamp_queue_drain"), "{exported:?}");
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
