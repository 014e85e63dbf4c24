//! Error queues of sockets, which Linux has.

#[path = "../error_queue/counters.rs"]
mod counters;

pub use counters::Counters;
pub use sockstamp_clock::{
    DepartureError, DepartureReason, NetworkError, Report, Unreported, ZeroCopyRange,
};
