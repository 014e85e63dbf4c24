//! Suggest the intended command for common mistakes in a command line.

mod filter;
mod misused;
mod program;
mod spelled;

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory};

use crate::command_line::Cli;
use crate::options::filter::FILTER_WORDS;
use program::is_program;

/// Subcommands that take a filter expression and, except `top` and `stuck`, a command.
const MEASURING: [&str; 8] = [
    "stat", "stuck", "trace", "top", "record", "pcap", "explain", "doctor",
];
/// Subcommands that read recordings instead.
const READING: [&str; 4] = ["stuck", "trace", "pcap", "explain"];
/// Units of a time, which belong to its number.
const UNITS: [&str; 7] = ["us", "µs", "ms", "s", "sec", "m", "h"];

/// Return what is wrong with these arguments and what to type, in one line, if that is known.
pub(crate) fn line(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    // Programs that run fping know its errors.
    let is_fping = arguments.get(1).is_some_and(|word| word == "fping");
    if !error.use_stderr() || arguments.len() < 2 || is_fping {
        return None;
    }
    of_sleep(error, arguments)
        .or_else(|| of_shell(arguments))
        .or_else(|| spelled::instead(error, arguments))
        .or_else(|| of_filter(error, arguments))
        .or_else(|| of_words(arguments))
        .or_else(|| misused::line(error, arguments))
}

/// Return what to type for a command that only waits, as perf-stat(1) needs one beside `-p`.
fn of_sleep(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let [_, before @ .., sleep, time] = &words[..] else {
        return None;
    };
    let is_target = |word: &str| {
        let options = [
            "-p",
            "--pid",
            "--comm",
            "--cgroup",
            "--container",
            "--netns",
        ];
        options.contains(&word.split('=').next().unwrap_or_default())
    };
    let waits = sleep == "sleep" && before.iter().any(|word| is_target(word));
    if !waits || error.kind() == ErrorKind::DisplayHelp {
        return None;
    }
    let before: Vec<_> = before
        .iter()
        .filter(|word| *word != "--")
        .cloned()
        .collect();
    Some(format!(
        "to measure for a time: sockstamp {} --duration {time}",
        before.join(" ")
    ))
}

/// Return what to type for the completions of a shell: the subcommand of that name serves sockets.
fn of_shell(arguments: &[OsString]) -> Option<String> {
    let shell = arguments.get(2)?.to_str()?;
    let is_shell = ["bash", "zsh", "fish", "elvish", "powershell"].contains(&shell);
    (arguments[1] == "completions" && is_shell)
        .then(|| format!("for the completions of a shell: source <(COMPLETE={shell} sockstamp)"))
}

/// Return what to type for a filter: clap does not know what it is, so its error has no context.
fn of_filter(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let told = error.render().to_string();
    let told = told.strip_prefix("error: ")?;
    if error.kind() != ErrorKind::ValueValidation || !told.starts_with("filter, column ") {
        return None;
    }
    let subcommand = arguments.get(1)?.to_str()?;
    let instead = filter::instead(told, &format!("sockstamp {subcommand}"));
    if instead.is_none() && subcommand == "diff" && told.starts_with("filter, column 1:") {
        return Some(
            "two recordings are compared, or several by: \
             write sockstamp diff --before BEFORE... --after AFTER..."
                .to_owned(),
        );
    }
    let instead = instead?;
    let (place, _) = told.split_once(": ")?;
    Some(format!("{place}: {instead}"))
}

fn of_words(arguments: &[OsString]) -> Option<String> {
    let arguments: Vec<String> = arguments
        .iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    hint(&arguments, is_program, |word| Path::new(word).exists())
}

/// Return a hint if the first word after the subcommand and its options begins no filter. The name
/// of a program with arguments is a command, a name alone is a process.
fn hint(
    arguments: &[String],
    is_program: impl Fn(&str) -> bool,
    is_file: impl Fn(&str) -> bool,
) -> Option<String> {
    let [subcommand, behind @ ..] = arguments else {
        return None;
    };
    if behind.first().is_some_and(|word| word == "--explain-words") {
        return Some(
            "the words of all output are explained by: sockstamp --explain-words".to_owned(),
        );
    }
    if !MEASURING.contains(&subcommand.as_str()) || behind.iter().any(|argument| argument == "--") {
        return None;
    }
    let (options, words) = behind.split_at(first_word(subcommand, behind)?);
    let [word, rest @ ..] = words else {
        return None;
    };
    let begin = [&["sockstamp".to_owned(), subcommand.clone()], options]
        .concat()
        .join(" ");
    if let [.., before] = options
        && UNITS.contains(&word.as_str())
        && before.parse::<f64>().is_ok()
    {
        return Some(format!("a time is one word: {begin}{word}"));
    }
    if subcommand == "record" && word.ends_with(".parquet") {
        return Some(format!("to write to it: {begin} -o {word}"));
    }
    if word.ends_with(".parquet") || is_file(word) && READING.contains(&subcommand.as_str()) {
        return Some(match READING.contains(&subcommand.as_str()) {
            true => format!("to read recordings: {begin} -r {}", words.join(" ")),
            false => format!("to read a recording: sockstamp report {word}"),
        });
    }
    let is_name = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    if !is_name || FILTER_WORDS.contains(&word.as_str()) {
        return None;
    }
    let runs_commands = !["top", "stuck"].contains(&subcommand.as_str());
    if !rest.is_empty() && runs_commands && is_program(word) {
        return Some(format!("to run a command: {begin} -- {}", words.join(" ")));
    }
    if word.parse::<u32>().is_ok() {
        return Some(format!(
            "for a port: {begin} port {word}; for a process: {begin} --pid {word}"
        ));
    }
    Some(format!(
        "is a filter word missing (host, net, port)? For a process: {begin} --comm {word}"
    ))
}

/// Return the index of the first argument that is neither an option nor the value of one, if all
/// options before it are known.
fn first_word(subcommand: &str, arguments: &[String]) -> Option<usize> {
    let mut command = Cli::command();
    command.build();
    let command = command.find_subcommand(subcommand)?;
    let mut index = 0;
    while let Some(argument) = arguments
        .get(index)
        .filter(|argument| argument.starts_with('-'))
    {
        index += 1 + usize::from(has_value_behind(command, argument)?);
    }
    (index < arguments.len()).then_some(index)
}

/// Return true if the argument after this option is its value; `None` for an unknown option.
fn has_value_behind(command: &Command, option: &str) -> Option<bool> {
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

/// The arguments of a command line that is wrong, and its error.
#[cfg(test)]
fn refused(words: &str) -> (clap::Error, Vec<OsString>) {
    let words = words.split(' ').map(OsString::from);
    let arguments: Vec<_> = [OsString::from("sockstamp")]
        .into_iter()
        .chain(words)
        .collect();
    let error = crate::parse(arguments.clone()).unwrap_err();
    (error, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Option<String> {
        let arguments: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        hint(
            &arguments,
            |name| name == "curl",
            |name| name == "a.parquet",
        )
    }

    #[test]
    fn a_program_with_arguments_is_a_command() {
        assert_eq!(
            of("stat curl -s http://a/").as_deref(),
            Some("to run a command: sockstamp stat -- curl -s http://a/")
        );
        assert!(of("top curl -s").unwrap().contains("--comm curl"));
    }

    #[test]
    fn a_name_alone_is_a_process() {
        assert_eq!(
            of("stat nginx").as_deref(),
            Some(
                "is a filter word missing (host, net, port)? For a process: sockstamp stat --comm nginx"
            )
        );
        assert!(
            of("explain nginx")
                .unwrap()
                .ends_with("sockstamp explain --comm nginx")
        );
    }

    #[test]
    fn a_number_a_unit_and_a_file_are_what_they_look_like() {
        for (words, hint) in [
            (
                "stat 80",
                "for a port: sockstamp stat port 80; for a process: sockstamp stat --pid 80",
            ),
            (
                "stat --duration 10 s",
                "a time is one word: sockstamp stat --duration 10s",
            ),
            (
                "explain a.parquet --slow p90",
                "to read recordings: sockstamp explain -r a.parquet --slow p90",
            ),
            (
                "record out.parquet",
                "to write to it: sockstamp record -o out.parquet",
            ),
        ] {
            assert_eq!(of(words).as_deref(), Some(hint));
        }
    }

    #[test]
    fn options_before_the_word_are_kept() {
        for (words, hint) in [
            (
                "stat --duration 2s nginx",
                "sockstamp stat --duration 2s --comm nginx",
            ),
            (
                "stat --duration=2s nginx",
                "sockstamp stat --duration=2s --comm nginx",
            ),
            ("stat --every nginx", "sockstamp stat --every --comm nginx"),
            (
                "trace -o lines nginx",
                "sockstamp trace -o lines --comm nginx",
            ),
            (
                "trace -olines nginx",
                "sockstamp trace -olines --comm nginx",
            ),
            (
                "pcap -w a.pcapng nginx",
                "sockstamp pcap -w a.pcapng --comm nginx",
            ),
            ("stat --every curl -s", "sockstamp stat --every -- curl -s"),
        ] {
            let found = of(words).unwrap_or_default();
            assert!(found.ends_with(hint), "{words}: {found}");
        }
    }

    #[test]
    fn words_are_explained_for_all_subcommands_at_once() {
        assert!(
            of("top --explain-words")
                .unwrap()
                .ends_with("sockstamp --explain-words")
        );
    }

    #[test]
    fn other_mistakes_have_no_hint() {
        for words in [
            "",
            "stat",
            "stat port",
            "stat port x",
            "stat --duration 2x",
            "stat --duration nginx",
            "stat --duration 2s port x",
            "stat --nonsense",
            "stat --nonsense nginx",
            "ping nginx",
            "stat nginx -- true",
            "explain -r a.parquet --duration 1s",
        ] {
            assert_eq!(of(words), None, "{words}");
        }
    }
}
