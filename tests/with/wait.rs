//! Wait for a state.

use std::thread;
use std::time::{Duration, Instant};

use testbed::PATIENCE;

/// Look again and again until it is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
