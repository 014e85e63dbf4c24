//! The command line of sockstamp: thin, one file or folder per subcommand, with its options. A
//! library so that the generator of man pages and completions reads the same definition as the
//! program.

#![forbid(unsafe_code)]
// Names that others chose must not reach a terminal as they are: `sockstamp_run::escape` has the
// ways out.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod agent;
mod command_line;
mod destinations;
mod diff;
mod doctor;
mod explain;
mod export;
mod hints;
mod janitor;
mod join;
mod measure;
mod notifications;
mod offered;
mod options;
mod pcap;
mod reader;
mod record;
mod recordings;
mod recover;
mod report;
mod stat;
mod stuck;
mod top;
mod trace;
mod watched;
mod ways;

pub use command_line::{Cli, Subcommand};

use std::env;
use std::ffi::{OsStr, OsString};
use std::iter;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches};
use signal_hook::consts::SIGXFSZ;
use signal_hook::flag;
use sockstamp_model::name::shows;
use sockstamp_ping_cli::{fping, ping};
use sockstamp_print::progress::Interrupted;
use sockstamp_print::words;
use sockstamp_print::wrong_use::WrongUse;
use sockstamp_run::command::CannotRun;
use sockstamp_run::escape;

/// Run the command line of this process.
///
/// Exit status: 0 done, 1 failed, 2 wrong usage, 3 a condition of `diff` or `stuck` holds; with a
/// command, the command's own; of `ping`, ping(8)'s.
#[must_use]
pub fn run() -> ExitCode {
    offered::answer();
    let Cli {
        subcommand,
        explain_words,
    } = parse(called(env::args_os())).unwrap_or_else(refuse);
    let Some(subcommand) = subcommand.filter(|_| !explain_words) else {
        return words::print();
    };
    let failed = match subcommand {
        Subcommand::Ping(_) => ping::FAILED,
        Subcommand::Fping(_) => fping::FAILED,
        _ => 1,
    };
    catch_limit_of_files();
    sockstamp_host::memory::read_apart(reader::command);
    let result = match subcommand {
        Subcommand::Stat(options) => stat::run(&options),
        Subcommand::Stuck(options) => stuck::run(&options),
        Subcommand::Trace(options) => trace::run(&options),
        Subcommand::Top(options) => top::run(&options),
        Subcommand::Pcap(options) => pcap::run(&options),
        Subcommand::Explain(options) => explain::run(&options),
        Subcommand::Record(options) => record::run(&options),
        Subcommand::Report(options) => report::run(&options),
        Subcommand::Diff(options) => diff::run(&options),
        Subcommand::Join(options) => join::run(&options),
        Subcommand::Export(options) => export::run(&options),
        Subcommand::Recover(options) => recover::run(&options),
        Subcommand::Ping(options) if options.path => ping::path::run(&options),
        Subcommand::Ping(options) => ping::run(&options),
        Subcommand::Fping(options) => fping::run(&options),
        Subcommand::Doctor(options) => doctor::run(&options),
        Subcommand::Agent(options) => agent::run(&options),
        Subcommand::Notifications(options) => notifications::run(&options),
        Subcommand::Janitor(options) => janitor::run(&options),
        Subcommand::Reader => reader::run(),
    };
    result.unwrap_or_else(|error| {
        escape::fail(format_args!("{error:#}"));
        let cannot_run = error.downcast_ref::<CannotRun>();
        let interrupted = error.downcast_ref::<Interrupted>();
        let wrong_use = error.downcast_ref::<WrongUse>();
        let status = cannot_run
            .map(CannotRun::status)
            .or(interrupted.map(Interrupted::status))
            .or(wrong_use.map(|_| WrongUse::STATUS));
        ExitCode::from(status.unwrap_or(failed))
    })
}

/// Let a write beyond `ulimit -f` fail, which is told, instead of end the process without a word. A
/// command that is run does not inherit that, as it would if the signal were ignored.
fn catch_limit_of_files() {
    // Without it, the kernel's default holds.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Name the subcommand that a link to the program is named after: programs that run `ping` or
/// `fping` find it by its name.
fn called(mut arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let program = arguments.next().unwrap_or_default();
    let words: &[&str] = match Path::new(&program).file_name().and_then(OsStr::to_str) {
        Some("ping") => &["ping"],
        Some("ping4") => &["ping", "-4"],
        Some("ping6") => &["ping", "-6"],
        Some("fping") => &["fping"],
        Some("fping6") => &["fping", "-6"],
        _ => &[],
    };
    let words = words.iter().map(OsString::from);
    iter::once(program).chain(words).chain(arguments)
}

/// Parse arguments. Errors have the usage of their subcommand, also those that clap leaves to us.
fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let arguments: Vec<_> = arguments.into_iter().collect();
    // The name of an output is checked below.
    let plain = |options: &ping::Options| options.output.output.is_none();
    if let Some(options) = ping::read(&arguments).filter(plain) {
        return Ok(Cli {
            subcommand: Some(Subcommand::Ping(options)),
            explain_words: false,
        });
    }
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    let checked = destinations::check(&command, &matches);
    let read = checked.and_then(|()| Cli::from_arg_matches(&matches));
    read.map_err(|error| {
        let name = matches.subcommand_name().unwrap_or_default();
        match command.find_subcommand_mut(name) {
            Some(subcommand) => error.format(subcommand),
            None => error.format(&mut command),
        }
    })
}

/// Print why the arguments are invalid, or the help that they request.
fn refuse(error: clap::Error) -> Cli {
    let arguments: Vec<_> = called(env::args_os()).collect();
    if let Some(line) = hints::line(&error, &arguments) {
        escape::complain(format_args!("{line}"));
        std::process::exit(error.exit_code());
    }
    let text = error.render().to_string();
    // Use colours only if nothing in the text is hostile: a script may pass foreign arguments.
    if text
        .chars()
        .all(|character| shows(character) || character == '\n')
    {
        error.exit();
    }
    escape::complain_lines(&text);
    std::process::exit(error.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockstamp_print::paragraph;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_link_is_named_after_a_subcommand() {
        let words = |program: &str| {
            let arguments = [program, "::1"].map(OsString::from);
            called(arguments.into_iter()).skip(1).collect::<Vec<_>>()
        };
        assert_eq!(words("/usr/bin/ping6"), ["ping", "-6", "::1"]);
        assert_eq!(words("fping"), ["fping", "::1"]);
        assert_eq!(words("/usr/bin/sockstamp"), ["::1"]);
    }

    #[test]
    fn help_fits_a_terminal_of_80_columns() {
        let mut command = Cli::command().term_width(paragraph::WIDTH);
        command.build();
        for subcommand in command.get_subcommands_mut() {
            let help = subcommand.render_long_help().to_string();
            let widest = help.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(paragraph::WIDTH), "{help}");
        }
        let help = command.render_long_help().to_string();
        assert!(
            help.lines()
                .all(|line| line.chars().count() <= paragraph::WIDTH),
            "{help}"
        );
    }

    fn refused(words: &str) -> String {
        let arguments = words.split_whitespace().map(OsString::from);
        parse(arguments).unwrap_err().render().to_string()
    }

    #[test]
    fn a_wrong_filter_shows_the_usage_of_its_subcommand() {
        for subcommand in ["stat", "trace", "top", "record"] {
            let text = refused(&format!("sockstamp {subcommand} -o x tcp port http"));
            let text = if subcommand == "top" {
                refused("sockstamp top tcp port http")
            } else {
                text
            };
            assert!(text.starts_with("error: filter, column 10: "), "{text}");
            assert!(
                text.contains(&format!("Usage: sockstamp {subcommand} ")),
                "{text}"
            );
        }
    }
}
