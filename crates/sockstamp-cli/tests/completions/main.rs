//! `sockstamp completions` and the library's side of it: what is in memory is what the error queue has, nobody sees
//! another's, and nothing is lost when one of them ends.

#[path = "../common/mod.rs"]
mod common;

mod example;
mod faults;
mod fixture;
mod interference;
mod ranges;
mod sender;
mod service;
mod stamps;
