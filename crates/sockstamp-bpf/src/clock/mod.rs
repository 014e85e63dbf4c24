//! Read clocks, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};
use sockstamp::clock::RealtimeOffset;
use sockstamp_host::clock::ahead;
use sockstamp_model::clock::{ClockOffset, Delta};

/// Return the same clock as `bpf_ktime_get_ns()`.
pub(crate) fn monotonic_now() -> u64 {
    nanoseconds(ClockId::Monotonic).saturating_add_signed(-ahead())
}

/// Do the same as [`sockstamp::clock::measure`] for the clock of [`monotonic_now`].
pub(crate) fn measure() -> sockstamp::Result<RealtimeOffset> {
    let mut measured = sockstamp::clock::measure()?;
    measured.offset = ClockOffset::new(Delta(measured.offset.delta().0 + ahead()));
    Ok(measured)
}

/// Return the CPU time of this process.
pub(crate) fn process_now() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
