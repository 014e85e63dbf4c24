//! Times that are never in step.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Return a random part of a time, at least half of it.
pub(crate) fn jittered(time: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    time.mul_f64(0.5 + random as f64 / u64::MAX as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_never_in_step_and_never_short() {
        let whole = Duration::from_secs(1);
        let times: Vec<_> = (0..100).map(|_| jittered(whole)).collect();
        assert!(times.iter().all(|time| (whole / 2..=whole).contains(time)));
        assert!(times.iter().any(|time| *time != times[0]));
    }
}
