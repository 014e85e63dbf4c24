//! Test what holds on every kernel with any hooks: counts, times that the kernel's own packet
//! schedulers determine, and the agreement of different hooks.

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
