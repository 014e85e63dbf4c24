//! The cost of looks.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sockstamp_host::memory;

/// Return the CPU time of this thread, and of what reads memory for it: a busy host makes looks
/// last longer, not dearer.
pub(super) fn spent() -> Duration {
    let own = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    own.map_or(Duration::ZERO, Duration::from) + memory::spent()
}
