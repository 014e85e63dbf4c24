//! Define where messages come from: recordings, or a target that is measured.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::options::filter::FILTER_WORDS;
use crate::options::target::Target;

/// The words that are a filter or files.
const WORDS: &str = "filter";
/// Options that do not choose what is measured.
const OF_BOTH: [&str; 8] = [
    WORDS,
    "format",
    "least_share",
    "least_time",
    "slow",
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

/// Return an option as it is typed.
fn typed(id: &str) -> String {
    let target = Target::augment_args(Command::new("target"));
    let option = target.get_arguments().find(|option| option.get_id() == id);
    match (option.and_then(Arg::get_long), id) {
        (Some(long), _) => format!("--{long}"),
        (None, "command") => "a command".to_owned(),
        (None, _) => format!("--{}", id.replace('_', "-")),
    }
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
        // The bytes of a name need not be UTF-8: the words may differ from them.
        let names = matches.get_raw(WORDS).into_iter().flatten();
        let files: Vec<PathBuf> = names.map(PathBuf::from).collect();
        if is_bare(words[0]) && !files[0].exists() {
            let reason = format!(
                "no recording is named {:?}, and no filter begins with it",
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
                "{:?} is read as a recording, and {} is for measuring: leave out one of them",
                words[0],
                typed(option)
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
            // A filter with other characters is refused as such.
            let lossy = OsStringValueParser::new().map(|word| word.to_string_lossy().into_owned());
            words
                .value_parser(lossy)
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
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn read(words: &[&OsStr]) -> Result<Source, Error> {
        let command = Source::augment_args(Command::new("explain").no_binary_name(true));
        Source::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn names_of_files_may_have_any_bytes() {
        let names = [&b"a.parquet"[..], b"./\xff.parquet"].map(OsStr::from_bytes);
        assert_eq!(read(&names).unwrap().files, names.map(PathBuf::from));
        let filter = [&b"port"[..], b"\xff"].map(OsStr::from_bytes);
        assert!(read(&filter).is_err());
    }

    #[test]
    fn options_of_measuring_are_refused_by_their_names() {
        for (option, value) in [("--pid", "1"), ("--comm", "nginx"), ("--netns", "blue")] {
            let words = ["a.parquet", option, value].map(OsStr::new);
            let told = read(&words).unwrap_err().to_string();
            let expected = format!("and {option} is for measuring: leave out one of them");
            assert!(told.ends_with(&expected), "{told}");
        }
        assert_eq!(typed("rate_cap"), "--rate-cap");
        assert_eq!(typed("command"), "a command");
    }

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
