//! Test `sockstamp ping` on networks whose behaviour is known, and its errors.

mod known_answers;
mod namespaces;
mod network_faults;
mod output;
mod pacing;
mod path;
mod refused;
mod run;
mod ways_of_ping;
