//! Tell on a terminal how far a long read is.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Nothing is told of what takes less.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two lines.
const PAUSE: Duration = Duration::from_millis(200);
/// Messages between two looks at the clock.
const LOOK: u64 = 1 << 14;

/// A line on standard error, if that is a terminal; it is removed at the end.
pub(crate) struct Progress {
    whole: u64,
    done: u64,
    told: Told,
}

/// When to tell.
struct Told {
    begin: Instant,
    last: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// Begin to read so many messages.
    pub(crate) fn new(whole: u64) -> Self {
        Self {
            whole,
            done: 0,
            told: Told {
                begin: Instant::now(),
                last: None,
                is_terminal: io::stderr().is_terminal(),
            },
        }
    }

    /// Count a message.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(LOOK) && self.told.is_due(Instant::now()) {
            // Ignore the error: a broken standard error cannot be reported.
            let _ = write!(io::stderr(), "\r{}", line(self.done, self.whole));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.told.last.is_some() {
            // Erase the line: ECMA-48, "EL".
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Told {
    fn is_due(&mut self, now: Instant) -> bool {
        let pause = self.last.is_none_or(|last| now.duration_since(last) >= PAUSE);
        let is_due = self.is_terminal && pause && now.duration_since(self.begin) >= PATIENCE;
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

/// Return the line; it has the same length whenever it is told.
fn line(done: u64, whole: u64) -> String {
    let percent = done.saturating_mul(100) / whole.max(1);
    let width = whole.to_string().len();
    format!("read {done:>width$} of {whole} messages, {percent:>3} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_after_a_second_and_then_at_most_five_times_per_second() {
        let begin = Instant::now();
        let mut told = Told {
            begin,
            last: None,
            is_terminal: true,
        };
        let due = [0, 999, 1000, 1100, 1199, 1200, 5000];
        let due = due.map(|millis| told.is_due(begin + Duration::from_millis(millis)));
        assert_eq!(due, [false, false, true, false, false, true, true]);
        told.is_terminal = false;
        assert!(!told.is_due(begin + Duration::from_secs(9)));
    }

    #[test]
    fn a_line_has_the_share() {
        assert_eq!(line(16_384, 100_000), "read  16384 of 100000 messages,  16 %");
        assert_eq!(line(0, 0), "read 0 of 0 messages,   0 %");
    }
}
