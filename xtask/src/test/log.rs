//! The output of a step: a file, the terminal, and the time of each test.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The output of a step.
#[derive(Debug)]
pub(super) struct Log {
    file: Option<File>,
    /// Print as it comes.
    live: bool,
    text: String,
    stopwatch: Stopwatch,
}

/// The time of a test, in seconds.
pub(super) type Times = Vec<(String, Duration)>;

impl Log {
    pub(super) fn create(path: &Path, live: bool) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self {
            file: Some(file),
            live,
            ..Self::in_memory()
        })
    }

    pub(super) fn in_memory() -> Self {
        Self {
            file: None,
            live: false,
            text: String::new(),
            stopwatch: Stopwatch::default(),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(bytes).context("cannot write a log")?;
        }
        if self.live {
            print(bytes);
        }
        self.text.push_str(&String::from_utf8_lossy(bytes));
        self.stopwatch.look(&self.text, Instant::now());
        Ok(())
    }

    pub(super) fn line(&mut self, line: &str) -> Result<()> {
        self.write(format!("{line}\n").as_bytes())
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Return the times of tests that ran one at a time, and begin anew.
    pub(super) fn take_times(&mut self) -> Times {
        self.stopwatch.take(Instant::now())
    }
}

/// Print at once. Ignore errors: a closed terminal ends no test.
pub(super) fn print(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Notes when tests begin: with one thread, the harness prints `test NAME ... ` before each.
#[derive(Debug, Default)]
struct Stopwatch {
    /// The length of the text that has been looked at.
    seen: usize,
    begun: Vec<(String, Instant)>,
}

impl Stopwatch {
    fn look(&mut self, text: &str, now: Instant) {
        while let Some(length) = text[self.seen..].find('\n') {
            self.line(&text[self.seen..self.seen + length], now);
            self.seen += length + 1;
        }
        let rest = &text[self.seen..];
        if rest.ends_with(" ... ") {
            self.line(rest, now);
        }
    }

    fn line(&mut self, line: &str, now: Instant) {
        let Some((name, _)) = line
            .strip_prefix("test ")
            .and_then(|line| line.split_once(" ... "))
        else {
            return;
        };
        if self.begun.last().is_none_or(|(last, _)| last != name) {
            self.begun.push((name.to_owned(), now));
        }
    }

    fn take(&mut self, now: Instant) -> Times {
        let begun = std::mem::take(&mut self.begun);
        let ends: Vec<_> = begun
            .iter()
            .skip(1)
            .map(|(_, at)| *at)
            .chain([now])
            .collect();
        begun
            .into_iter()
            .zip(ends)
            .map(|((name, at), end)| (name, end - at))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_have_the_times_between_their_first_words() {
        let mut stopwatch = Stopwatch::default();
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        stopwatch.look("running 2 tests\ntest a::b ... ", at(0));
        stopwatch.look(
            "running 2 tests\ntest a::b ... SKIP a::b: x\nok\ntest c ... ",
            at(3),
        );
        stopwatch.look(
            "running 2 tests\ntest a::b ... SKIP a::b: x\nok\ntest c ... ok\n",
            at(4),
        );
        let times = stopwatch.take(at(5));
        let seconds = Duration::from_secs;
        assert_eq!(
            times,
            [
                ("a::b".to_owned(), seconds(3)),
                ("c".to_owned(), seconds(2))
            ]
        );
        assert_eq!(stopwatch.take(at(6)), []);
    }
}
