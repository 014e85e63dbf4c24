//! Recordings, and behind them a filter, as one list of words.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use sockstamp_print::wrong_use::WrongUse;

use super::filter::{FILTER_WORDS, FilterWords};
use super::wrong_filter;

const ID: &str = "files";

/// Recordings that a subcommand reads.
#[derive(Debug)]
pub struct Files {
    /// Files and directories.
    pub paths: Vec<PathBuf>,
    /// The rows that are read.
    pub filter: FilterWords,
}

/// Return true for a word that begins a filter; a file of that name is read.
fn begins_filter(word: &Path) -> bool {
    let text = word.to_str().unwrap_or_default().trim_start();
    let first = text.split([' ', '(', ')']).next().unwrap_or_default();
    let is_word = FILTER_WORDS.contains(&first) || text.starts_with(['(', '!']);
    // Words of other programs' filters are refused as a filter, too.
    let is_word = is_word || wrong_filter::is_of_packets(first);
    is_word && !word.exists()
}

/// Divide words into recordings and the filter behind them.
pub(crate) fn divided(mut words: Vec<PathBuf>) -> Result<(Vec<PathBuf>, FilterWords), Error> {
    let place = words.iter().position(|word| begins_filter(word));
    let of_filter = words.split_off(place.unwrap_or(words.len()));
    let of_filter: Vec<_> = of_filter
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let filter = FilterWords::read(&of_filter.join(" "));
    let filter = filter.map_err(|error| Error::raw(ErrorKind::ValueValidation, error))?;
    Ok((words, filter))
}

/// Return what is named as a place, or else by an option that takes several.
pub(crate) fn one_or_several(one: &Option<PathBuf>, several: &[PathBuf]) -> Vec<PathBuf> {
    one.iter().chain(several).cloned().collect()
}

/// Divide the last list of recordings from the filter behind it: an option that takes several
/// swallows its words.
pub(crate) fn with_filter(
    last: &[PathBuf],
    filter: &FilterWords,
    subcommand: &str,
) -> Result<(Vec<PathBuf>, FilterWords), WrongUse> {
    let wrong = |error| WrongUse(told(&error, subcommand));
    let (paths, behind) = divided(last.to_vec()).map_err(wrong)?;
    Ok(match behind.0 {
        Some(_) => (paths, behind),
        None => (paths, filter.clone()),
    })
}

/// Return what to type for a wrong filter, or else the first line of its error, without its label.
fn told(error: &Error, subcommand: &str) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    wrong_filter::line(text, subcommand)
        .unwrap_or_else(|| text.lines().next().unwrap_or_default().to_owned())
}

impl FromArgMatches for Files {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let words = matches.get_many::<PathBuf>(ID).unwrap_or_default();
        let (paths, filter) = divided(words.cloned().collect())?;
        if paths.is_empty() {
            let told = "a recording is missing: write FILE before the filter";
            return Err(Error::raw(ErrorKind::ArgumentConflict, told));
        }
        Ok(Self { paths, filter })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Files {
    fn augment_args(command: Command) -> Command {
        let files = Arg::new(ID).value_name("FILE").num_args(1..).required(true);
        command.arg(
            files
                .value_parser(clap::value_parser!(PathBuf))
                .help("Recordings, files or directories of `record`; behind them a filter"),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> (Vec<PathBuf>, FilterWords) {
        divided(words.iter().map(PathBuf::from).collect()).unwrap()
    }

    #[test]
    fn a_filter_stands_behind_recordings() {
        let files = ["a.parquet", "b/"].map(PathBuf::from);
        for words in [
            &["tcp", "port", "80"][..],
            &["tcp port 80"],
            &["(tcp", "port", "80)"],
            &["not", "udp"],
        ] {
            let (paths, filter) = of(&[&["a.parquet", "b/"], words].concat());
            assert_eq!(paths, files);
            assert_eq!(filter.0, words.join(" ").parse().ok(), "{words:?}");
            assert!(filter.0.is_some());
        }
        assert_eq!(of(&["a.parquet", "b/"]), (files.into(), FilterWords(None)));
    }

    #[test]
    fn a_filter_stands_behind_the_last_of_several_recordings() {
        let words = ["a.parquet", "b/", "udp"].map(PathBuf::from);
        let none = FilterWords::default();
        let (paths, filter) = with_filter(&words, &none, "diff").unwrap();
        assert_eq!(paths, words[..2]);
        assert_eq!(filter.0, "udp".parse().ok());
        let other = FilterWords("tcp".parse().ok());
        assert_eq!(with_filter(&words[..1], &other, "diff").unwrap().1, other);
        let wrong = ["a.parquet", "port", "http"].map(PathBuf::from);
        let told = with_filter(&wrong, &none, "diff").unwrap_err().to_string();
        let expected = "filter, column 6: names of services are not looked up: write port 80";
        assert_eq!(told, expected);
    }

    #[test]
    fn a_wrong_filter_is_told() {
        let words = ["a.parquet", "port", "http"].map(PathBuf::from);
        let told = divided(words.into()).unwrap_err().to_string();
        assert!(told.contains("filter, column"), "{told}");
    }
}
