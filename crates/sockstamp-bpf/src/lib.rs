//! The eBPF programs of sockstamp and their loader. Nobody else knows libbpf.
//!
//! Facts first ([`support`]), then rules ([`plan`]), then action ([`Session`]). A feature is a
//! folder that holds its C and its Rust; `bpf/sockstamp.bpf.c` has the programs, each a thin wrapper.

#![deny(unsafe_code)]

pub mod completions;
mod error;
mod filter;
pub mod floor;
mod flow;
pub mod group;
mod histogram;
pub mod hooks;
#[expect(
    unsafe_code,
    reason = "the one place where bytes that the kernel wrote become values"
)]
mod map_view;
mod object;
mod options;
mod path;
pub mod plan;
pub mod points;
mod privilege;
mod programs;
mod record;
mod sample;
mod sched;
mod session;
mod settings;
pub mod sink;
#[allow(unsafe_code, reason = "generated")]
mod skeleton;
pub mod stranger;
pub mod support;
mod udp;
mod verified;

pub use error::Error;
pub use group::Grouped;
pub use options::{EntryHook, HolView, Hooks, Options, Sampling, Target};
pub use privilege::Lowered;
pub use record::Record;
pub use session::{Adopted, Decoder, Session};
