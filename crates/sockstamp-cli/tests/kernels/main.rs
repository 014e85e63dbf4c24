//! What holds on every kernel, whatever hooks it has: counts, times that are known beforehand by the kernel's own
//! packet schedulers, and that different hooks measure the same.

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
mod netstacklat;
mod qdisc;
mod twins;
