//! Options that other tools have, and what they are called here.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use sockstamp_model::Filter;
use sockstamp_run::duration::duration;

use super::files::CAPTURES;
use super::misused;
use super::program::is_program;
use super::table::{Instead, filled, has_word, options};
use super::taken::{
    self, end, has_value_behind, is_taken, line as line_of, quoted, read, replaced,
};
use super::values::Value;
use crate::command_line::Cli;
use crate::options::filter::FILTER_WORDS;
use crate::options::wrong_filter;

/// Steps that lead from a wrong line to one that is taken.
const MOST_STEPS: usize = 6;

/// An option that a subcommand lacks, or whose value it lacks.
struct Wrong {
    /// The option, with its value where only that is wrong.
    word: String,
    option: String,
    value: Option<String>,
}

impl Wrong {
    fn of(error: &clap::Error, words: &[String]) -> Option<Self> {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let typed = context(ContextKind::InvalidArg)?;
        let option = typed.split(['=', ' ']).next()?.to_owned();
        match error.kind() {
            ErrorKind::UnknownArgument if option.starts_with('-') => {
                let option = cluster(&option, words).unwrap_or(option);
                Some(Self {
                    word: option.clone(),
                    value: value_of(&option, words),
                    option,
                })
            }
            ErrorKind::InvalidValue => {
                let value = context(ContextKind::InvalidValue)?;
                Some(Self {
                    word: format!("{option}={value}"),
                    option,
                    value: Some(value.to_owned()),
                })
            }
            _ => None,
        }
    }

    /// Return the list behind the option that has the wrong value among others.
    fn list<'a>(&self, words: &'a [String]) -> Option<&'a String> {
        let (place, _) = self.place(words)?;
        let value = self.value.as_ref()?;
        let list = words.get(place + 1)?;
        let has_it = list.split(',').any(|item| item == value);
        (has_it && list != value && self.word.contains('=')).then_some(list)
    }

    /// Return the place of the option, and the number of words up to the end of its value.
    fn place(&self, words: &[String]) -> Option<(usize, usize)> {
        let before_end = &words[..end(words)];
        let is_it = |word: &String| word.split('=').next() == Some(&self.option);
        let place = before_end.iter().position(is_it)?;
        let is_next = self.value.is_some() && words.get(place + 1) == self.value.as_ref();
        Some((place, 1 + usize::from(is_next)))
    }
}

/// Return several letters in one word that the table has as one, as those of ss(8).
fn cluster(option: &str, words: &[String]) -> Option<String> {
    let letters = words[..end(words)]
        .iter()
        .find(|word| word.starts_with(option) && !option.starts_with("--") && *word != option)?;
    options()
        .any(|(_, known, _)| has_word(known, letters))
        .then(|| letters.clone())
}

/// Return what to type for an option that a subcommand lacks, or for its value, in one line.
pub(crate) fn instead(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let words: Vec<String> = (arguments.iter().skip(1))
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let wrong = Wrong::of(error, &words)?;
    let mut root = Cli::command();
    root.build();
    let subcommand = words.iter().find_map(|word| root.find_subcommand(word))?;
    if is_of_command(&wrong.option, &words) {
        return None;
    }
    let (entry, told) = answer(&wrong.word, wrong.value.as_deref(), subcommand)?;
    Some(checked(&wrong, entry, told, &words))
}

/// Return the answer if the line that it leads to is taken; else what the nearest option lacks.
fn checked(wrong: &Wrong, entry: Instead, told: String, words: &[String]) -> String {
    let candidates = candidates(wrong, entry, words);
    // An answer begins with what is wrong.
    let none = told.split([':', ';']).next().unwrap_or_default();
    match (entry, candidates.iter().find(|line| is_taken(line))) {
        (Instead::Filter(_), Some(line)) => {
            return format!(
                "{none}: a filter stands without an option, as in `{}`",
                line_of(line)
            );
        }
        (Instead::Recording, Some(line)) => {
            return format!(
                "{none}: a recording stands without an option, as in `{}`",
                line_of(line)
            );
        }
        (Instead::Option(_, written), Some(line)) => {
            let is_there = |word: &str| word.starts_with("--") && words.iter().any(|it| it == word);
            if is_there(written) {
                return format!("{none}: leave it out, {written} is there");
            }
            return match written.split_whitespace().any(is_there) {
                true => format!("{none}: write {}", line_of(line)),
                false => with_files(&told, words),
            };
        }
        (Instead::Nothing(_), _) => return told,
        (Instead::Renamed(now), Some(_)) => {
            let value = wrong.value.as_ref().filter(|_| !now.contains(' '));
            return match value {
                Some(value) => format!("{told}: write {now} {}", quoted(value)),
                None => told,
            };
        }
        _ => {}
    }
    let refused = candidates.first().and_then(|line| refused_alone(line));
    if let Some(line) = candidates.into_iter().find_map(mended) {
        return format!("{none}: write {}", line_of(&line));
    }
    match entry {
        Instead::Filter(text) if text.starts_with('{') => without_filter(wrong, words, none),
        Instead::Line(purpose, line) => {
            let value = wrong.value.as_deref().map(quoted);
            let line = filled(line, value.as_deref());
            format!("{none}; {purpose}: sockstamp {}", with_files(&line, words))
        }
        _ => match refused {
            Some(why) => format!("{none}; {why}"),
            None => with_files(&told, words),
        },
    }
}

/// Return why a line is refused that has no wrong word but a value that means something else.
fn refused_alone(words: &[String]) -> Option<String> {
    let error = read(words).err()?;
    let is_own =
        error.kind() == ErrorKind::ArgumentConflict && error.get(ContextKind::InvalidArg).is_none();
    is_own.then(|| misused::first_line(&error))
}

/// Return what to type for the long name of an option behind one hyphen, as flags of Go are typed.
pub(super) fn of_one_hyphen(words: &[String]) -> Option<String> {
    let place = one_hyphen(words)?;
    let line = with_two_hyphens(words, place);
    let option = words[place].split('=').next()?;
    let written = match mended(line.clone()) {
        Some(line) => line_of(&line),
        None => line[place].clone(),
    };
    Some(format!("{option} has two hyphens: write {written}"))
}

fn with_two_hyphens(words: &[String], place: usize) -> Vec<String> {
    replaced(words, place..place + 1, &[format!("-{}", words[place])])
}

/// Return the place of a word with one hyphen that is a long name of the subcommand with two.
fn one_hyphen(words: &[String]) -> Option<usize> {
    let mut root = Cli::command();
    root.build();
    let subcommand = root.find_subcommand(words.first()?)?;
    let is_long = |word: &String| {
        let name = word.strip_prefix('-').filter(|name| name.len() > 1);
        let name = name.and_then(|name| name.split('=').next());
        name.is_some_and(|name| {
            subcommand
                .get_arguments()
                .any(|arg| arg.get_long() == Some(name))
        })
    };
    words[..end(words)].iter().position(is_long)
}

/// Return what to type where no filter stands behind the option of one, as strace(1)'s -f.
fn without_filter(wrong: &Wrong, words: &[String], none: &str) -> String {
    let as_option = format!(
        "{none}: a filter stands without an option, as in `sockstamp {} tcp port 80`",
        words[0]
    );
    let Some((place, _)) = wrong.place(words) else {
        return as_option;
    };
    if let Some(filter) = wrong.value.as_deref().filter(|value| value.contains(' ')) {
        let told = filter
            .parse::<Filter>()
            .err()
            .map(|error| error.to_string());
        if let Some(line) = told.and_then(|told| wrong_filter::line(&told, &words[0])) {
            return format!("{none}; {line}");
        }
    }
    let command = replaced(words, place..place + 1, &["--".to_owned()]);
    let is_program = wrong.value.as_deref().is_some_and(is_program);
    match is_program && is_taken(&command) {
        true => format!("{none}; to run a command: {}", line_of(&command)),
        false => as_option,
    }
}

/// Put the recordings of the line in the place of their names.
pub(super) fn with_files(line: &str, words: &[String]) -> String {
    let is_file = |word: &&String| word.ends_with(".parquet");
    let files: Vec<_> = words
        .iter()
        .filter(is_file)
        .map(|word| quoted(word))
        .collect();
    match &files[..] {
        [] => line.to_owned(),
        [before, after] if line.contains("BEFORE AFTER") => {
            line.replace("BEFORE AFTER", &format!("{before} {after}"))
        }
        files => line.replace("FILE", &files.join(" ")),
    }
}

/// Return the lines that an entry may lead to.
fn candidates(wrong: &Wrong, entry: Instead, words: &[String]) -> Vec<Vec<String>> {
    let Some((place, length)) = wrong.place(words) else {
        return Vec::new();
    };
    let whole = place..place + length;
    let swapped = |written: &str| {
        let core = written.split([',', ';']).next().unwrap_or_default();
        let value = wrong.value.as_deref().unwrap_or_default();
        if let Some(list) = wrong.list(words) {
            let with = core.split(' ').next_back().unwrap_or_default();
            let items: Vec<_> = list
                .split(',')
                .map(|item| if item == value { with } else { item })
                .collect();
            return replaced(words, place + 1..place + 2, &[items.join(",")]);
        }
        // No filter begins with a number.
        let has_own = is_number(value);
        let takes_value =
            core.contains('{') || wrong.word.contains('=') || has_own || has_value(&wrong.option);
        let place = if takes_value {
            whole.clone()
        } else {
            place..place + 1
        };
        // A switch that is there already, beside the wrong one, is not given twice.
        let others = replaced(words, whole.clone(), &[]);
        let mut with = split(core, wrong.value.as_deref());
        with.retain(|word| !word.starts_with("--") || !others.contains(word));
        replaced(words, place, &with)
    };
    match entry {
        Instead::Option(_, written) => vec![swapped(written)],
        Instead::Renamed(now) => vec![replaced(words, place..place + 1, &taken::words(now))],
        Instead::Recording => vec![replaced(words, place..place + 1, &[])],
        Instead::Filter(text) => {
            let value = wrong.value.as_deref().filter(|_| text.contains('{'));
            let rest = replaced(
                words,
                place..place + 1 + usize::from(length > 1 && value.is_some()),
                &[],
            );
            let at = end(&rest);
            let added = |between: &str| {
                let text = format!("{between} {}", filled(text, value));
                replaced(&rest, at..at, &taken::words(&text))
            };
            let as_it_stands = replaced(words, place..place + 1, &[]);
            let negated = replaced(words, place..place + 1, &["not".to_owned()]);
            if text.starts_with("not ") {
                return vec![negated];
            }
            let own = value
                .filter(|_| text.starts_with('{'))
                .map(|_| as_it_stands);
            own.into_iter().chain([added(""), added("and")]).collect()
        }
        Instead::Nothing(_) => vec![replaced(words, place..place + 1, &[])],
        Instead::Line(..) => Vec::new(),
    }
}

/// Return true for an option whose value is the next word, wherever a subcommand has it.
fn has_value(option: &str) -> bool {
    let mut root = Cli::command();
    root.build();
    let mut subcommands = root.get_subcommands();
    option.starts_with("--") && subcommands.any(|one| has_value_behind(one, option) == Some(true))
}

/// Divide what is to be written; the value is one word, whatever stands in it.
fn split(written: &str, value: Option<&str>) -> Vec<String> {
    let words = written.split_whitespace();
    words.map(|word| filled(word, value)).collect()
}

/// Return the line after further steps that each error asks for, once it is taken.
pub(super) fn mended(mut words: Vec<String>) -> Option<Vec<String>> {
    for _ in 0..MOST_STEPS {
        let Err(error) = read(&words) else {
            return Some(words);
        };
        words = step(&error, &words)?;
    }
    None
}

/// Return the line without its first error.
fn step(error: &clap::Error, words: &[String]) -> Option<Vec<String>> {
    if let Some(place) = one_hyphen(words) {
        return Some(with_two_hyphens(words, place));
    }
    if error.kind() == ErrorKind::ValueValidation {
        return with_unit(error, words);
    }
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return misused::with_missing(error, words);
    }
    let wrong = Wrong::of(error, words)?;
    let mut root = Cli::command();
    root.build();
    let subcommand = root.find_subcommand(words.first()?)?;
    let Some((entry, _)) = answer(&wrong.word, wrong.value.as_deref(), subcommand) else {
        let similar = misused::similar(error, ContextKind::SuggestedArg, &wrong.option)?;
        let (place, _) = wrong.place(words)?;
        let word = words[place].replacen(&wrong.option, &similar, 1);
        return Some(replaced(words, place..place + 1, &[word]));
    };
    if let Instead::Filter(text) = entry
        && text.starts_with('{')
        && wrong.value.is_none()
    {
        // The filter of an example is nobody's.
        return None;
    }
    let lines = candidates(&wrong, entry, words);
    let taken = lines.iter().find(|line| is_taken(line)).cloned();
    taken.or_else(|| lines.into_iter().next())
}

/// Return the line with the unit that a number lacks.
fn with_unit(error: &clap::Error, words: &[String]) -> Option<Vec<String>> {
    let value = Value::of(error, words)?;
    value.text.parse::<f64>().ok()?;
    Some(value.with(&format!("{}ms", value.text)))
}

/// Return true if a program stands before the option, whose it is then.
fn is_of_command(option: &str, words: &[String]) -> bool {
    let behind = words.iter().skip(1);
    let mut before = behind.take_while(|word| *word != "--" && !word.starts_with(option));
    before.any(|word| !FILTER_WORDS.contains(&word.as_str()) && is_program(word))
}

/// Return the value behind an option, in the same word or in the next one.
fn value_of(option: &str, words: &[String]) -> Option<String> {
    let mut words = words.iter();
    let found = words.find(|word| word.split('=').next() == Some(option))?;
    if let Some((_, value)) = found.split_once('=') {
        return Some(value.to_owned());
    }
    // A time before now begins as options do.
    let is_option = |word: &str| {
        let behind = word.strip_prefix('-');
        behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_ascii_digit()))
    };
    // A recording is no value but of what writes it.
    let is_written = ["-w", "--write"].contains(&option);
    let is_value = |word: &&String| !is_option(word) && (is_written || !word.ends_with(".parquet"));
    words.next().filter(is_value).cloned()
}

/// Return what a value looks like, in the words of the table.
fn kinds(value: Option<&str>) -> impl Iterator<Item = &'static str> {
    let value = value.unwrap_or_default();
    let is_port = |word: &str| word.parse::<u16>().is_ok();
    let is_range = value
        .split_once('-')
        .is_some_and(|(first, last)| is_port(first) && is_port(last));
    let is_time = || value.parse::<f64>().is_err() && duration(value).is_ok();
    [
        ("", value.is_empty()),
        ("-", is_range),
        (",", value.contains(',') && value.split(',').all(is_port)),
        ("~", is_time()),
        ("#", is_number(value)),
        ("*.service", value.ends_with(".service")),
        ("*.pcap", CAPTURES.iter().any(|end| value.ends_with(end))),
        (
            "*",
            !value.is_empty() && !is_number(value) && !Path::new(value).exists(),
        ),
    ]
    .into_iter()
    .filter_map(|(kind, is_it)| is_it.then_some(kind))
}

fn is_number(value: &str) -> bool {
    let is_of_number = |c: char| c.is_ascii_digit() || ".,".contains(c);
    !value.is_empty() && value.chars().all(is_of_number)
}

/// Return the first entry that fits, and its answer.
fn answer(word: &str, value: Option<&str>, subcommand: &Command) -> Option<(Instead, String)> {
    let option = word.split('=').next().unwrap_or_default();
    let with_value = value.map_or_else(String::new, |value| format!("{option}={value}"));
    let kinds: Vec<_> = kinds(value)
        .map(|kind| format!("{option}={kind}"))
        .collect();
    let is_of = |of: &str| of.is_empty() || has_word(of, subcommand.get_name());
    let is_typed = |words: &str| {
        let of_kind = kinds.iter().map(String::as_str);
        [word, &with_value]
            .into_iter()
            .chain(of_kind)
            .any(|typed| has_word(words, typed))
    };
    let mut entries = options().filter(|(of, words, _)| is_of(of) && is_typed(words));
    entries.find_map(|(_, _, instead)| Some((*instead, said(word, value, *instead, subcommand)?)))
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
    let value = &value.map(quoted);
    let value = value.as_deref();
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
        Instead::Recording if ["FILE", "BEFORE", "FIRST"].into_iter().any(has_place) => {
            Some(format!(
                "{none}: a recording stands without an option, as in `sockstamp {called} FILE`"
            ))
        }
        Instead::Nothing(always) => Some(format!("{none}: {always}")),
        Instead::Line(purpose, line) => {
            let line = filled(line, value);
            Some(format!("{none}; {purpose}: sockstamp {line}"))
        }
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
            ("stat --rx-stamps 10", "--nic-stamps auto|off|RATE"),
            ("top --no-color", "--color never"),
            ("top --entry=off", "--expert entry=HOOK"),
            ("doctor --windows 1/4", "--expert windows=1/N"),
            ("trace --no-sched", "--expert sched=off"),
            ("record --in-step 2^16 -o x", "--sample 2^K"),
        ] {
            let line = of(words).unwrap();
            assert!(line.contains(&format!("is called {now} now")), "{line}");
        }
    }

    #[test]
    fn an_option_of_another_tool_has_its_name_here() {
        for (words, end) in [
            ("stat --json", "write --format json"),
            ("stat --port 8080", "`sockstamp stat port 8080`"),
            ("trace --port=80", "`sockstamp trace port 80`"),
            ("stuck -n", "never turned into names: leave it out"),
            ("stat --group-by pid", "write --by pid"),
            ("report -r a.parquet", "`sockstamp report a.parquet`"),
            (
                "report a --by connection",
                "write sockstamp report a --by flow",
            ),
            ("stat -r 5", "write --repeat 5, or sockstamp report FILE"),
            ("stat -I 1000", "--interval 1000, with its unit: ms or s"),
            ("top -d 2", "write --interval 2"),
            ("report -i a.parquet", "`sockstamp report a.parquet`"),
            ("stat -e cycles", "all stages are measured"),
            ("record -w a.parquet", "write -o a.parquet"),
            (
                "stat -p 100 --min 100",
                "write sockstamp stat -p 100 --slow 100ms",
            ),
            ("pcap a.parquet -o a.pcapng", "write -w a.pcapng"),
            ("record -g -o a", "in place of a call graph"),
            ("stuck -tnp", "`sockstamp stuck tcp`"),
            (
                "top -u root",
                "--comm NAME, as a user is no target; for datagrams, udp is a filter",
            ),
            ("stat --csv", "write --format csv"),
            ("report --since 12:00 a", "write --from 12:00"),
            ("explain --time 12:00 -r a", "--from TIME --to TIME"),
            ("trace --limit 10", "write --count 10"),
            ("trace -n", "never turned into names: leave it out"),
            ("top -b", "write --once"),
            ("ping --mtr ::1", "write --path, which ends with a report"),
            ("diff --exit-code a b", "write --fail-if CONDITION"),
            ("stat --docker web", "write --container web"),
            ("top --once -b", "leave it out, --once is there"),
            ("top -n 1", "write --once"),
            ("top --json", "write --once --format json"),
            ("stuck -t 500ms", "write --slow 500ms"),
            ("stuck --now", "it looks once, now: leave it out"),
            ("explain -r a --since 1h", "write --from -1h"),
            ("explain -r a --since 12:00", "write --from 12:00"),
            ("stat -tan", "`sockstamp stat tcp`"),
            ("stat --port 80-90", "`sockstamp stat portrange 80-90`"),
            ("stat --ports 80,90", "`port 80 or port 443`"),
            ("trace -w a.pcap", "sockstamp pcap -w a.pcap"),
            ("diff a b --p99 5ms", "'rx.total.p99 > +5ms'"),
            (
                "stat --fail-if x",
                "for jq -e, behind: sockstamp stat --format json",
            ),
            (
                "report --group-by process a",
                "sockstamp report --by comm a",
            ),
            ("agent --prometheus :9464", "write --listen :9464"),
            ("stat --not port 22", "`sockstamp stat not port 22`"),
        ] {
            let line = of(words).unwrap_or_default();
            assert!(line.ends_with(end), "{words}: {line}");
        }
    }

    /// What a subcommand does not have is not suggested.
    #[test]
    fn nothing_is_suggested_that_is_refused_too() {
        for words in ["ping --group-by pid ::1", "ping --sport 80 ::1"] {
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
        for (_, words, instead) in options() {
            for word in words.split(' ') {
                let values = [
                    ("=#", "7"),
                    ("=*", "eth0"),
                    ("=*.service", "a.service"),
                    ("=*.pcap", "a.pcap"),
                    ("=~", "5ms"),
                    ("=-", "80-90"),
                    ("=,", "80,90"),
                ];
                let kind = values.iter().find(|(kind, _)| word.ends_with(kind));
                let value = kind.map(|(_, value)| *value);
                let word = kind.map_or(word, |(kind, _)| word.trim_end_matches(kind));
                let word = word.trim_end_matches('=');
                let is_answered = |subcommand: &Command| {
                    let own = said(word, value, *instead, subcommand);
                    own.is_some() && answer(word, value, subcommand).map(|(_, told)| told) == own
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
        let lines = options().filter_map(|(.., instead)| match instead {
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
