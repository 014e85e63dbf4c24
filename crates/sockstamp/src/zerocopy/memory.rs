//! Completions from memory, and when the error queue must also be read.
//!
//! Every completion is in the error queue, whatever memory has, so reading the queue yields
//! everything that memory lacks: completions before the registration, overwritten ones, those that
//! the programs missed, and all after the end of the service. The question is only how long that
//! may wait.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::completions::Registration;
use crate::error_queue::ZeroCopyRange;
use crate::zerocopy::receive_buffer::Watch;

/// A sender's source of completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompletionsBy {
    /// Memory that `sockstamp notifications` writes; the error queue is read rarely.
    Memory,
    /// Send calls that return them; the error queue is read rarely.
    Sends,
    /// The error queue.
    ErrorQueue,
}

/// A sender's sources of completions. Counts never decrease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompletionCounters {
    /// Sends that were known to be complete from memory.
    pub by_memory: u64,
    /// Sends that a later send call returned as complete.
    pub by_sends: u64,
    /// Sends completed by the error queue, or by calls of
    /// [`complete`](super::ZeroCopySender::complete).
    pub by_queue: u64,
    /// Reads of the error queue.
    pub queue_reads: u64,
    /// Ranges that were written over in memory before they were read: the error queue had them.
    pub overruns: u64,
    /// Times that the service ended, so that the error queue took over.
    pub services_ended: u64,
}

/// Longest time between reads of the queue. It bounds the delay of completions that memory misses,
/// of network errors, which only the queue has, and of noticing the service's end. It also keeps
/// merged ranges short enough to distinguish older ids from newer ones.
const LONGEST: Duration = Duration::from_millis(10);

/// Ranges that did not merge. Each takes about 800 bytes of net.core.optmem_max until it is read
/// (`sock_omalloc()`, net/core/sock.c, v6.18), of which Linux 6.1 has 20 kB per socket: two thirds
/// stay for sends in flight.
const MOST_RANGES: u64 = 8;

#[derive(Debug)]
pub(super) struct Memory {
    registration: Registration,
    /// The queue was read because this much time had passed.
    timed: Duration,
    lost: u64,
    /// Checks the receive buffer as stamps come into the queue.
    watch: Watch,
}

impl Memory {
    pub(super) fn new(registration: Registration) -> Self {
        Self {
            registration,
            timed: Duration::ZERO,
            lost: 0,
            watch: Watch::default(),
        }
    }

    pub(super) fn registration(&self) -> &Registration {
        &self.registration
    }

    pub(super) fn registration_mut(&mut self) -> &mut Registration {
        &mut self.registration
    }

    /// Pass new ranges to `each`; return the number of ranges lost since the last time.
    pub(super) fn read(&mut self, each: impl FnMut(ZeroCopyRange)) -> u64 {
        self.registration.completed(each);
        let lost = self.registration.ranges_lost();
        lost - std::mem::replace(&mut self.lost, lost)
    }

    /// Return true if it is time to look for the service, and for what it missed.
    pub(super) fn is_time(&mut self) -> bool {
        let now = coarse_time();
        let is_time = now.saturating_sub(self.timed) >= LONGEST;
        if is_time {
            self.timed = now;
        }
        is_time
    }

    /// Return true if the queue must be emptied now.
    pub(super) fn queue_fills(&mut self, socket: impl AsFd) -> bool {
        let stamps = self.registration.stamps_queued();
        self.registration.ranges_queued() >= MOST_RANGES || self.watch.is_full(stamps, socket)
    }

    /// The queue is about to be read to its end.
    pub(super) fn queue_is_read(&mut self) {
        self.watch = Watch::default();
        self.registration.queue_is_read();
    }
}

/// Exact to a tick, some milliseconds, and read without a system call whatever the clock source.
fn coarse_time() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map_or(Duration::MAX, Duration::from)
}
