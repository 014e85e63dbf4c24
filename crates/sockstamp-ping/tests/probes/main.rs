//! Probes of each kind over real links.

mod answers;
mod clock_step;
mod common;
mod links;
mod many;
mod network_faults;
