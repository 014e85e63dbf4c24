//! Find where time is lost, and say it. Pure: waits and figures in, findings out.
//!
//! Time is divided, never guessed at. A wait is cut into parts that add up, by the evidence of
//! that wait alone ([`tree`]); the answer is the deepest part that was seen, for the smallest group
//! that carries it. docs/diagnosis.md, which is made from the tree, tells how.

mod case;
mod connection;
mod contrast;
mod descent;
mod evidence;
mod finding;
#[cfg(test)]
mod generated;
mod host;
mod request;
mod scope;
mod service_time;
mod slow;
mod source;
mod tally;
mod telling;
#[cfg(test)]
mod tests;
pub mod tree;
mod words;
mod worth;

pub use case::{Case, Unseen};
pub use contrast::Unlike;
pub use evidence::backlog::Backlog;
pub use evidence::full_queue::FullQueue;
pub use evidence::link::Link;
pub use evidence::neighbour::{Flips, Neighbour, NextHop};
pub use evidence::sleep::{Sleep, SleepLook};
pub use evidence::there::There;
pub use finding::{Diagnosis, Finding, Grade, JSON_VERSION, Why};
pub use host::cpu::Cpu;
pub use scope::Scope;
pub use service_time::{Asked, Peer, ServiceTime};
pub use slow::Role;
pub use telling::alone::of_one;
pub use telling::sums::{full_queue, of_group};
pub use telling::why;
