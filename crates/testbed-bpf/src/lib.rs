//! BPF programs that sockstamp is compared with, in benchmarks and tests. Nothing of it is in the
//! product.

#![deny(unsafe_code)]

mod attach;
pub mod floor;
pub mod naive;
pub mod points;
pub mod redirect;
pub mod sink;
#[allow(unsafe_code, reason = "generated")]
mod skeleton;
pub mod stranger;
