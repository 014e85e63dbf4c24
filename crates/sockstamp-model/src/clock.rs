//! Durations and points in time that cannot be mixed up: those of `sockstamp-clock`.

pub use sockstamp_clock::{
    Clock, ClockOffset, Delta, Monotonic, Nanos, Of, Phc, Realtime, Tai, Timestamp,
};
