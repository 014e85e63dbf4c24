//! Helpers of the tests: run the program, in the background or to its end, and check what it says.

#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::new_without_default,
    reason = "for tests alone: names say it, nobody prints a host, and none is a default"
)]

mod background;
mod binary;
mod command;
mod families;
mod hooks;
mod live;
mod messages;
mod report;
mod skip;
mod tools;
mod wait;

pub mod agent;
pub mod answerer;
pub mod authority;
pub mod bits;
pub mod blocked;
pub mod bpf_objects;
pub mod browser;
pub mod capture;
pub mod clock;
pub mod completions;
pub mod datagrams;
pub mod expected;
pub mod explained;
pub mod full_queue;
pub mod guarded;
pub mod kernel_counts;
pub mod last_line;
pub mod leftovers;
pub mod netfilter;
pub mod otlp;
pub mod pair;
pub mod pcap;
pub mod programs;
pub mod prometheus;
pub mod qdisc;
pub mod recording;
pub mod schema;
pub mod sending;
pub mod streams;
pub mod tagged;
pub mod traced_hosts;
pub mod two_recordings;
pub mod unix;
pub mod unprivileged;

pub use background::{end, is_lowered, start, wait_attached};
pub use binary::sockstamp;
pub use command::{Measured, stat_command};
pub use families::FAMILIES;
pub use hooks::{hooks, plan};
pub use live::{Live, Output, Stat, Trace};
pub use messages::{assert_adds_up, median, messages, of_direction};
pub use report::{direction_of, in_short, number, report, stage};
pub use skip::skip;
pub use tools::{objects, packaging, peer, python, python_with, run};
pub use wait::wait_until;
