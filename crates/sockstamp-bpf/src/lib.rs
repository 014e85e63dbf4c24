//! The eBPF programs of sockstamp and their loader. No other crate of the product knows libbpf.
//!
//! Facts first ([`facts`], gathered by [`probe`]), then rules ([`plan`]), then action
//! ([`Session`]). A feature is a folder that holds its C and its Rust; the headers of `bpf/` have
//! the programs, each a thin wrapper.

#![deny(unsafe_code)]

// Programs on several CPUs, and user space, share memory without locks. Where one reads what
// another writes, barriers keep the order: `kernel/order.bpf.h` in C, fences here. Other processors
// than these were neither built for nor booted.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("sockstamp's BPF programs are for x86-64 and arm64 alone: others were not tried");

mod abi;
mod clock;
#[expect(unsafe_code, reason = "memory that the kernel maps again")]
mod code_pages;
pub mod completions;
mod cost;
mod demand;
mod drops;
mod error;
pub mod facts;
mod flow;
pub mod group;
mod histogram;
mod host_path;
mod kernel;
mod limits;
#[expect(
    unsafe_code,
    reason = "the one place where bytes that the kernel wrote become values"
)]
mod map_view;
pub mod nic;
pub mod object;
pub mod opening;
mod options;
pub mod packets;
pub mod plan;
mod privilege;
pub mod probe;
pub mod programs;
mod random;
mod record;
mod ring;
mod sample;
mod sched;
mod select;
#[cfg(feature = "series")]
mod series;
mod session;
mod settings;
#[allow(unsafe_code, reason = "generated")]
mod skeleton;
pub mod stuck;
mod target;
mod tcp;
#[expect(unsafe_code, reason = "the one system call that no crate here wraps")]
mod timer;
mod udp;
pub mod unix;
mod verified;
mod wait;
mod wakeups;
mod window;

pub use cost::ProgramCost;
pub use error::Error;
pub use flow::Place;
pub use group::{GroupCap, Grouped};
pub use options::{Ceiling, HolView, Options, Sampling, Target};
pub use packets::Packets;
pub use plan::{EntryHook, Hooks};
pub use privilege::{DroppedCapabilities, drop_capabilities};
pub use session::{Adopted, Session};
pub use stuck::Stuck;
