//! Turn the errors of a command line into one line that ends with what to type.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};

use crate::command_line::Cli;
use crate::hints::taken::{self, is_taken};
use crate::hints::values;
use crate::options::filter::FILTER_WORDS;

/// Options that lack a value whose name is none, and one to type.
const EXAMPLES: [(&str, &str); 2] = [
    ("--by DIMENSION", "--by comm"),
    ("--write FILE|-", "--write OUT"),
];

/// Return what is wrong and what to type, if that is known.
pub(super) fn line(error: &Error, words: &[String]) -> Option<String> {
    let mut root = Cli::command();
    root.build();
    let usage = || Some(usage_of(error, &root, words.first()?));
    match error.kind() {
        ErrorKind::UnknownArgument => unknown(error, &root, words),
        ErrorKind::InvalidValue => value(error),
        // Errors of our own have no context.
        ErrorKind::ArgumentConflict => filter_behind_recordings(words)
            .or_else(|| conflict(error))
            .or_else(|| Some(first_line(error))),
        ErrorKind::MissingRequiredArgument => {
            let missing = of_context(error, ContextKind::InvalidArg)?;
            let are = if missing.contains(" and ") {
                "are"
            } else {
                "is"
            };
            let lines = [words.to_vec(), without_duration(words)];
            let mut lines = lines.iter().filter_map(|line| with_missing(error, line));
            let written = match lines.find(|line| is_taken(line)) {
                Some(line) => taken::line(&line),
                None => usage()?,
            };
            Some(format!("{missing} {are} missing: write {written}"))
        }
        ErrorKind::ValueValidation => Some(values::line(error, &first_line(error), words)),
        _ => Some(first_line(error)),
    }
}

/// Return the line without the time of a measurement: what is read has its own.
fn without_duration(words: &[String]) -> Vec<String> {
    let place = words
        .iter()
        .position(|word| ["-d", "--duration"].contains(&word.as_str()));
    match place {
        Some(place) if place + 2 <= words.len() => taken::replaced(words, place..place + 2, &[]),
        _ => words.to_vec(),
    }
}

/// Return the line with what it lacks, by the names of values: options behind the subcommand, files
/// and hosts at the end.
pub(super) fn with_missing(error: &Error, words: &[String]) -> Option<Vec<String>> {
    let ContextValue::Strings(missing) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let named = |text: &String| {
        let name = text.replace(['<', '>'], "").replace("...", "");
        let mut examples = EXAMPLES.iter();
        let example = examples.find(|(it, _)| *it == name);
        example.map_or(name, |(_, example)| (*example).to_owned())
    };
    let (options, places): (Vec<_>, Vec<_>) = missing
        .iter()
        .map(named)
        .partition(|text| text.starts_with("--"));
    let mut line = taken::replaced(words, 1..1, &taken::words(&options.join(" ")));
    for place in places {
        let end = taken::end(&line);
        line.insert(end, place);
    }
    Some(line)
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
pub(super) fn first_line(error: &Error) -> String {
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

/// Return the most similar word that clap knows, which it names last, if the typed one may be a
/// slip of the finger or a part of it.
pub(super) fn similar(error: &Error, kind: ContextKind, typed: &str) -> Option<String> {
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
    let command = root.find_subcommand(first)?;
    let called = command.get_name();
    if !typed.starts_with('-') {
        let usage = usage_of(error, root, first);
        return Some(format!("{typed} is one word too many: write {usage}"));
    }
    if typed[1..].parse::<f64>().is_ok() {
        let told = format!("{typed} is read as an option: no number below zero is taken here");
        return Some(format!("{told}: write {}", &typed[1..]));
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
        ([], Some(similar)) => Some(format!(
            "there is no {typed} here: write {}",
            with_value(&typed, &similar, words)
        )),
        ([], None) => Some(format!(
            "there is no {typed} here: sockstamp {called} --help lists what there is"
        )),
        ([..], _) => Some(of_another(called, &typed, &elsewhere, words)),
    }
}

/// Return the name of an option with the value that was typed, if the line is taken with it.
fn with_value(typed: &str, name: &str, words: &[String]) -> String {
    let is_it = |word: &String| word.split('=').next() == Some(typed);
    let place = words.iter().position(is_it);
    let written = place.and_then(|place| {
        let word = words[place].replacen(typed, name, 1);
        let line = taken::replaced(words, place..place + 1, std::slice::from_ref(&word));
        let value = line.get(place + 1).filter(|value| {
            !word.contains('=')
                && !is_taken(&taken::replaced(&line, place + 1..place + 2, &[]))
                && !value.starts_with('-')
        });
        let value = value.map_or_else(String::new, |value| format!(" {}", taken::quoted(value)));
        is_taken(&line).then(|| format!("{}{value}", taken::quoted(&word)))
    });
    written.unwrap_or_else(|| name.to_owned())
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

/// Return what to type for a filter that an option divides from the last list of recordings, whose
/// end it is: elsewhere its words are recordings.
fn filter_behind_recordings(words: &[String]) -> Option<String> {
    let list = words
        .iter()
        .position(|word| ["--after", "--second"].contains(&word.as_str()))?;
    let filter = words
        .iter()
        .position(|word| FILTER_WORDS.contains(&word.as_str()))
        .filter(|filter| *filter > list)?;
    let behind = words[list + 1..filter].iter();
    let files = behind.take_while(|word| !word.starts_with('-')).count();
    let place = list + 1 + files;
    let without = &words[..filter];
    let moved = taken::replaced(without, place..place, &words[filter..]);
    is_taken(&moved).then(|| {
        format!(
            "a filter stands behind the last recording: {}",
            taken::line(&moved)
        )
    })
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
    fn an_option_of_another_subcommand_is_found_there() {
        assert_eq!(
            of("recover --perfetto a"),
            "recover has no --perfetto: leave it out; it is for sockstamp export --perfetto"
        );
    }

    #[test]
    fn a_filter_of_several_recordings_stands_behind_the_last() {
        for (words, written) in [
            (
                "diff --before a --after b --comm x tcp port 80",
                "diff --before a --after b tcp port 80 --comm x",
            ),
            (
                "join --first a --second b --pid 1 tcp",
                "join --first a --second b tcp --pid 1",
            ),
        ] {
            let told = format!("a filter stands behind the last recording: sockstamp {written}");
            assert_eq!(of(words), told);
        }
    }

    #[test]
    fn what_is_missing_has_a_value_that_is_taken() {
        for (words, end) in [
            (
                "stat -d 1 --sort total",
                "write sockstamp stat --by comm -d 1 --sort total",
            ),
            ("pcap -c 2", "write sockstamp pcap --write OUT -c 2"),
            (
                "explain -d 1 --from -5m",
                "write sockstamp explain --read FILE --from -5m",
            ),
        ] {
            let told = of(words);
            assert!(told.ends_with(end), "{words}: {told}");
        }
        let told = of("export -o a.parquet a.parquet");
        assert!(!told.contains("-o a.parquet"), "{told}");
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
