//! Show the progress of a long read on a terminal, and end the read on a signal.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Shorter work is not reported.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two lines.
const PAUSE: Duration = Duration::from_millis(200);
/// Messages between two readings of the clock.
const LOOK: u64 = 1 << 14;

/// The signal that ended a read.
#[derive(Debug)]
pub struct Interrupted(u8);

impl Interrupted {
    /// Return the exit status that shells know of a signal.
    pub const fn status(&self) -> u8 {
        128 + self.0
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted: not all messages were read")
    }
}

impl std::error::Error for Interrupted {}

/// Signals to end.
#[derive(Debug, Default)]
struct Signals {
    /// The last one, 0 if none came.
    last: Arc<AtomicUsize>,
    /// The next one kills: one has come already, or nothing is read that could end by itself.
    kills: Arc<AtomicBool>,
}

/// Catch signals from the first call on.
fn signals() -> Result<&'static Signals> {
    static CAUGHT: OnceLock<Signals> = OnceLock::new();
    if CAUGHT.get().is_none() {
        let last = Arc::new(AtomicUsize::new(0));
        let kills = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Actions run in the order of their registration.
            flag::register_conditional_default(signal, Arc::clone(&kills))
                .and_then(|_| flag::register(signal, Arc::clone(&kills)))
                .and_then(|_| {
                    flag::register_usize(signal, Arc::clone(&last), signal.unsigned_abs() as usize)
                })
                .context("cannot catch signals")?;
        }
        return Ok(CAUGHT.get_or_init(|| Signals { last, kills }));
    }
    CAUGHT.get().context("cannot catch signals")
}

/// A line on standard error, if that is a terminal; it is removed at the end.
#[derive(Debug)]
pub struct Progress {
    whole: u64,
    done: u64,
    told: Told,
    signals: &'static Signals,
}

/// The time of the next report.
#[derive(Debug)]
struct Told {
    begin: Instant,
    last: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// Begin to read this many messages.
    pub fn new(whole: u64) -> Result<Self> {
        Ok(Self::until(signals()?, whole))
    }

    fn until(signals: &'static Signals, whole: u64) -> Self {
        let came = signals.last.load(Ordering::Relaxed) != 0;
        signals.kills.store(came, Ordering::Relaxed);
        Self {
            whole,
            done: 0,
            told: Told {
                begin: Instant::now(),
                last: None,
                is_terminal: io::stderr().is_terminal(),
            },
            signals,
        }
    }

    /// Count a message. Fails soon after a signal to end.
    pub fn step(&mut self) -> Result<()> {
        self.done += 1;
        if !self.done.is_multiple_of(LOOK) && self.done != self.whole {
            return Ok(());
        }
        if self.told.is_due(Instant::now()) {
            // Ignore the error: a broken standard error cannot be reported.
            let _ = write!(io::stderr(), "\r{}", line(self.done, self.whole));
        }
        match u8::try_from(self.signals.last.load(Ordering::Relaxed)) {
            Ok(0) | Err(_) => Ok(()),
            Ok(signal) => Err(Interrupted(signal).into()),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.signals.kills.store(true, Ordering::Relaxed);
        if self.told.last.is_some() {
            // Erase the line: ECMA-48, "EL".
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Told {
    fn is_due(&mut self, now: Instant) -> bool {
        let pause = self
            .last
            .is_none_or(|last| now.duration_since(last) >= PAUSE);
        let is_due = self.is_terminal && pause && now.duration_since(self.begin) >= PATIENCE;
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

/// Return the line; it always has the same length.
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
    fn a_signal_kills_where_no_read_could_end_by_it() {
        let signals: &'static Signals = Box::leak(Box::default());
        let kills = || signals.kills.load(Ordering::Relaxed);
        let first = Progress::until(signals, 1);
        assert!(!kills());
        drop(first);
        assert!(kills());
        let _second = Progress::until(signals, 1);
        assert!(!kills());
    }

    #[test]
    fn a_line_has_the_share() {
        assert_eq!(
            line(16_384, 100_000),
            "read  16384 of 100000 messages,  16 %"
        );
        assert_eq!(line(0, 0), "read 0 of 0 messages,   0 %");
    }
}
