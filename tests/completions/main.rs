//! Test `sockstamp notifications` and the library's side of it: memory agrees with the error queue,
//! no application sees another's, and nothing is lost when one of them ends.

mod example;
mod faults;
mod interference;
mod ranges;
mod sender;
mod service;
mod stamps;
