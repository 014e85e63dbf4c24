//! Turn the errors of a command line into one line that ends with what to type.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};

use crate::command_line::Cli;
use crate::hints::program::is_program;
use crate::hints::table::{SUBCOMMANDS, has_word};
use crate::hints::taken::{self, is_taken};
use crate::hints::values;
use crate::options::filter::FILTER_WORDS;

/// Return what is wrong and what to type, if that is known.
pub(super) fn line(error: &Error, words: &[String]) -> Option<String> {
    let mut root = Cli::command();
    root.build();
    let usage = || Some(usage_of(error, &root, words.first()?));
    match error.kind() {
        ErrorKind::InvalidSubcommand => subcommand(error, &root, words),
        ErrorKind::UnknownArgument => unknown(error, &root, words),
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
            let written = match with_flags(error, words) {
                Some(line) if is_taken(&line) => taken::line(&line),
                _ => usage()?,
            };
            Some(format!("{missing} {are} missing: write {written}"))
        }
        ErrorKind::ValueValidation => Some(values::line(error, &first_line(error), words)),
        _ => Some(first_line(error)),
    }
}

/// Return the line with the switches that it lacks.
pub(super) fn with_flags(error: &Error, words: &[String]) -> Option<Vec<String>> {
    let ContextValue::Strings(missing) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let are_switches = missing
        .iter()
        .all(|option| option.starts_with("--") && !option.contains('<'));
    are_switches.then(|| taken::replaced(words, 1..1, missing))
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
    let rest = quoted(words);
    if let Some((_, instead)) = SUBCOMMANDS
        .iter()
        .find(|(names, _)| has_word(names, &typed))
    {
        let line = with_rest(instead, words.get(1..)?);
        return Some(format!("there is no subcommand {typed}: write {line}"));
    }
    if typed.ends_with(".parquet") {
        let line = first_taken(&["report"], words);
        return Some(format!("to read a recording: {line}"));
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
        let line = first_taken(&["stat", "--pid"], words);
        return Some(format!("for a process: {line}"));
    }
    if words.len() > 1 && is_program(&typed) {
        return Some(format!("to run a command: sockstamp stat -- {rest}"));
    }
    Some(format!(
        "there is no subcommand {typed}; for a process: sockstamp stat --comm {typed}"
    ))
}

/// Return the words behind a beginning if they are taken there, or else the first of them alone.
fn first_taken(begin: &[&str], words: &[String]) -> String {
    let begin: Vec<_> = begin.iter().map(|&word| word.to_owned()).collect();
    let line = [&begin, words].concat();
    match is_taken(&line) {
        true => taken::line(&line),
        false => taken::line(&line[..begin.len() + 1]),
    }
}

/// Return words as a shell reads them.
fn quoted(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| taken::quoted(word)).collect();
    words.join(" ")
}

/// Return the line of a subcommand's other name with what stands behind that, if it is taken then;
/// what it only names gives way.
fn with_rest(instead: &str, rest: &[String]) -> String {
    let told = || format!("sockstamp {instead}");
    if rest.is_empty() {
        return told();
    }
    let words = taken::words(instead.split(',').next().unwrap_or_default());
    let is_name = |word: &&String| word.chars().all(|c| c.is_ascii_uppercase());
    let names = words.iter().rev().take_while(is_name).count();
    let mut places = words.len() - names;
    // The name of a file to write stays.
    let is_written = places > 0 && names > 0 && ["-w", "-o"].contains(&words[places - 1].as_str());
    places += usize::from(is_written);
    let behind = match rest {
        [first, behind @ ..] if first == "--" && words[..places].ends_with(&["--".to_owned()]) => {
            behind
        }
        rest => rest,
    };
    let line = [&words[..places], behind].concat();
    match is_taken(&line) {
        true => taken::line(&line),
        false => told(),
    }
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
    Some(taken::line(&moved))
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
            .unwrap_or_else(|| format!("sockstamp stat {}", quoted(words)));
        return Some(format!("a subcommand comes first: {moved}"));
    };
    let called = command.get_name();
    if !typed.starts_with('-') {
        let usage = usage_of(error, root, first);
        return Some(format!("{typed} is one word too many: write {usage}"));
    }
    const PROBING: [&str; 2] = ["ping", "fping"];
    let probes = PROBING.contains(&called);
    let elsewhere: Vec<&str> = (root.get_subcommands())
        .filter(|other| !other.is_hide_set() && has(other, &typed))
        .map(Command::get_name)
        // Leave out doctor, which only prints what it would do, and probes where none are sent.
        .filter(|name| *name != "doctor" && (probes || !PROBING.contains(name)))
        .collect();
    let similar = similar(error, ContextKind::SuggestedArg, &typed);
    match (&elsewhere[..], similar) {
        ([], Some(similar)) => Some(format!("there is no {typed} here: write {similar}")),
        ([], None) => Some(format!(
            "there is no {typed} here: sockstamp {called} --help lists what there is"
        )),
        ([..], _) => Some(of_another(called, &typed, &elsewhere, words)),
    }
}

/// Name the subcommands that have an option; where one of them takes the whole line, that line.
fn of_another(called: &str, typed: &str, elsewhere: &[&str], words: &[String]) -> String {
    let with = |name: &&str| taken::replaced(words, 0..1, &[(*name).to_owned()]);
    if let Some(line) = elsewhere.iter().map(with).find(|line| is_taken(line)) {
        return format!("{called} has no {typed}: write {}", taken::line(&line));
    }
    let named = |name: &&str| format!("sockstamp {name} {typed}");
    let names: Vec<_> = elsewhere.iter().take(3).map(named).collect();
    let others = if elsewhere.len() > 3 {
        " and others"
    } else {
        ""
    };
    format!(
        "{called} has no {typed}: leave it out; it is for {}{others}",
        names.join(", ")
    )
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
        let (error, _) = refused(words);
        line(&error, &taken::words(words)).unwrap_or_default()
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
    fn words_that_would_be_refused_are_not_suggested() {
        assert_eq!(of("5"), "for a process: sockstamp stat --pid 5");
        assert_eq!(of("5 5"), "for a process: sockstamp stat --pid 5");
        assert_eq!(
            of("5 port 80"),
            "for a process: sockstamp stat --pid 5 port 80"
        );
        assert_eq!(
            of("a.parquet --by pid"),
            "to read a recording: sockstamp report a.parquet --by pid"
        );
        assert_eq!(
            of("a.parquet --nonsense"),
            "to read a recording: sockstamp report a.parquet"
        );
    }

    #[test]
    fn an_option_of_another_subcommand_is_found_there() {
        assert_eq!(
            of("recover --perfetto a"),
            "recover has no --perfetto: leave it out; it is for sockstamp export --perfetto"
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
