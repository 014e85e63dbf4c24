//! `sockstamp ping`: what it says of networks whose behaviour is known, and what it refuses.

#[path = "../common/mod.rs"]
mod common;

mod known_answers;
mod namespaces;
mod network_faults;
mod output;
mod pacing;
mod refused;
mod run;
