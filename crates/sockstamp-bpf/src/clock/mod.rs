//! Read clocks, in nanoseconds.

use std::fs;
use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};
use sockstamp::clock::RealtimeOffset;
use sockstamp_model::clock::{ClockOffset, Delta};

/// The lead of our CLOCK_MONOTONIC over the kernel's, in ns.
static AHEAD: OnceLock<i64> = OnceLock::new();

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

/// In a time namespace CLOCK_MONOTONIC has an offset, which programs in the kernel do not see:
/// time_namespaces(7).
fn ahead() -> i64 {
    *AHEAD.get_or_init(|| {
        let offsets = fs::read_to_string("/proc/self/timens_offsets");
        offsets.ok().as_deref().and_then(monotonic).unwrap_or(0)
    })
}

/// Find the offset of CLOCK_MONOTONIC, in seconds and nanoseconds.
fn monotonic(offsets: &str) -> Option<i64> {
    let line = offsets
        .lines()
        .find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, rest) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(rest)
}

/// Return the CPU time of this process.
pub(crate) fn process_now() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let text = "monotonic       -86400   5\nboottime         7         0\n";
        assert_eq!(monotonic(text), Some(-86_399_999_999_995));
        assert_eq!(monotonic("boottime 7 0\n"), None);
        assert_eq!(monotonic("monotonic 1\n"), None);
    }
}
