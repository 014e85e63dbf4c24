//! Stamps of sent messages by io_uring.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem;
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
    fillers: Fillers,
    _of_one_thread: PhantomData<*const ()>,
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

/// Completions of no request, which Linux 6.18 adds where the last place of the ring comes first of
/// those that are not read: it counts that place, and writes a completion of half the size at half
/// its distance, as if the ring had small ones (`io_cqe_cache_refill()` and `io_fill_nop_cqe()` in
/// io_uring/io_uring.c). So the last place has what it had a lap ago, and the time in the middle of
/// the ring is gone if nobody has read it yet.
#[derive(Debug)]
struct Fillers {
    places: u32,
    /// The next to be read.
    place: u32,
    /// The completion that the last place had.
    last: Completion,
    damaged: u64,
}

impl Fillers {
    /// A filler in the place of a time: no name, no result, and IORING_CQE_F_SKIP.
    const TIME: [u64; 2] = [0, 1 << (32 + 5)];

    fn of(places: u32) -> Self {
        Self {
            places,
            place: 0,
            last: Completion::default(),
            damaged: 0,
        }
    }

    /// Go on by one place, and return true if it has a completion, and a whole one.
    fn has_written(&mut self, completion: &Completion) -> bool {
        let read = self.place + 1;
        self.place = read % self.places;
        if read == self.places {
            let before = mem::replace(&mut self.last, *completion);
            // No two stamps are the same.
            let may_repeat = !completion.more() && *completion != Completion::default();
            return may_repeat || before != *completion;
        }
        let damaged = read == self.places / 2 && completion.time == Self::TIME;
        self.damaged += u64::from(damaged);
        !damaged
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
        let fillers = Fillers::of(ring.params().cq_entries());
        Ok(Self {
            ring,
            fillers,
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
        for entry in self.ring.completion() {
            let completion = Completion {
                name: entry.user_data(),
                result: entry.result(),
                flags: entry.flags(),
                time: *entry.big_cqe(),
            };
            if self.fillers.has_written(&completion) && completion.name != UNNAMED {
                count += 1;
                each(completion);
            }
        }
        Ok(count)
    }

    /// Return how many completions a filler of the kernel has damaged.
    pub(crate) fn damaged(&self) -> u64 {
        self.fillers.damaged
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

#[cfg(test)]
mod tests {
    use super::*;

    /// IORING_CQE_F_MORE
    const MORE: u32 = 1 << 1;

    fn stamp(result: i32) -> Completion {
        Completion {
            result,
            flags: MORE,
            time: [1, 5],
            ..Completion::default()
        }
    }

    #[test]
    fn a_place_that_has_what_it_had_was_not_written() {
        let mut fillers = Fillers::of(2);
        let lap = |fillers: &mut Fillers, last| {
            [stamp(7), last].map(|completion| fillers.has_written(&completion))
        };
        assert_eq!(lap(&mut fillers, Completion::default()), [true, false]);
        assert_eq!(lap(&mut fillers, stamp(1)), [true, true]);
        assert_eq!(lap(&mut fillers, stamp(1)), [true, false]);
        assert_eq!(lap(&mut fillers, stamp(2)), [true, true]);
        assert_eq!(fillers.damaged, 0);
    }

    #[test]
    fn a_time_that_a_filler_overwrote_is_counted() {
        let mut fillers = Fillers::of(4);
        let damaged = Completion {
            time: Fillers::TIME,
            ..stamp(2)
        };
        let seen = [stamp(1), damaged, damaged].map(|read| fillers.has_written(&read));
        assert_eq!((seen, fillers.damaged), ([true, false, true], 1));
    }
}
