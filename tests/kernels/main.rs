//! Test what holds on every kernel with any hooks: counts, times that the kernel's own packet
//! schedulers determine, and the agreement of different hooks.

mod counts;
mod fq;
mod netem;
mod netstacklat;
mod twins;
