//! Test `sockstamp ping` on networks whose behaviour is known, and its errors.

#[path = "../common/mod.rs"]
mod common;

mod known_answers;
mod namespaces;
mod network_faults;
mod output;
mod pacing;
mod refused;
mod run;
