//! Readers of error queues.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use sockstamp::error_queue::{ErrorQueue, Report, Unreported};

use crate::boundary::{Errno, Result};
use crate::header::{sockstamp_queue_counters, sockstamp_report, sockstamp_statistics};
use crate::report;

/// `struct sockstamp_queue`.
pub struct Queue {
    reader: ErrorQueue,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            reader: ErrorQueue::new(),
        }
    }

    /// Fill `reports`, and `statistics` where there is room, unless the error queue ends before;
    /// how many.
    pub(crate) fn drain(
        &mut self,
        socket: BorrowedFd<'_>,
        reports: &mut [MaybeUninit<sockstamp_report>],
        statistics: &mut [MaybeUninit<sockstamp_statistics>],
    ) -> Result<usize> {
        let mut filled = 0;
        while filled < reports.len() {
            let wanted = reports.len() - filled;
            let taken = self.reader.drain_at_most(wanted, socket, |entry| {
                reports[filled].write(report::in_c(&entry));
                if let Some(place) = statistics.get_mut(filled) {
                    place.write(report::statistics(&entry));
                }
                filled += 1;
            });
            match taken {
                Ok(taken) if taken == wanted => {}
                // Return the entries taken so far; the next call returns the error, if it persists.
                Err(error) if filled == 0 => return Err(error.into()),
                _ => break,
            }
        }
        Ok(filled)
    }

    pub(crate) fn counters(&self) -> sockstamp_queue_counters {
        let counters = self.reader.counters();
        sockstamp_queue_counters {
            entries: counters.entries,
            cut: counters.truncated,
            malformed: counters.malformed,
            without_time: counters.without_time,
        }
    }
}

/// The control messages of one entry.
pub(crate) fn parse(control: &[u8]) -> Result<Report<'_>> {
    Report::parse(control).map_err(|unreported| {
        Errno(match unreported {
            Unreported::WithoutTime => libc::ENODATA,
            _ => libc::EBADMSG,
        })
    })
}
