//! BPF programs of benchmarks and tests: some that sockstamp is compared with, and parts of its own
//! to run alone. Nothing of it is in the product.

#![deny(unsafe_code)]

mod attach;
pub mod filter;
pub mod floor;
pub mod naive;
pub mod points;
pub mod redirect;
pub mod sample;
pub mod sink;
#[allow(unsafe_code, reason = "generated")]
mod skeleton;
pub mod stranger;
