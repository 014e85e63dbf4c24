//! Count how often compilers leave a load through a constant in an object (`src/miscompiled.rs`):
//!
//! ```sh
//! cargo build --package sockstamp-bpf
//! cd crates/sockstamp-bpf
//! cargo run --package bpf-build --example miscompilations -- \
//!     20 src/bpf/sockstamp.bpf.c src,GENERATED clang-16 clang-19 clang-22
//! ```
//!
//! GENERATED is the folder of `histogram_bounds.h` in `target`. Compilations of one source by one
//! compiler differ, because heaps do: a count of 0 proves nothing, one above 0 does.

use std::env;
use std::path::Path;

use anyhow::{Context, Result, bail};
use bpf_build::Clang;

fn main() -> Result<()> {
    let words: Vec<_> = env::args().skip(1).collect();
    let [times, source, headers, compilers @ ..] = &words[..] else {
        bail!("usage: miscompilations TIMES SOURCE HEADERS,... CLANG...");
    };
    let times: usize = times.parse().context("TIMES is a number")?;
    let headers: Vec<_> = headers.split(',').map(Path::new).collect();
    for compiler in compilers {
        let clang = Clang::named(compiler);
        let mut wrong = 0;
        for _ in 0..times {
            wrong += usize::from(clang.miscompiles(source, &env::temp_dir(), &headers)?);
        }
        println!("clang {}: {wrong} of {times} objects", clang.version()?);
    }
    Ok(())
}
