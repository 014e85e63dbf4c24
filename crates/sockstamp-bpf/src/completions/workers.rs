//! Run work that others may delay in threads, so that the service's own thread never blocks on
//! them.
//!
//! Receiving a message means receiving its descriptors, and closing those without room. close(2) of
//! a file in FUSE waits for its file system, and that of the last descriptor of a TCP socket as
//! long as SO_LINGER says (`inet_release()`, net/ipv4/af_inet.c, v6.18). getsockopt(2) waits for
//! the socket's lock if a program is attached to it (`__cgroup_bpf_run_filter_getsockopt()`,
//! kernel/bpf/cgroup.c, v6.18).

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Error, Tried};

/// Threads of one user. A job of an application that means well takes microseconds.
const OF_A_USER: usize = 16;
/// Jobs of all users that may wait for a thread. With this many, no connection is accepted.
const WAITING: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// The threads, and the jobs that wait for one, by user.
#[derive(Clone)]
pub(super) struct Workers {
    users: Arc<Mutex<HashMap<u32, User>>>,
    events: Arc<OwnedFd>,
}

#[derive(Default)]
struct User {
    threads: usize,
    waiting: VecDeque<Job>,
}

impl Workers {
    pub(super) fn new() -> Result<Self, Error> {
        let events = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let events = events
            .map_err(std::io::Error::from)
            .tried("make an event")?;
        Ok(Self {
            users: Arc::default(),
            events: Arc::new(events),
        })
    }

    /// Return a descriptor that is readable when jobs have begun or reported since
    /// [`rest`](Self::rest).
    pub(super) fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Reset the notification.
    pub(super) fn rest(&self) {
        let _ = rustix::io::read(&*self.events, &mut [0_u8; 8]);
    }

    /// Notify the service, from a job.
    pub(super) fn tell(&self) {
        let _ = rustix::io::write(&*self.events, &1_u64.to_ne_bytes());
    }

    /// Return true if a job of this user would begin at once.
    pub(super) fn has_room(&self, user: u32) -> bool {
        let users = self.lock();
        users.get(&user).is_none_or(|user| user.threads < OF_A_USER)
    }

    /// Return true if no further job may wait.
    pub(super) fn is_full(&self) -> bool {
        let waiting: usize = self.lock().values().map(|user| user.waiting.len()).sum();
        waiting >= WAITING
    }

    /// Do it in a thread, after those of this user that wait already.
    pub(super) fn run(&self, user: u32, job: impl FnOnce() + Send + 'static) {
        let mut users = self.lock();
        let of_user = users.entry(user).or_default();
        of_user.waiting.push_back(Box::new(job));
        if of_user.threads == OF_A_USER {
            return;
        }
        let workers = self.clone();
        // Without a new thread the job waits for one of those that there are, or for the user's
        // next job.
        if thread::Builder::new()
            .spawn(move || workers.work(user))
            .is_ok()
        {
            of_user.threads += 1;
        }
    }

    fn work(&self, user: u32) {
        loop {
            let job = self.next(user);
            // There is room again, for a job or for the user's next one.
            self.tell();
            match job {
                Some(job) => job(),
                None => return,
            }
        }
    }

    /// Take the next job of a user. Without one its thread is about to end.
    fn next(&self, user: u32) -> Option<Job> {
        let mut users = self.lock();
        let of_user = users.get_mut(&user)?;
        if let Some(job) = of_user.waiting.pop_front() {
            return Some(job);
        }
        of_user.threads -= 1;
        if of_user.threads == 0 {
            users.remove(&user);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use super::*;

    /// Jobs that wait until this is dropped.
    fn stuck(workers: &Workers, user: u32, jobs: usize) -> Sender<()> {
        let (release, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        for _ in 0..jobs {
            let wait = Arc::clone(&wait);
            workers.run(user, move || {
                let _ = wait.lock().unwrap().recv();
            });
        }
        release
    }

    fn runs(workers: &Workers, user: u32) -> bool {
        let (done, ran) = channel();
        workers.run(user, move || {
            let _ = done.send(());
        });
        ran.recv_timeout(Duration::from_millis(500)).is_ok()
    }

    #[test]
    fn a_user_whose_jobs_are_stuck_holds_up_no_other() {
        let workers = Workers::new().unwrap();
        let release = stuck(&workers, 1, OF_A_USER + WAITING);
        assert!(!workers.has_room(1) && workers.has_room(2));
        assert_eq!(workers.lock()[&1].threads, OF_A_USER);
        assert!(workers.is_full());
        assert!(!runs(&workers, 1));
        assert!(runs(&workers, 2));
        drop(release);
        assert!(runs(&workers, 1));
    }

    #[test]
    fn nothing_is_kept_of_a_user_without_jobs() {
        let workers = Workers::new().unwrap();
        assert!(runs(&workers, 1));
        while !workers.lock().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
