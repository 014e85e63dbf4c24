//! Wait for a state.

use std::thread;
use std::time::{Duration, Instant};

use testbed::PATIENCE;

/// Pauses between two looks, which may run a program each.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(20);

/// Look again and again until it is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut pause = SHORTEST;
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(pause);
        pause = (2 * pause).min(LONGEST);
    }
}
