//! Words that users of other programs type, or typed before, and the ones to type instead.
//!
//! `{NAME}` stands for the value that was typed, or for its name where there is none. What an
//! option is written as ends before the first comma or semicolon; the rest explains it.

mod options;
mod words;

pub(super) use options::OPTIONS;
pub(super) use words::{SUBCOMMANDS, WORDS};

/// The answer to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instead {
    /// An option that had this name before.
    Renamed(&'static str),
    /// The long name of an option, and how it is written.
    Option(&'static str, &'static str),
    /// A filter that is written without an option.
    Filter(&'static str),
    /// A recording, which is named without an option.
    Recording,
    /// Nothing: what the option does is always so, or not done.
    Nothing(&'static str),
    /// The purpose, and the command line for it.
    Line(&'static str, &'static str),
}

/// Subcommands, all if none is named; options of theirs, with a value where that matters, with #
/// for numbers, or with * for what is no file; and the answer. The first entry that fits a
/// subcommand is the answer.
pub(super) type Entry = (&'static str, &'static str, Instead);

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
