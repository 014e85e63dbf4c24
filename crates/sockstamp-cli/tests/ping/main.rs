//! Test `sockstamp ping` on networks whose behaviour is known, and its errors.

mod known_answers;
mod namespaces;
mod network_faults;
mod output;
mod pacing;
mod refused;
mod run;
