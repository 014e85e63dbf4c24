//! The moment at which the next files of a directory begin.

use std::time::{Duration, Instant};

use sockstamp_model::clock::{Realtime, Timestamp};

/// Seconds of an hour.
pub(super) const HOUR: u64 = 3600;

/// The time of the files of a directory. A row decides by its own time: rows that wait to be
/// written belong to the files before it.
#[derive(Debug)]
pub(super) struct Turn {
    /// Since 1970.
    hour: u64,
    since: Instant,
    file_time: Duration,
    /// True if the files have lasted for their time.
    is_late: bool,
}

impl Turn {
    pub(super) fn new(hour: u64, file_time: Duration) -> Self {
        Self {
            hour,
            since: Instant::now(),
            file_time,
            is_late: false,
        }
    }

    /// Read the clock; return true if the files have just lasted for their time. The next row
    /// begins others. Until then there is nothing to write.
    pub(super) fn read_clock(&mut self) -> bool {
        let was_late = self.is_late;
        self.is_late = self.since.elapsed() >= self.file_time;
        self.is_late && !was_late
    }

    /// Return the seconds since 1970 of a row that begins the next files. One of an earlier hour
    /// has come late: it does not go back to files that are finished.
    pub(super) fn next(&mut self, time: Timestamp<Realtime>) -> Option<u64> {
        let seconds = time.as_nanos() / 1_000_000_000;
        let hour = seconds / HOUR;
        if hour <= self.hour && !self.is_late {
            return None;
        }
        *self = Self::new(hour, self.file_time);
        Some(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp<Realtime> {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_first_row_of_an_hour_begins_its_files() {
        let mut turn = Turn::new(9, Duration::MAX);
        assert!(!turn.read_clock());
        assert_eq!(turn.next(at(10 * HOUR - 1)), None);
        assert_eq!(turn.next(at(10 * HOUR)), Some(10 * HOUR));
        assert_eq!(turn.next(at(10 * HOUR - 1)), None);
        assert_eq!(turn.next(at(10 * HOUR + 1)), None);
    }

    #[test]
    fn the_first_row_after_the_time_of_a_file_begins_the_next() {
        let mut turn = Turn::new(9, Duration::ZERO);
        assert_eq!(turn.next(at(9 * HOUR)), None);
        assert!(turn.read_clock());
        assert!(!turn.read_clock());
        assert_eq!(turn.next(at(9 * HOUR)), Some(9 * HOUR));
        assert_eq!(turn.next(at(9 * HOUR)), None);
    }
}
