//! The eBPF programs of sockstamp and their loader. Nobody else knows libbpf.
//!
//! Facts first ([`support`]), then rules ([`plan`]), then action ([`Session`]). A feature is a
//! folder that holds its C and its Rust; `bpf/sockstamp.bpf.c` has the programs, each a thin wrapper.

mod error;
pub mod floor;
mod flow;
mod histogram;
pub mod hooks;
mod map_view;
pub mod plan;
mod privilege;
mod record;
mod session;
mod skeleton;
pub mod support;

pub use error::Error;
pub use privilege::Lowered;
pub use record::Record;
pub use session::{Decoder, Options, Session, Target};
