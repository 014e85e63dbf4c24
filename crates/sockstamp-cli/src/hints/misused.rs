//! Turn the errors of a command line into one line that ends with what to type.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};

use crate::command_line::Cli;
use crate::hints::program::is_program;
use crate::hints::table::{SUBCOMMANDS, has_word};
use crate::options::filter::FILTER_WORDS;

/// Return what is wrong and what to type, if that is known.
pub(crate) fn line(error: &Error, arguments: &[OsString]) -> Option<String> {
    let words: Vec<String> = arguments
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut root = Cli::command();
    root.build();
    let usage = || Some(usage_of(error, &root, words.first()?));
    match error.kind() {
        ErrorKind::InvalidSubcommand => subcommand(error, &root, &words),
        ErrorKind::UnknownArgument => unknown(error, &root, &words),
        ErrorKind::InvalidValue => value(error),
        // Errors of our own have no context.
        ErrorKind::ArgumentConflict => conflict(error).or_else(|| Some(first_line(error))),
        ErrorKind::MissingRequiredArgument => {
            let missing = of_context(error, ContextKind::InvalidArg)?;
            let are = if missing.contains(" and ") {
                "are"
            } else {
                "is"
            };
            Some(format!("{missing} {are} missing: write {}", usage()?))
        }
        // The words of an integer's parser.
        _ => Some(first_line(error).replace("invalid digit found in string", "it is a number")),
    }
}

/// Return the value of a context of an error as words.
fn of_context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) if !texts.is_empty() => Some(texts.join(" and ")),
        _ => None,
    }
}

/// Return clap's first line, which has no newline in values that we pass.
fn first_line(error: &Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

/// Return the first line of the usage that clap prints.
fn usage_of(error: &Error, root: &Command, name: &str) -> String {
    let told = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => root
            .find_subcommand(name)
            .map(|command| command.clone().render_usage().to_string())
            .unwrap_or_default(),
    };
    let line = told.lines().next().unwrap_or_default();
    line.trim_start_matches("Usage: ").to_owned()
}

/// Name what stands in the place of a subcommand.
fn subcommand(error: &Error, root: &Command, words: &[String]) -> Option<String> {
    let typed = of_context(error, ContextKind::InvalidSubcommand)?;
    let rest = words.join(" ");
    if let Some((_, instead)) = SUBCOMMANDS
        .iter()
        .find(|(names, _)| has_word(names, &typed))
    {
        return Some(format!(
            "there is no subcommand {typed}: write sockstamp {instead}"
        ));
    }
    if typed.ends_with(".parquet") {
        return Some(format!("to read a recording: sockstamp report {rest}"));
    }
    if FILTER_WORDS.contains(&typed.as_str()) {
        return Some(format!("a subcommand comes first: sockstamp stat {rest}"));
    }
    if let Some(moved) = begun_by_its_subcommand(root, words) {
        return Some(format!("a subcommand comes first: {moved}"));
    }
    if let Some(similar) = similar(error, ContextKind::SuggestedSubcommand, &typed) {
        return Some(format!(
            "there is no subcommand {typed}: write sockstamp {similar}"
        ));
    }
    if typed.parse::<u32>().is_ok() {
        return Some(format!("for a process: sockstamp stat --pid {rest}"));
    }
    if words.len() > 1 && is_program(&typed) {
        return Some(format!("to run a command: sockstamp stat -- {rest}"));
    }
    Some(format!(
        "there is no subcommand {typed}; for a process: sockstamp stat --comm {typed}"
    ))
}

/// Return the words with the first subcommand among them in front.
fn begun_by_its_subcommand(root: &Command, words: &[String]) -> Option<String> {
    let place = words
        .iter()
        .position(|word| root.find_subcommand(word).is_some())?;
    let (before, from) = words.split_at(place);
    let [name, behind @ ..] = from else {
        return None;
    };
    let moved = [std::slice::from_ref(name), before, behind].concat();
    Some(format!("sockstamp {}", moved.join(" ")))
}

/// Return the most similar word that clap knows, which it names last, if the typed one may be a
/// slip of the finger or a part of it.
fn similar(error: &Error, kind: ContextKind, typed: &str) -> Option<String> {
    let known = match error.get(kind)? {
        ContextValue::String(text) => text,
        ContextValue::Strings(texts) => texts.last()?,
        _ => return None,
    };
    let [bare, typed] = [known, typed].map(|word| word.trim_start_matches('-'));
    is_slip(typed, bare).then(|| known.clone())
}

/// Return true for a beginning of the word, the word and more, and one wrong letter in four.
fn is_slip(typed: &str, known: &str) -> bool {
    let shorter = typed.len().min(known.len());
    let is_part = shorter >= 3 && (known.starts_with(typed) || typed.starts_with(known));
    is_part || strsim::osa_distance(typed, known) * 4 <= shorter
}

fn unknown(error: &Error, root: &Command, words: &[String]) -> Option<String> {
    let typed = of_context(error, ContextKind::InvalidArg)?;
    let first = words.first()?;
    let Some(command) = root.find_subcommand(first) else {
        let moved = begun_by_its_subcommand(root, words)
            .unwrap_or_else(|| format!("sockstamp stat {}", words.join(" ")));
        return Some(format!("a subcommand comes first: {moved}"));
    };
    let called = command.get_name();
    if !typed.starts_with('-') {
        let usage = usage_of(error, root, first);
        return Some(format!("{typed} is one word too many: write {usage}"));
    }
    let elsewhere: Vec<_> = root
        .get_subcommands()
        .filter(|other| !other.is_hide_set() && has(other, &typed))
        .map(|other| format!("sockstamp {} {typed}", other.get_name()))
        .collect();
    let similar = similar(error, ContextKind::SuggestedArg, &typed);
    match (&elsewhere[..], similar) {
        ([], Some(similar)) => Some(format!("there is no {typed} here: write {similar}")),
        ([], None) => Some(format!(
            "there is no {typed} here: sockstamp {called} --help lists what there is"
        )),
        ([..], _) if elsewhere.len() <= 3 => Some(format!(
            "{called} has no {typed}: it is for {}",
            elsewhere.join(", ")
        )),
        _ => Some(format!(
            "{called} has no {typed}: it is for {} and others",
            elsewhere[..3].join(", ")
        )),
    }
}

/// Return true if a subcommand has an option of this name.
fn has(command: &Command, typed: &str) -> bool {
    let long = typed.strip_prefix("--");
    long.is_some_and(|long| {
        command
            .get_arguments()
            .any(|arg| arg.get_long() == Some(long))
    })
}

fn value(error: &Error) -> Option<String> {
    let option = of_context(error, ContextKind::InvalidArg)?;
    let typed = of_context(error, ContextKind::InvalidValue).unwrap_or_default();
    if typed.is_empty() {
        return Some(format!("a value is missing: write {option}"));
    }
    let name = option.split([' ', '=']).next()?;
    let written = match similar(error, ContextKind::SuggestedValue, &typed) {
        Some(similar) => format!("{name} {similar}"),
        None => match error.get(ContextKind::ValidValue)? {
            ContextValue::Strings(values) => format!("one of {}", values.join(", ")),
            _ => return None,
        },
    };
    Some(format!(
        "invalid value '{typed}' for '{option}': write {written}"
    ))
}

fn conflict(error: &Error) -> Option<String> {
    let option = of_context(error, ContextKind::InvalidArg)?;
    let others = of_context(error, ContextKind::PriorArg)?;
    match others == option {
        true => Some(format!("{option} is given twice: write it once")),
        false => Some(format!(
            "{option} cannot be used with {others}: write one of them"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::refused;

    fn of(words: &str) -> String {
        let (error, arguments) = refused(words);
        line(&error, &arguments).unwrap_or_default()
    }

    #[test]
    fn what_stands_before_a_subcommand_moves_behind_it() {
        assert_eq!(
            of("--duration 5s stat port 80"),
            "a subcommand comes first: sockstamp stat --duration 5s port 80"
        );
        assert_eq!(
            of("port 80"),
            "a subcommand comes first: sockstamp stat port 80"
        );
    }

    #[test]
    fn an_option_of_another_subcommand_is_found_there() {
        assert_eq!(
            of("recover --perfetto a"),
            "recover has no --perfetto: it is for sockstamp export --perfetto"
        );
    }

    /// Clap takes away the values of fields before the one that asks for them.
    #[test]
    fn windows_of_experts_know_the_ceiling() {
        assert_eq!(
            of("stat --max-cost 1% --expert windows=1/10"),
            "--expert windows cannot be used with --max-cost: write one"
        );
    }

    #[test]
    fn one_wrong_letter_in_four_is_a_slip() {
        for (typed, known) in [
            ("stats", "stat"),
            ("traec", "trace"),
            ("durtion", "duration"),
            ("dur", "duration"),
            ("pidd", "pid"),
        ] {
            assert!(is_slip(typed, known), "{typed}");
        }
        for (typed, known) in [
            ("pod", "pid"),
            ("cat", "pcap"),
            ("ns", "nic-stamps"),
            ("filter", "interval"),
            ("latency", "agent"),
        ] {
            assert!(!is_slip(typed, known), "{typed}");
        }
    }
}
