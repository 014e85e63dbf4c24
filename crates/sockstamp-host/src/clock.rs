//! The clock of waits.

use std::io;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

/// Return the moment by CLOCK_MONOTONIC.
///
/// # Errors
///
/// Fails as clock_gettime(2) does, as by a seccomp filter.
pub fn now() -> io::Result<Timestamp<Monotonic>> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    Ok(Timestamp::from_nanos(Nanos::from(now).0))
}
