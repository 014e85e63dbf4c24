//! The clock of waits.

use std::fs;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

/// The lead of our CLOCK_MONOTONIC over the kernel's, in ns.
static AHEAD: OnceLock<i64> = OnceLock::new();

/// Return the moment by the kernel's CLOCK_MONOTONIC, that of `bpf_ktime_get_ns()`, in which the
/// programs tell when a wait began.
///
/// # Errors
///
/// Fails as clock_gettime(2) does, as by a seccomp filter.
pub fn now() -> io::Result<Timestamp<Monotonic>> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    let ours = Nanos::from(now).0;
    Ok(Timestamp::from_nanos(ours.saturating_add_signed(-ahead())))
}

/// Return the lead of our CLOCK_MONOTONIC over the kernel's, in nanoseconds. In a time namespace it
/// has an offset, which programs in the kernel do not see: time_namespaces(7).
pub fn ahead() -> i64 {
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
