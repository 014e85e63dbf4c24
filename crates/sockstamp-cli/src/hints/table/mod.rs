//! Words that users of other programs type, or typed before, and the ones to type instead.
//!
//! `{NAME}` stands for the value that was typed, or for its name where there is none. What an
//! option is written as ends before the first comma or semicolon; the rest explains it.

mod instead;
mod options;
mod words;
mod written;

use instead::Entry;
pub(super) use instead::Instead;
pub(super) use words::{AGENT, ALONE, SUBCOMMANDS, WORDS};

/// Return the options of other programs, and former ones; the first that fits is the answer.
pub(super) fn options() -> impl Iterator<Item = &'static Entry> {
    written::WRITTEN.iter().chain(options::MEASURED)
}

/// Put the value that was typed, if there is one, in the places of its name.
pub(super) fn filled(written: &str, value: Option<&str>) -> String {
    let Some((before, from)) = written.split_once('{') else {
        return written.to_owned();
    };
    match from.split_once('}') {
        Some((name, behind)) => {
            format!("{before}{}{}", value.unwrap_or(name), filled(behind, value))
        }
        None => written.to_owned(),
    }
}

/// Return true if one of these words is the one that was typed.
pub(super) fn has_word(words: &str, typed: &str) -> bool {
    words.split(' ').any(|word| word == typed)
}
