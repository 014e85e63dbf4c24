//! Turn panics of the decoder into errors.
//!
//! Decoders of Parquet assert what a file should be, and files may be anything.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Call `decode`; return `None` if it panics. Nothing is printed then.
pub(crate) fn attempt<T>(decode: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if !DECODING.get() {
                others(panicked);
            }
        }));
    });
    let before = DECODING.replace(true);
    // All that `decode` leaves half done is dropped with its error.
    let result = panic::catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(before);
    result.ok()
}
