//! What holds on every kernel, whatever hooks it has: counts, and times that are known beforehand by the kernel's own
//! packet schedulers.

#[path = "../common/mod.rs"]
mod common;
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "these tests use a part of what known answers need"
)]
#[path = "../known_answers/support.rs"]
mod support;

mod counts;
mod fq;
mod netem;
mod scene;
