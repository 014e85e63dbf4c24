//! Find where time is lost, and say it. Pure: waits and figures in, findings out.
//!
//! Time is divided, never guessed at. A wait is cut into parts that add up, by the evidence of
//! that wait alone ([`tree`]); the answer is the deepest part that was seen, for the smallest group
//! that carries it. docs/diagnosis.md, which is made from the tree, tells how.

mod alone;
mod asking;
mod asleep;
mod away;
mod backlog;
mod case;
mod contrast;
mod cpu;
mod descent;
mod finding;
mod firewall;
mod flows;
#[cfg(test)]
mod generated;
mod held;
mod large;
mod link;
mod looks;
mod lookups;
mod loss;
mod lossy;
mod neighbour;
mod openings;
mod pace;
mod readers;
mod scope;
mod sentence;
mod services;
mod sleep;
mod slow;
mod source;
mod sums;
mod tally;
mod telling;
#[cfg(test)]
mod tests;
mod theirs;
mod there;
pub mod tree;
mod turn;
mod unheard;
mod workers;
mod worth;
mod yielding;

pub use alone::of_one;
pub use backlog::Backlog;
pub use case::Case;
pub use contrast::Unlike;
pub use cpu::Cpu;
pub use finding::{Diagnosis, Finding, Grade, JSON_VERSION, Why};
pub use link::Link;
pub use neighbour::Neighbour;
pub use scope::Scope;
pub use services::{Asked, ServiceTime};
pub use sleep::{Sleep, SleepLook};
pub use slow::Role;
pub use sums::{full_queue, of_group};
pub use telling::why;
pub use there::There;
