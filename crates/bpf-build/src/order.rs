//! Look at what clang makes of the barriers of `kernel/order.bpf.h`: operations without a value
//! order nothing on arm64, and clang chooses those where nobody uses the value.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Clang, write_libbpf_headers};

const PROGRAM: &str = r#"
#include "kernel/order.bpf.h"

void stores(__u64 *a) { a[0] = 1; order_stores(); a[1] = 2; }
void loads(__u64 *a) { a[2] = a[0]; order_loads(); a[3] = a[1]; }
void loads_and_stores(__u64 *a) { a[2] = a[0]; order_loads_and_stores(); a[3] = 2; }
void add(__u64 *a) { fully_ordered(__sync_fetch_and_add(a, 1)); }
void set(__u64 *a) { fully_ordered(__sync_fetch_and_or(a, 1)); }
void clear(__u64 *a) { fully_ordered(__sync_fetch_and_and(a, ~1ULL)); }
__u64 load(__u64 *a) { return load_in_order(a); }
void store(__u64 *a) { store_in_order(a, 1); }
"#;

/// Compile for kernels of a processor, by its name in `__TARGET_ARCH_`.
fn assembly(source: &Path, folders: &[&Path], processor: &str) -> String {
    let mut command = Command::new(&Clang::find().unwrap().path);
    command.args(["-target", "bpf", "-O2", "-S", "-o", "-", "-x", "c"]);
    command.arg(format!("-D__TARGET_ARCH_{processor}"));
    for folder in folders {
        command.arg("-I").arg(folder);
    }
    let output = command.arg(source).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Return the atomic operations of each function, in their order.
fn operations(processor: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    write_libbpf_headers(folder.path()).unwrap();
    let source = folder.path().join("program.c");
    fs::write(&source, PROGRAM).unwrap();
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../sockstamp-bpf/src"));
    let folders = [sources, folder.path()];
    let assembly = assembly(&source, &folders, processor);
    let words = assembly.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let atomic = |word: &&str| *word == "lock" || word.starts_with("atomic_") || *word == "xchg_64";
    words.filter(atomic).map(str::to_owned).collect()
}

#[test]
fn each_barrier_of_arm64_is_an_operation_that_returns_a_value() {
    let barriers = [
        "xchg_64",
        "xchg_64",
        "xchg_64",
        "atomic_fetch_add",
        "atomic_fetch_or",
        "atomic_fetch_and",
        "atomic_fetch_or",
        "xchg_64",
    ];
    assert_eq!(operations("arm64"), barriers);
}

#[test]
fn the_order_costs_x86_nothing() {
    assert_eq!(operations("x86"), ["lock"; 3]);
}
