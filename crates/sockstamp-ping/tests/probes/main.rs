//! Probes of each kind over real links.

mod answers;
mod common;
mod links;
mod many;
mod weather;
