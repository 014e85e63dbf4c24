//! Clocks as types.

pub use sockstamp_clock::{
    Clock, ClockOffset, Delta, Monotonic, Nanos, Phc, Realtime, Tai, Timestamp,
};
