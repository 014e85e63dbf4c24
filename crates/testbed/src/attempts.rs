use std::io::{self, Write};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Attempts of a measurement of time: a shared machine has bad moments, and some of them last.
const ATTEMPTS: usize = 5;
/// The number of characters of a reason in a line for the summary.
const LONGEST: usize = 300;
/// Stolen processor time that explains a miss: more than most bounds, and this part of the
/// attempt's time. A busy host was seen to take a thousandth without harm.
const MUCH_STOLEN: Duration = Duration::from_millis(50);
const MUCH_OF_THE_ATTEMPT: u32 = 50;
/// A tick of `/proc/stat`: USER_HZ is 100 on each architecture that we know.
const TICK: Duration = Duration::from_millis(10);

/// Repeat a measurement of time until it does not miss, up to five times. The bounds stay as they
/// are, and a product that is wrong stays wrong. Do not retry a state, a count of states, nor a
/// figure that contradicts its witness, unless [`Stolen`] shows that the machine stood still
/// between the two.
///
/// Each miss but the last writes `RETRY <test>: <reason>` to standard error, past the test harness,
/// for the summary of `make test`, which lists and counts the misses. If the hypervisor took
/// processor time from this machine meanwhile, the line ends with `(stolen: 60 ms)`: the witness
/// that the machine was at fault is not ours.
///
/// # Panics
///
/// Fails with all reasons, if each attempt missed.
pub fn within_attempts(attempt: impl FnMut() -> Result<(), String>) {
    let mut stolen = Stolen::begin();
    telling(attempt, |reason| {
        tell(&line(thread::current().name(), reason, stolen.much()));
        stolen = Stolen::begin();
    });
}

/// Processor time that the hypervisor gives to others from here on.
#[derive(Debug)]
pub struct Stolen {
    begun: Instant,
    before: Duration,
}

impl Stolen {
    /// Begin to watch.
    pub fn begin() -> Stolen {
        Stolen {
            begun: Instant::now(),
            before: stolen(),
        }
    }

    /// Return how much it was, if it was enough to explain a wrong time.
    pub fn much(&self) -> Option<Duration> {
        let stolen = stolen().saturating_sub(self.before);
        explains(stolen, self.begun.elapsed()).then_some(stolen)
    }
}

fn explains(stolen: Duration, attempt: Duration) -> bool {
    stolen >= MUCH_STOLEN && stolen * MUCH_OF_THE_ATTEMPT >= attempt
}

/// Read the processor time that the hypervisor has given to others since boot: 0 if it does not
/// report it.
fn stolen() -> Duration {
    let all = fs::read_to_string("/proc/stat").unwrap_or_default();
    TICK * stolen_ticks(&all).unwrap_or(0)
}

/// `cpu user nice system idle iowait irq softirq steal …`, see proc_stat(5).
fn stolen_ticks(stat: &str) -> Option<u32> {
    stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()
}

fn telling(mut attempt: impl FnMut() -> Result<(), String>, mut tell: impl FnMut(&str)) {
    let mut missed = Vec::new();
    loop {
        let Err(reason) = attempt() else {
            return;
        };
        missed.push(reason);
        if missed.len() == ATTEMPTS {
            panic!("missed {ATTEMPTS} times:\n{}", missed.join("\n"));
        }
        tell(&missed[missed.len() - 1]);
    }
}

fn line(test: Option<&str>, reason: &str, stolen: Option<Duration>) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    let reason: String = words.join(" ").chars().take(LONGEST).collect();
    let test = test.unwrap_or("a test");
    match stolen {
        None => format!("RETRY {test}: {reason}\n"),
        Some(stolen) => format!(
            "RETRY {test}: {reason} (stolen: {} ms)\n",
            stolen.as_millis()
        ),
    }
}

/// Avoid `eprintln!`, which the test harness keeps to itself; write once, so that no other line
/// cuts this one.
fn tell(line: &str) {
    // Ignore errors: without standard error no reader waits for the line.
    let _ = io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_end_with_the_first_hit() {
        let mut tries = 0;
        let mut told = Vec::new();
        let attempt = || {
            tries += 1;
            if tries < 3 {
                Err(format!("late {tries}"))
            } else {
                Ok(())
            }
        };
        telling(attempt, |reason| told.push(reason.to_owned()));
        assert_eq!(
            (tries, told),
            (3, vec!["late 1".to_owned(), "late 2".to_owned()])
        );
    }

    #[test]
    #[should_panic(expected = "missed 5 times:\n1\n2\n3\n4\n5")]
    fn attempts_that_all_miss_fail() {
        let mut tries = 0;
        let attempt = || {
            tries += 1;
            Err(tries.to_string())
        };
        telling(attempt, |_| {});
    }

    #[test]
    fn a_reason_of_many_lines_becomes_one() {
        assert_eq!(
            line(Some("a::test"), "two\n  lines", None),
            "RETRY a::test: two lines\n"
        );
        let long = line(None, &"x".repeat(1000), None);
        assert_eq!(long.len(), "RETRY a test: \n".len() + LONGEST);
    }

    #[test]
    fn a_miss_while_the_processors_were_taken_away_says_so() {
        let stolen = Some(Duration::from_millis(60));
        assert_eq!(
            line(Some("a"), "late", stolen),
            "RETRY a: late (stolen: 60 ms)\n"
        );
    }

    #[test]
    fn little_stolen_time_explains_no_miss() {
        let explains = |stolen, attempt| {
            explains(
                Duration::from_millis(stolen),
                Duration::from_millis(attempt),
            )
        };
        assert!(explains(50, 2500));
        assert!(!explains(40, 500));
        assert!(!explains(50, 2600));
    }

    #[test]
    fn stolen_time_is_the_eighth_number_of_the_first_line() {
        let stat = "cpu  1583968 182987 369310 556372 15060 0 18491 5222 0 0\ncpu0 1 2\n";
        assert_eq!(stolen_ticks(stat), Some(5222));
        assert_eq!(stolen_ticks("cpu 1 2"), None);
    }
}
