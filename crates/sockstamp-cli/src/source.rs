//! Define where messages come from: recordings, or a target that is measured.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use crate::hints::FILTER_WORDS;
use crate::target::Target;

/// The words that are a filter or files.
const WORDS: &str = "filter";
/// Options that do not choose what is measured.
const OF_BOTH: [&str; 6] = [
    WORDS,
    "format",
    "worse_than",
    "output",
    "all_stages",
    "count",
];

/// Recordings, or a target.
#[derive(Debug)]
pub struct Source {
    /// Recordings; none if messages are measured.
    pub files: Vec<PathBuf>,
    /// The target.
    pub target: Target,
}

/// Return true if the words are a filter, and no files.
fn is_filter(words: &[&str]) -> bool {
    let first = words
        .first()
        .and_then(|word| word.split_whitespace().next());
    first.is_none_or(|first| {
        FILTER_WORDS.contains(&first)
            || first.starts_with(['(', '!'])
            || first.parse::<sockstamp_model::Filter>().is_ok()
    })
}

/// Return true if a word may be meant for the name of a process: it has no sign of a path.
fn is_bare(word: &str) -> bool {
    !word.contains(['/', '.'])
}

impl FromArgMatches for Source {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let words = matches.get_many::<String>(WORDS).unwrap_or_default();
        let words: Vec<&str> = words.map(String::as_str).collect();
        if is_filter(&words) {
            return Ok(Self {
                files: Vec::new(),
                target: Target::from_arg_matches(matches)?,
            });
        }
        let files: Vec<_> = words.iter().map(PathBuf::from).collect();
        if is_bare(words[0]) && !files[0].exists() {
            let reason = format!(
                "no recording is named {:?}, and no filter begins with it\n",
                words[0]
            );
            return Err(Error::raw(ErrorKind::ValueValidation, reason));
        }
        let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut options = matches.ids().map(clap::Id::as_str).filter(given);
        // Groups of options have ids of their own, which are not lower case.
        let measuring = options
            .find(|id| !OF_BOTH.contains(id) && !id.starts_with(|c: char| c.is_ascii_uppercase()));
        if let Some(option) = measuring {
            let reason = format!(
                "{:?} is read as a recording, and {} is for measuring\n",
                words[0],
                option.replace('_', "-")
            );
            return Err(Error::raw(ErrorKind::ArgumentConflict, reason));
        }
        Ok(Self {
            files,
            target: Target::default(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Source {
    fn augment_args(command: Command) -> Command {
        Target::augment_args(command).mut_arg(WORDS, |words| {
            let help = words.get_help().map(ToString::to_string).unwrap_or_default();
            words
                .value_name("FILE|FILTER")
                .help("Recordings to read; or a filter expression, if the first word is one of its words")
                .long_help(format!(
                    "Recordings to read; or a filter expression, if the first word is one of its \
                     words.\n\nFilter: {help}.\n\nWrite ./NAME for a file with such a name."
                ))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_filter_are_no_files() {
        for words in [
            &["tcp", "port", "443"][..],
            &["(tcp)"],
            &["10.0.0.1"],
            &["not udp"],
            &[],
        ] {
            assert!(is_filter(words), "{words:?}");
        }
        for words in [&["a.parquet"][..], &["./tcp"], &["recording/x", "tcp"]] {
            assert!(!is_filter(words), "{words:?}");
        }
    }
}
