//! Define where messages come from: recordings, or a target that is measured.
//!
//! What measures also reads, by -r. All that read choose rows by the same options: `chosen` has
//! them for what reads alone.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::choice::Choice;
use super::chosen::Span;
use super::files::divided;
use super::target::Target;

/// The files to read.
const FILES: &str = "read";
/// Options that do not choose what is measured.
const OF_BOTH: [&str; 17] = [
    FILES,
    "pids",
    "comms",
    "filter",
    "from",
    "to",
    "format",
    "color",
    "output",
    "why",
    "fail",
    "least_share",
    "least_time",
    "slow",
    "write",
    "all_stages",
    "count",
];

/// Recordings, or a target.
#[derive(Debug)]
pub struct Source {
    /// Recordings; none if messages are measured.
    pub files: Vec<PathBuf>,
    /// The target; of recordings, the processes and the filter.
    pub target: Target,
    /// The time of the rows that are read.
    pub span: Span,
}

impl Source {
    /// Return the rows that are read.
    pub(crate) fn choice(&self) -> Choice {
        self.span
            .choice(&self.target.processes, &self.target.filter)
    }
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
        let mut target = Target::from_arg_matches(matches)?;
        let span = Span::from_arg_matches(matches)?;
        let words = matches.get_many::<PathBuf>(FILES).unwrap_or_default();
        let (files, filter) = divided(words.cloned().collect())?;
        if files.is_empty() {
            return Ok(Self {
                files,
                target,
                span,
            });
        }
        let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut options = matches.ids().map(clap::Id::as_str).filter(given);
        // Groups of options have ids of their own, which are not lower case.
        let measuring = options
            .find(|id| !OF_BOTH.contains(id) && !id.starts_with(|c: char| c.is_ascii_uppercase()));
        if let Some(option) = measuring {
            let reason = format!(
                "-r reads recordings, and {} is for measuring: leave out one of them",
                typed(option)
            );
            return Err(Error::raw(ErrorKind::ArgumentConflict, reason));
        }
        if filter.0.is_some() {
            target.filter = filter;
        }
        Ok(Self {
            files,
            target,
            span,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Source {
    fn augment_args(command: Command) -> Command {
        let files = Arg::new(FILES)
            .short('r')
            .long(FILES)
            .value_name("FILE")
            .num_args(1..)
            .action(ArgAction::Append)
            .value_parser(clap::value_parser!(PathBuf))
            .help("Read recordings, files or directories of `record`, and measure nothing");
        let command = Span::augment_args(Target::augment_args(command).arg(files));
        let needs_files = |arg: Arg| arg.requires(FILES);
        command
            .mut_arg("from", needs_files)
            .mut_arg("to", needs_files)
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
        let names = [&b"a.parquet"[..], b"\xff.parquet"].map(OsStr::from_bytes);
        let words = [&[OsStr::new("-r")][..], &names].concat();
        assert_eq!(read(&words).unwrap().files, names.map(PathBuf::from));
    }

    #[test]
    fn a_filter_stands_behind_recordings_too() {
        let source = read(&["-r", "a.parquet", "tcp", "port", "80"].map(OsStr::new)).unwrap();
        assert_eq!(source.files, [PathBuf::from("a.parquet")]);
        assert_eq!(source.target.filter.0, "tcp port 80".parse().ok());
    }

    #[test]
    fn what_is_measured_is_refused_by_its_name_beside_recordings() {
        for words in [["--cgroup", "a"], ["--container", "b"], ["--netns", "c"]] {
            let [option, value] = words;
            let told = read(&["-r", "a.parquet", option, value].map(OsStr::new));
            let told = told.unwrap_err().to_string();
            let expected = format!("and {option} is for measuring: leave out one of them");
            assert!(told.ends_with(&expected), "{told}");
        }
        assert_eq!(typed("max_cost"), "--max-cost");
        assert_eq!(typed("command"), "a command");
    }
}
