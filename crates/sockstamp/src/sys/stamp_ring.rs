//! Stamps of sent messages by io_uring.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use nix::errno::Errno;

/// SOCKET_URING_OP_TX_TIMESTAMP of include/uapi/linux/io_uring.h, since v6.17.
pub(crate) const TX_TIMESTAMP: u32 = 4;

/// The name of completions without a receiver: those of cancelled requests.
const UNNAMED: u64 = u64::MAX;

/// A ring whose completions have room for a time (IORING_SETUP_CQE32).
///
/// The kernel writes completions when this thread asks for them (IORING_SETUP_DEFER_TASKRUN, since
/// v6.1), and not when it likes, by interrupting the thread for each. Only the thread that made the
/// ring may ask (IORING_SETUP_SINGLE_ISSUER).
///
/// Invariant: its submission queue is empty between calls.
pub(crate) struct StampRing {
    ring: IoUring<squeue::Entry, cqueue::Entry32>,
    _of_one_thread: PhantomData<*const ()>,
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The name of the watch.
    pub(crate) name: u64,
    pub(crate) result: i32,
    pub(crate) flags: u32,
    /// `struct io_timespec`: seconds and nanoseconds.
    pub(crate) time: [u64; 2],
}

impl Completion {
    /// Return true if the watch continues.
    pub(crate) fn more(&self) -> bool {
        cqueue::more(self.flags)
    }
}

impl StampRing {
    /// `completions` is how many fit into the ring; further stamps wait in the error queues.
    pub(crate) fn new(completions: u32) -> nix::Result<Self> {
        let ring = IoUring::<squeue::Entry, cqueue::Entry32>::builder()
            .setup_cqsize(completions.max(2))
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(1)
            .map_err(|error| errno(&error))?;
        Ok(Self {
            ring,
            _of_one_thread: PhantomData,
        })
    }

    /// Request the stamps of `socket`. The kernel holds the socket until the watch ends.
    pub(crate) fn watch(&mut self, socket: impl AsFd, name: u64) -> nix::Result<()> {
        let socket = types::Fd(socket.as_fd().as_raw_fd());
        self.submit(
            opcode::UringCmd16::new(socket, TX_TIMESTAMP)
                .build()
                .user_data(name),
        )
    }

    /// End a watch.
    pub(crate) fn cancel(&mut self, name: u64) -> nix::Result<()> {
        self.submit(opcode::AsyncCancel::new(name).build().user_data(UNNAMED))
    }

    /// Submit a request without pointers, as all requests of this file are.
    fn submit(&mut self, entry: squeue::Entry) -> nix::Result<()> {
        // SAFETY: the requests that are made here point to no memory. The descriptor is open while
        // it is submitted, as it is borrowed for the call of `watch`; the kernel takes a reference
        // of its own then.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the submission queue is empty between calls");
        loop {
            match self.ring.submit().map_err(|error| errno(&error)) {
                Ok(_) => return Ok(()),
                // No entry was taken: try again, so the queue is empty afterwards.
                Err(Errno::EINTR | Errno::EBUSY | Errno::EAGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Give each completion to `each`, and return how many there were. Makes a system call if the
    /// kernel has some to write, and never waits.
    pub(crate) fn read(&mut self, mut each: impl FnMut(Completion)) -> nix::Result<usize> {
        let submission = self.ring.submission();
        let has_more = submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if has_more {
            done(self.ring.submit())?;
        }
        let mut count = 0;
        for entry in self
            .ring
            .completion()
            .filter(|entry| entry.user_data() != UNNAMED)
        {
            count += 1;
            each(Completion {
                name: entry.user_data(),
                result: entry.result(),
                flags: entry.flags(),
                time: *entry.big_cqe(),
            });
        }
        Ok(count)
    }

    /// Wait for a completion, at most `longest`.
    pub(crate) fn wait(&mut self, longest: Duration) -> nix::Result<()> {
        if self.ring.completion().is_empty() {
            let longest = types::Timespec::from(longest);
            let arguments = types::SubmitArgs::new().timespec(&longest);
            done(self.ring.submitter().submit_with_args(1, &arguments))?;
        }
        Ok(())
    }
}

/// A call that was interrupted, or that found no completion or no room for it, is repeated by the
/// next.
fn done(entered: io::Result<usize>) -> nix::Result<()> {
    match entered.map_err(|error| errno(&error)) {
        Ok(_) | Err(Errno::EINTR | Errno::ETIME | Errno::EBUSY) => Ok(()),
        Err(errno) => Err(errno),
    }
}

impl fmt::Debug for StampRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StampRing").finish_non_exhaustive()
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}
