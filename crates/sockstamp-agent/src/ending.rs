//! Threads that finish their work while others have taken their place.

use std::thread::JoinHandle;

/// Threads are waited for at the end of the agent, never by the thread that measures: one may wait
/// seconds for a receiver, or for a disk.
#[derive(Debug, Default)]
pub(crate) struct Ending(Vec<JoinHandle<()>>);

impl Ending {
    /// Add a thread; forget those that have ended.
    pub(crate) fn add(&mut self, thread: Option<JoinHandle<()>>) {
        self.0.retain(|thread| !thread.is_finished());
        self.0.extend(thread);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
