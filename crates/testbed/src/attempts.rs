use std::io::{self, Write};
use std::thread;

/// Attempts of a measurement of time: a shared machine has bad moments, and some of them last.
const ATTEMPTS: usize = 5;
/// Characters of a reason that a line for a summary has.
const LONGEST: usize = 300;

/// Repeat a measurement of time until it does not miss, up to five times. The bounds stay as they
/// are, and a product that is wrong stays wrong. Do not retry a state, nor a count of states.
///
/// Each miss but the last writes `RETRY <test>: <reason>` to standard error, past the test harness,
/// for the summary of `make test`, which lists and counts the misses.
///
/// # Panics
///
/// With all reasons, if each attempt missed.
pub fn within_attempts(attempt: impl FnMut() -> Result<(), String>) {
    telling(attempt, |reason| tell(&line(thread::current().name(), reason)));
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

fn line(test: Option<&str>, reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    let reason: String = words.join(" ").chars().take(LONGEST).collect();
    format!("RETRY {}: {reason}\n", test.unwrap_or("a test"))
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
    fn it_ends_with_the_first_hit() {
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
        assert_eq!((tries, told), (3, vec!["late 1".to_owned(), "late 2".to_owned()]));
    }

    #[test]
    #[should_panic(expected = "missed 5 times:\n1\n2\n3\n4\n5")]
    fn what_is_wrong_each_time_stays_wrong() {
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
            line(Some("a::test"), "two\n  lines"),
            "RETRY a::test: two lines\n"
        );
        let long = line(None, &"x".repeat(1000));
        assert_eq!(long.len(), "RETRY a test: \n".len() + LONGEST);
    }
}
