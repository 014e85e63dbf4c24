//! Corner cases: what becomes of a message that is not sent or read in the ordinary way, and what
//! must not be disturbed.

#[path = "../common/mod.rs"]
mod common;

mod rx;
mod scene;
mod tx;
