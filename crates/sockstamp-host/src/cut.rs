//! Lists of the kernel that are too long: users can make most of them any length.

use std::sync::atomic::{AtomicU64, Ordering};

static LISTS: AtomicU64 = AtomicU64::new(0);

/// Count a list of which a part, or all, is left out.
pub(crate) fn count() {
    LISTS.fetch_add(1, Ordering::Relaxed);
}

/// Return how many times a list was too long, since this process began.
pub fn lists() -> u64 {
    LISTS.load(Ordering::Relaxed)
}
