//! Options that other tools have, and what they are called here.

use std::borrow::Cow;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use super::program::is_program;
use super::table::{Instead, OPTIONS, filled, has_word};
use crate::command_line::Cli;
use crate::options::filter::FILTER_WORDS;

/// Return what to type for an option that a subcommand lacks, or for its value, in one line.
pub(crate) fn instead(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let typed = context(ContextKind::InvalidArg)?;
    let option = typed.split(['=', ' ']).next()?;
    let (word, value) = match error.kind() {
        ErrorKind::UnknownArgument => (option.to_owned(), value_of(option, arguments)),
        ErrorKind::InvalidValue => {
            let value = context(ContextKind::InvalidValue)?;
            (format!("{option}={value}"), Some(value.to_owned()))
        }
        _ => return None,
    };
    let mut root = Cli::command();
    root.build();
    let subcommand = arguments.iter().skip(1).find_map(|word| {
        let word = word.to_str()?;
        root.find_subcommand(word)
    })?;
    match is_of_command(option, arguments) {
        true => None,
        false => answer(&word, value.as_deref(), subcommand),
    }
}

/// Return true if a program stands before the option, whose it is then.
fn is_of_command(option: &str, arguments: &[OsString]) -> bool {
    let words = arguments.iter().skip(2).map(|word| word.to_string_lossy());
    let mut before = words.take_while(|word| word != "--" && !word.starts_with(option));
    before.any(|word| !FILTER_WORDS.contains(&word.as_ref()) && is_program(&word))
}

/// Return the value behind an option, in the same word or in the next one.
fn value_of(option: &str, arguments: &[OsString]) -> Option<String> {
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    let found = words.find(|word| word.split('=').next() == Some(option))?;
    if let Some((_, value)) = found.split_once('=') {
        return Some(value.to_owned());
    }
    let is_value = |word: &Cow<'_, str>| !word.starts_with('-') && !word.ends_with(".parquet");
    let next = words.next().filter(is_value);
    next.map(Cow::into_owned)
}

/// Return the answer of the first entry that fits.
fn answer(word: &str, value: Option<&str>, subcommand: &Command) -> Option<String> {
    let option = word.split('=').next().unwrap_or_default();
    let with_value = value.map_or_else(String::new, |value| format!("{option}={value}"));
    let is_of = |of: &str| of.is_empty() || has_word(of, subcommand.get_name());
    let is_typed = |words: &str| {
        [word, &with_value]
            .iter()
            .any(|typed| has_word(words, typed))
    };
    let entries = OPTIONS.iter();
    let mut entries = entries.filter(|(of, words, _)| is_of(of) && is_typed(words));
    entries.find_map(|(_, _, instead)| said(word, value, *instead, subcommand))
}

fn said(
    typed: &str,
    value: Option<&str>,
    instead: Instead,
    subcommand: &Command,
) -> Option<String> {
    let has_option = |long: &str| {
        subcommand
            .get_arguments()
            .any(|arg| arg.get_long() == Some(long))
    };
    let has_place = |name: &str| {
        let of = |place: &clap::Arg| {
            let names = place.get_value_names().unwrap_or_default();
            names
                .iter()
                .any(|value| value.split('|').any(|one| one == name))
        };
        subcommand.get_positionals().any(of)
    };
    let called = subcommand.get_name();
    let none = match typed.split_once('=') {
        Some((option, value)) if has_option(option.trim_start_matches('-')) => {
            format!("{option} has no {value}")
        }
        Some((option, _)) => format!("there is no {option} here"),
        None => format!("there is no {typed} here"),
    };
    match instead {
        Instead::Renamed(now) => Some(format!("{typed} is called {now} now")),
        Instead::Option(long, written) if has_option(long) => {
            Some(format!("{none}: write {}", filled(written, value)))
        }
        Instead::Filter(words) if has_place("FILTER") => Some(format!(
            "{none}: a filter stands without an option, as in `sockstamp {called} {}`",
            filled(words, value)
        )),
        Instead::Recording if has_place("FILE") => Some(format!(
            "{none}: a recording stands without an option, as in `sockstamp {called} FILE`"
        )),
        Instead::Nothing(always) => Some(format!("{none}: {always}")),
        Instead::Line(purpose, line) => Some(format!("{none}; {purpose}: sockstamp {line}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::refused;
    use crate::hints::table::SUBCOMMANDS;

    fn of(words: &str) -> Option<String> {
        let (error, arguments) = refused(words);
        instead(&error, &arguments)
    }

    #[test]
    fn an_option_that_was_renamed_is_refused_by_its_new_name() {
        for (words, now) in [
            ("trace --slower-than 5ms", "--slow"),
            ("record --slower-than=5ms -o x", "--slow"),
            ("export --slower-than 5ms", "--slow"),
            ("explain --worse-than p90", "--slow"),
            ("stat --rate-cap 10", "--sample N/s"),
            ("top --no-color", "--color never"),
            ("top --entry=off", "--expert entry=HOOK"),
            ("doctor --windows 1/4", "--expert windows=1/N"),
            ("trace --no-sched", "--expert sched=off"),
            ("record --in-step 2^16 -o x", "--sample 2^K"),
        ] {
            let line = of(words).unwrap();
            assert!(line.ends_with(&format!("is called {now} now")), "{line}");
        }
    }

    #[test]
    fn an_option_of_another_tool_has_its_name_here() {
        for (words, end) in [
            ("stat --json", "write --format json"),
            ("stat --port 8080", "`sockstamp stat port 8080`"),
            ("trace --port=80", "`sockstamp trace port 80`"),
            ("stuck -n", "never turned into names"),
            ("stat --group-by pid", "write --by DIMENSION"),
            ("report -r a.parquet", "`sockstamp report FILE`"),
            ("stat -r 5", "write --repeat 5, or sockstamp report FILE"),
            ("stat -I 1000", "--interval 1000, with its unit: ms or s"),
            ("top -d 2", "write --interval 2"),
            ("report -i a.parquet", "`sockstamp report FILE`"),
            ("stat -e cycles", "all stages are measured"),
            ("record -w a.parquet", "write -o FILE"),
            ("pcap a.parquet -o a.pcapng", "write -w FILE"),
            ("record -g -o a", "in place of a call graph"),
            ("stuck -tnp", "`sockstamp stuck tcp`"),
            (
                "top -u root",
                "--pid $(pgrep -d, -u root); for datagrams, udp is a filter",
            ),
            ("stat --csv", "write --format csv"),
            ("report --since 12:00 a", "write --from 12:00"),
            ("explain --time 12:00 -r a", "--from TIME --to TIME"),
            ("trace --limit 10", "write --count 10"),
            ("trace -n", "never turned into names"),
            ("top -b", "write --once"),
            ("ping --mtr ::1", "write --path, which ends with a report"),
            ("diff --exit-code a b", "write --fail-if CONDITION"),
            ("stat --docker web", "write --container web"),
            ("stat --not port 22", "`sockstamp stat not port 22`"),
        ] {
            let line = of(words).unwrap_or_default();
            assert!(line.ends_with(end), "{words}: {line}");
        }
    }

    /// What a subcommand does not have is not suggested.
    #[test]
    fn nothing_is_suggested_that_is_refused_too() {
        for words in ["ping --group-by pid ::1", "ping --dport 80 ::1", "top -r a"] {
            assert_eq!(of(words), None, "{words}");
        }
    }

    /// Return true if clap refuses the word of an entry.
    fn refuses(subcommand: &Command, word: &str) -> bool {
        let name = word.trim_start_matches('-');
        let is_one = |arg: &clap::Arg| match word.starts_with("--") {
            true => arg.get_long() == Some(name),
            false => arg.get_short().map(String::from).as_deref() == Some(name),
        };
        !subcommand.get_arguments().any(is_one)
    }

    #[test]
    fn each_word_of_the_table_is_answered_where_it_is_refused() {
        let mut root = Cli::command();
        root.build();
        for (_, words, instead) in OPTIONS {
            for word in words.split(' ') {
                let is_answered = |subcommand: &Command| {
                    let own = said(word, None, *instead, subcommand);
                    own.is_some() && answer(word, None, subcommand) == own
                };
                let mut refusing = root.get_subcommands().filter(|one| refuses(one, word));
                assert!(refusing.any(is_answered), "{word}: {instead:?}");
            }
        }
    }

    #[test]
    fn each_line_of_the_table_begins_with_a_subcommand() {
        let mut root = Cli::command();
        root.build();
        let lines = OPTIONS.iter().filter_map(|(.., instead)| match instead {
            Instead::Line(_, line) => Some(line),
            _ => None,
        });
        for line in lines.chain(SUBCOMMANDS.iter().map(|(_, line)| line)) {
            let first = line.split([' ', ',']).next().unwrap_or_default();
            let is_known = root.find_subcommand(first).is_some() || first.starts_with("--");
            assert!(is_known, "{line}");
        }
        for name in SUBCOMMANDS.iter().flat_map(|(names, _)| names.split(' ')) {
            assert!(root.find_subcommand(name).is_none(), "{name}");
        }
    }
}
