//! A bound on the lines of a log, so that whoever causes one cannot fill a disk with them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const SPAN: Duration = Duration::from_secs(60);

/// Lines within a minute: of each cause, and of all.
#[derive(Debug)]
pub struct LineLimit<K> {
    of_a_cause: u32,
    of_all: u32,
    begun: Option<Instant>,
    written: BTreeMap<K, u32>,
    total: u32,
    left_out: u64,
}

impl<K: Ord> LineLimit<K> {
    /// Bound the lines of each cause, and of all causes together.
    #[must_use]
    pub const fn new(of_a_cause: u32, of_all: u32) -> Self {
        Self {
            of_a_cause,
            of_all,
            begun: None,
            written: BTreeMap::new(),
            total: 0,
            left_out: 0,
        }
    }

    /// Return whether a line may be written now, and if so, how many were left out since the last
    /// time that this was told: in an earlier minute.
    pub fn admit(&mut self, cause: K, now: Instant) -> Option<u64> {
        let is_over = |begun: Instant| now.saturating_duration_since(begun) >= SPAN;
        let mut left_out = 0;
        if self.begun.is_none_or(is_over) {
            self.begun = Some(now);
            self.written.clear();
            self.total = 0;
            left_out = self.take_left_out();
        }
        let has_room = self.total < self.of_all;
        let written = match has_room {
            true => Some(self.written.entry(cause).or_default()),
            false => None,
        };
        match written {
            Some(written) if *written < self.of_a_cause => {
                *written += 1;
                self.total += 1;
                Some(left_out)
            }
            _ => {
                self.left_out += 1;
                None
            }
        }
    }

    /// Return how many lines were left out since the last time that this was told: nothing tells it
    /// after the last line.
    pub const fn take_left_out(&mut self) -> u64 {
        std::mem::replace(&mut self.left_out, 0)
    }

    /// Keep a number that found no reader, to be told again.
    pub const fn give_back(&mut self, left_out: u64) {
        self.left_out += left_out;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_has_its_lines_of_a_minute_and_what_is_left_out_is_told_in_the_next() {
        let mut limit = LineLimit::new(2, 100);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let told: Vec<_> = (0..5).map(|n| limit.admit("a", at(n))).collect();
        assert_eq!(told, [Some(0), Some(0), None, None, None]);
        assert_eq!(limit.admit("b", at(6)), Some(0));
        assert_eq!(limit.admit("a", at(61)), Some(3));
        assert_eq!(limit.admit("a", at(62)), Some(0));
    }

    #[test]
    fn a_number_that_found_no_reader_is_told_again_and_one_without_a_next_line_at_the_end() {
        let mut limit = LineLimit::new(1, 100);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(limit.admit("a", at(0)), Some(0));
        assert_eq!(limit.admit("a", at(1)), None);
        assert_eq!(limit.admit("a", at(61)), Some(1));
        limit.give_back(1);
        assert_eq!(limit.admit("a", at(62)), None);
        assert_eq!(limit.admit("a", at(130)), Some(2));
        assert_eq!(limit.admit("a", at(131)), None);
        assert_eq!((limit.take_left_out(), limit.take_left_out()), (1, 0));
    }

    #[test]
    fn very_many_causes_have_no_more_than_all_and_are_not_kept() {
        let mut limit = LineLimit::new(2, 3);
        let now = Instant::now();
        let admitted = (0..1000).filter(|cause| limit.admit(*cause, now).is_some());
        assert_eq!(admitted.count(), 3);
        assert_eq!(limit.written.len(), 3);
    }
}
