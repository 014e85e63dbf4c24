//! A C program with another static library that is written in Rust.

use std::fs;
use std::process::Command;

use crate::installed::{Linkage, installed, run};

/// It has Rust's standard library in one object, whose symbols without a hash are in every Rust
/// library.
const SECOND: &str = r#"
#[unsafe(no_mangle)]
pub extern "C" fn second_caught() -> i32 {
    let caught = std::panic::catch_unwind(|| std::hint::black_box(None::<i32>).unwrap());
    i32::from(caught.is_err())
}
"#;

const PROGRAM: &str = r#"
#include <sockstamp.h>
#include <stdio.h>

int second_caught(void);

int main(void)
{
	struct sockstamp_queue *queue;

	if (sockstamp_queue_create(&queue) || !second_caught())
		return 1;
	sockstamp_queue_free(queue);
	puts(sockstamp_version());
	return 0;
}
"#;

#[test]
fn two_static_libraries_in_rust_are_linked_into_one_program() {
    let [source, library, program] =
        ["second.rs", "libsecond.a", "two.c"].map(|name| installed().path(name));
    fs::write(&source, SECOND).unwrap();
    fs::write(&program, PROGRAM).unwrap();
    run(Command::new("rustc")
        .args([
            "--edition=2024",
            "--crate-type=staticlib",
            "-Clto=fat",
            "-o",
        ])
        .args([&library, &source]));
    let second = [
        "-Wl,--whole-archive",
        library.to_str().unwrap(),
        "-Wl,--no-whole-archive",
    ];
    let built = installed().path("two");
    installed().compile(&program, Linkage::Static, &second, &built);
    let printed = run(&mut Command::new(&built));
    assert_eq!(printed.trim(), env!("CARGO_PKG_VERSION"));
}
