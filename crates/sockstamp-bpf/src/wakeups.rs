//! Ends a session's wait: records, a step of the clock, or a descriptor of the caller's. Between
//! these nothing runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use sockstamp::clock::{ClockStepWatch, Watched};

use crate::error::{Error, Tried};
use crate::random::Random;

/// Interval between reads of records while they come.
const WHILE_RECORDS_COME: Duration = Duration::from_millis(50);

/// Longest sleep of a reader that has requested a wake-up. A program may have checked for that
/// request just before it was made; its record then waits in the ring until the next one, or until
/// this has passed.
const WHILE_NONE_COME: Duration = Duration::from_millis(1000);

/// The events that a session waits for.
#[derive(Debug)]
pub(crate) struct Wakeups {
    /// Rings and steps.
    epoll: OwnedFd,
    steps: ClockStepWatch,
    random: Random,
}

impl Wakeups {
    /// `rings` are ring buffers that programs wake us by.
    pub(crate) fn new(rings: &[BorrowedFd<'_>]) -> Result<Self, Error> {
        let steps = ClockStepWatch::new()
            .map_err(io::Error::from)
            .tried("watch the clock")?;
        let epoll = watch(&steps, rings)
            .map_err(io::Error::from)
            .tried("wait")?;
        Ok(Self {
            epoll,
            steps,
            random: Random::default(),
        })
    }

    /// End waits when one of these can be read, too, until it is closed.
    pub(crate) fn add<'fd>(
        &self,
        descriptors: impl Iterator<Item = BorrowedFd<'fd>>,
    ) -> Result<(), Error> {
        for descriptor in descriptors {
            let data = epoll::EventData::new_u64(2);
            epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN)
                .map_err(io::Error::from)
                .tried("wait")?;
        }
        Ok(())
    }

    /// Wait for records, a step of the clock or one of `others`, at most for `timeout`; for good
    /// without one. Return whether the clock was stepped.
    pub(crate) fn wait(
        &self,
        timeout: Option<Duration>,
        others: &[BorrowedFd<'_>],
    ) -> Result<bool, Error> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut watched: Vec<_> = others
            .iter()
            .chain([&self.epoll.as_fd()])
            .map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN))
            .collect();
        match poll(&mut watched, timeout.as_ref()) {
            // A signal is the caller's to handle.
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno)).tried("wait"),
        }
        // Consume the edge that reported records; their reader reads all of them.
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 3];
        match epoll::wait(&self.epoll, &mut events, Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno)).tried("wait"),
        }
        let watched = self
            .steps
            .wait(Duration::ZERO)
            .map_err(io::Error::from)
            .tried("watch the clock")?;
        Ok(watched == Watched::Stepped)
    }

    /// Return the time to wait for the next records.
    pub(crate) fn patience(&mut self, they_come: bool) -> Duration {
        if !they_come {
            return WHILE_NONE_COME;
        }
        // A fixed period would fall in step with traffic that has one, and always disturb the same
        // messages.
        WHILE_RECORDS_COME.mul_f64(self.random.jitter())
    }
}

/// It can be read once there is something to do, until the next wait.
impl AsFd for Wakeups {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn watch(steps: &ClockStepWatch, rings: &[BorrowedFd<'_>]) -> rustix::io::Result<OwnedFd> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let level = epoll::EventFlags::IN;
    epoll::add(&epoll, steps, epoll::EventData::new_u64(0), level)?;
    for ring in rings {
        // A ring with a record in it is always readable (ringbuf_map_poll(), kernel/bpf/ringbuf.c,
        // v6.18); only the wake-up must end the wait.
        let edge = level | epoll::EventFlags::ET;
        epoll::add(&epoll, ring, epoll::EventData::new_u64(1), edge)?;
    }
    Ok(epoll)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn records_are_fetched_at_times_that_follow_no_pattern() {
        let mut wakeups = Wakeups::new(&[]).unwrap();
        let waits: Vec<_> = (0..1000).map(|_| wakeups.patience(true)).collect();
        let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(*least >= WHILE_RECORDS_COME.mul_f64(0.75), "{least:?}");
        assert!(*most <= WHILE_RECORDS_COME.mul_f64(1.25), "{most:?}");
        assert!(*most - *least > WHILE_RECORDS_COME.mul_f64(0.45));
    }

    #[test]
    fn a_descriptor_of_the_caller_ends_the_wait() {
        let wakeups = Wakeups::new(&[]).unwrap();
        let (read, write) = io::pipe().unwrap();
        let begun = Instant::now();
        assert!(
            !wakeups
                .wait(Some(Duration::from_millis(20)), &[read.as_fd()])
                .unwrap()
        );
        assert!(begun.elapsed() >= Duration::from_millis(20));
        drop(write);
        assert!(!wakeups.wait(None, &[read.as_fd()]).unwrap());
    }
}
