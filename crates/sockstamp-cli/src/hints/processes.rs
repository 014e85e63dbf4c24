//! Processes that a shell lists: none, or several words.

use std::fs;

use super::taken::{end, is_taken, line, replaced};
use crate::options::filter::FILTER_WORDS;

/// Return true for a process with memory of its own, which the kernel's tasks lack (proc(5)).
pub(super) fn is_process(number: &str) -> bool {
    let status = fs::read(format!("/proc/{number}/status")).unwrap_or_default();
    let mut lines = status.split(|byte| *byte == b'\n');
    lines.any(|line| line.starts_with(b"VmSize:"))
}

/// Return what to type for `-p` without a number, as of $(pgrep NAME) where none has that name.
pub(super) fn none(words: &[String]) -> Option<String> {
    let place = option(words)?;
    let value = words[..end(words)].get(place + 1);
    let is_none = value.is_none_or(|value| {
        value.is_empty() || value.starts_with('-') || FILTER_WORDS.contains(&value.as_str())
    });
    if !is_none {
        return None;
    }
    let used = 1 + usize::from(value.is_some_and(String::is_empty));
    let name = ["--comm", "NAME"].map(str::to_owned);
    let named = replaced(words, place..place + used, &name);
    is_taken(&named).then(|| {
        format!(
            "{} has no number: did $(pgrep ...) find nothing? By name: {}",
            words[place],
            line(&named)
        )
    })
}

/// Return what to type for numbers of several processes that are not one word.
pub(super) fn several(words: &[String], is_process: impl Fn(&str) -> bool) -> Option<String> {
    let joined = joined(words, is_process)?;
    is_taken(&joined).then(|| format!("several processes are one word: {}", line(&joined)))
}

/// Join the numbers behind `-p`. A last one that is no process may be a time, as perf-stat(1) and
/// watch(1) have it.
pub(super) fn joined(words: &[String], is_process: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let place = option(words)? + 1;
    let is_number = |word: &&String| {
        let mut numbers = word.split([' ', ',', '\n']);
        numbers.all(|number| number.parse::<u32>().is_ok())
    };
    let behind = words[..end(words)].iter().skip(place);
    let numbers: Vec<&String> = behind.take_while(is_number).collect();
    let (last, others) = numbers.split_last()?;
    let is_time = !others.is_empty() && !is_process(last);
    let processes = if is_time { others } else { &numbers[..] };
    // One word behind one process may be either.
    if is_time && processes.len() == 1 && !processes[0].contains([' ', '\n']) {
        return None;
    }
    let mut with = vec![
        processes
            .iter()
            .map(|list| list.replace([' ', '\n'], ","))
            .collect::<Vec<_>>()
            .join(","),
    ];
    if is_time {
        with.extend(super::values::for_time(&words[0], last));
    }
    let joined = replaced(words, place..place + numbers.len(), &with);
    (joined != words).then_some(joined)
}

/// Return the place of the option that names processes.
fn option(words: &[String]) -> Option<usize> {
    // Elsewhere -p means something else.
    let has_processes = !["ping", "fping", "agent"].contains(&words.first()?.as_str());
    let place = words[..end(words)]
        .iter()
        .position(|word| word == "-p" || word == "--pid")?;
    has_processes.then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::taken::words;

    fn of(line: &str) -> Option<String> {
        several(&words(line), |number| number != "3")
    }

    #[test]
    fn numbers_of_processes_are_one_word() {
        for (line, end) in [
            ("stat -p 11 12", "sockstamp stat -p 11,12"),
            ("stat -p 11 12 13 tcp", "sockstamp stat -p 11,12,13 tcp"),
            ("stat -p 11 12 3", "sockstamp stat -p 11,12 --duration 3"),
            (
                "stuck -p 11 12 3",
                "sockstamp stuck -p 11,12 --watch --interval 3",
            ),
        ] {
            assert!(of(line).is_some_and(|told| told.ends_with(end)), "{line}");
        }
        for line in ["stat -p 11 3", "stat -p 11", "stat", "ping -p 11 12 ::1"] {
            assert_eq!(of(line), None, "{line}");
        }
        let quoted = ["stat", "-p", "11 12"].map(str::to_owned);
        let joined = several(&quoted, |_| true).unwrap_or_default();
        assert!(joined.ends_with("sockstamp stat -p 11,12"), "{joined}");
    }

    #[test]
    fn a_process_without_a_number_is_named() {
        for (line, end) in [
            ("trace -p -c 2", "sockstamp trace --comm NAME -c 2"),
            ("stat -p", "sockstamp stat --comm NAME"),
            ("stat --pid port 80", "sockstamp stat --comm NAME port 80"),
            (
                "report a.parquet -p",
                "sockstamp report a.parquet --comm NAME",
            ),
        ] {
            let told = none(&words(line)).unwrap_or_default();
            assert!(told.ends_with(end), "{line}: {told}");
        }
        assert_eq!(none(&words("stat -p 1")), None);
        assert_eq!(none(&words("stat -- x -p")), None);
    }
}
