//! Descriptors that others decide about, closed where they cannot hold up the service.
//!
//! close(2) of a file in FUSE waits for its file system, and that of the last descriptor of a TCP socket waits
//! as long as SO_LINGER says (`inet_release()`, net/ipv4/af_inet.c, v6.18): whoever passes one decides how long. A
//! connection may hold passed ones that nobody has received.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Descriptors of one user that are being closed at once; nobody who means well has one for long.
const MOST: u32 = 16;

/// How many are being closed, by user.
#[derive(Debug, Default)]
pub(super) struct Closing {
    users: HashMap<u32, Arc<AtomicU32>>,
}

impl Closing {
    /// Whether this user may pass more.
    pub(super) fn has_room(&self, user: u32) -> bool {
        self.users
            .get(&user)
            .is_none_or(|closing| closing.load(Ordering::Relaxed) < MOST)
    }

    /// Closes it in a thread of its own; here, if none can be made.
    pub(super) fn close(&mut self, user: u32, descriptor: OwnedFd) {
        let count = Arc::clone(self.users.entry(user).or_default());
        count.fetch_add(1, Ordering::Relaxed);
        let last = Last {
            descriptor: Some(descriptor),
            count,
        };
        let _ = thread::Builder::new().spawn(move || drop(last));
    }
}

struct Last {
    descriptor: Option<OwnedFd>,
    count: Arc<AtomicU32>,
}

impl Drop for Last {
    fn drop(&mut self) {
        drop(self.descriptor.take());
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
