//! Command lines that are suggested: the program itself reads each before it is printed.

use std::ffi::OsString;
use std::iter;

use clap::{Arg, Command, Error};

pub(super) use sockstamp_run::escape::quoted;

/// Read the words behind the program's name; nothing runs.
pub(super) fn read(words: &[String]) -> Result<(), Error> {
    let words = words.iter().map(OsString::from);
    let program = iter::once(OsString::from("sockstamp"));
    crate::parse(program.chain(words)).map(|_| ())
}

/// Return true if the program takes these words, and writes to none of the files that they read.
pub(super) fn is_taken(words: &[String]) -> bool {
    read(words).is_ok() && !writes_over(words)
}

/// Return true if an output is one of the other words.
fn writes_over(words: &[String]) -> bool {
    const WRITING: [&str; 5] = ["-o", "--output", "-w", "--write", "--html"];
    let outputs = words
        .windows(2)
        .filter(|pair| WRITING.contains(&pair[0].as_str()));
    let mut files = outputs.map(|pair| &pair[1]);
    files.any(|file| file != "-" && words.iter().filter(|word| *word == file).count() > 1)
}

/// Return the whole line, as a shell reads it.
pub(super) fn line(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    format!("sockstamp {}", words.join(" "))
        .trim_end()
        .to_owned()
}

/// Return the place of the end of options: of `--`, or behind the last word.
pub(super) fn end(words: &[String]) -> usize {
    let end = words.iter().position(|word| word == "--");
    end.unwrap_or(words.len())
}

/// Return the words with these in the place of some.
pub(super) fn replaced(
    words: &[String],
    place: std::ops::Range<usize>,
    with: &[String],
) -> Vec<String> {
    let (before, behind) = (&words[..place.start], &words[place.end..]);
    [before, with, behind].concat()
}

/// Return text as words.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Return true if the argument after this option is its value; `None` for an unknown option.
pub(super) fn has_value_behind(command: &Command, option: &str) -> Option<bool> {
    let needs_value = |arg: &Arg| {
        arg.get_num_args()
            .is_some_and(|values| values.min_values() > 0)
    };
    if let Some(long) = option.strip_prefix("--") {
        let (name, value) = long
            .split_once('=')
            .map_or((long, None), |(name, value)| (name, Some(value)));
        let mut arguments = command.get_arguments();
        let found = arguments.find(|arg| arg.get_long() == Some(name))?;
        return Some(value.is_none() && needs_value(found));
    }
    // Short flags may be one word, and the last may have a value: -vp. One before has it in there.
    let mut letters = option[1..].chars();
    while let Some(letter) = letters.next() {
        let mut arguments = command.get_arguments();
        let found = arguments.find(|arg| arg.get_short() == Some(letter))?;
        if needs_value(found) {
            return Some(letters.next().is_none());
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_quoted_for_a_shell() {
        let words = ["trace", "dst host ::1 && udp", "it's", "", "--from", "-5m"];
        assert_eq!(
            line(&words.map(str::to_owned)),
            r"sockstamp trace 'dst host ::1 && udp' 'it'\''s' '' --from -5m"
        );
    }

    #[test]
    fn what_the_program_reads_is_taken() {
        assert!(is_taken(&words("stat port 80")));
        assert!(!is_taken(&words("stat port http")));
        assert!(!is_taken(&words("stuck --interval 1")));
        assert!(is_taken(&words("export --perfetto -o b a")));
        assert!(!is_taken(&words("export --perfetto -o a a")));
    }
}
