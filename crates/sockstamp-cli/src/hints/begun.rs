//! Lines that begin with no subcommand, or with one that another program has.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};

use super::files::{CAPTURES, is_recording};
use super::misused::similar;
use super::program::is_program;
use super::spelled::{mended, with_files};
use super::table::{SUBCOMMANDS, has_word};
use super::taken::{self, is_taken, line as typed, read};
use crate::command_line::Cli;
use crate::options::filter::FILTER_WORDS;

/// Characters that a page or a word processor puts in the place of a hyphen.
const DASHES: [char; 4] = ['\u{2010}', '\u{2013}', '\u{2014}', '\u{2212}'];
/// Subcommands that a line may be of, if `stat` does not take it. Others take any word for a file
/// or a host.
const OTHERS: [&str; 7] = [
    "trace", "explain", "record", "pcap", "stuck", "top", "agent",
];
/// Options for recordings that are read.
const READ: [&str; 2] = ["-r", "--read"];
/// Words that ask whether a figure is as it should be.
const CHECKING: [&str; 5] = ["check", "test", "assert", "verify", "expect"];

/// Tells what is wrong with the arguments of another line, and what to type.
pub(super) type Answer = fn(&Error, &[OsString]) -> Option<String>;

/// Return what to type for dashes that were pasted from a page.
pub(super) fn of_dashes(words: &[String], answer: Answer) -> Option<String> {
    let hyphened = |word: &String| {
        let behind = word.trim_start_matches(DASHES);
        let typed = word.chars().take_while(|c| DASHES.contains(c)).count();
        // Two hyphens may have become one dash.
        let hyphens = match (typed, behind.chars().count()) {
            (0, _) | (_, 0) => return word.clone(),
            (1, 1) => "-",
            _ => "--",
        };
        format!("{hyphens}{behind}")
    };
    // A command has words of its own.
    let (ours, command) = words.split_at(taken::end(words));
    let place = ours.iter().position(|word| hyphened(word) != *word)?;
    let line: Vec<_> = ours.iter().map(hyphened).collect();
    let line = [&line, command].concat();
    let dash = words[place].chars().next()?;
    let told = format!("{dash} is a dash, and no hyphen");
    Some(match answered(&line, answer) {
        Some(wrong) => format!("{told}; {wrong}"),
        None => format!("{told}: write {}", typed(&line)),
    })
}

/// Return what to type for a line that begins with no subcommand, or with one that there is not.
pub(super) fn line(error: &Error, words: &[String], answer: Answer) -> Option<String> {
    let mut root = Cli::command();
    root.build();
    match error.kind() {
        ErrorKind::InvalidSubcommand => wrong_one(error, &root, words, answer),
        ErrorKind::UnknownArgument if root.find_subcommand(words.first()?).is_none() => {
            Some(without_one(&root, words, answer))
        }
        _ => None,
    }
}

fn without_one(root: &Command, words: &[String], answer: Answer) -> String {
    if let [word] = words
        && let Some((_, instead)) = SUBCOMMANDS.iter().find(|(names, _)| has_word(names, word))
    {
        return format!("a subcommand comes first: sockstamp {instead}");
    }
    let line = moved(root, words).unwrap_or_else(|| with_subcommand(words));
    if let Some(line) = mended(line.clone()) {
        return format!("a subcommand comes first: {}", typed(&line));
    }
    let begin = format!("a subcommand comes first, such as {}", line[0]);
    match answered(&line, answer) {
        Some(told) => format!("{begin}; {told}"),
        None => format!("{begin}: sockstamp {} --help lists what there is", line[0]),
    }
}

/// Return what is wrong with a line that has a subcommand, and what to type.
fn answered(line: &[String], answer: Answer) -> Option<String> {
    let error = read(line).err()?;
    let program = OsString::from("sockstamp");
    let arguments: Vec<_> = [program]
        .into_iter()
        .chain(line.iter().map(OsString::from))
        .collect();
    answer(&error, &arguments)
}

/// Return the words with the first subcommand among them in front.
fn moved(root: &Command, words: &[String]) -> Option<Vec<String>> {
    let is_one = |word: &String| word != "help" && root.find_subcommand(word).is_some();
    let place = words.iter().position(is_one)?;
    let (before, from) = words.split_at(place);
    let (name, behind) = from.split_first()?;
    Some([std::slice::from_ref(name), before, behind].concat())
}

/// Return the words with the subcommand that takes them, or else the nearest one, in front.
fn with_subcommand(words: &[String]) -> Vec<String> {
    let with = |name: &str| [&[name.to_owned()], words].concat();
    let nearest = nearest(words);
    let mut line = with(nearest);
    if nearest == "report" {
        // Recordings of `report` stand without an option.
        line.retain(|word| !READ.contains(&word.as_str()));
    }
    if nearest != "stat" || mended(line.clone()).is_some() {
        return line;
    }
    let mut others = OTHERS.iter().map(|name| with(name));
    others.find(|other| is_taken(other)).unwrap_or(line)
}

/// Return the subcommand for the files of a line: what it reads, or what it writes.
fn nearest(words: &[String]) -> &'static str {
    let has = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
    let is_capture = |word: &String| CAPTURES.iter().any(|end| word.ends_with(end));
    let writes = has(&["-w", "--write"]);
    if words.iter().any(is_capture) {
        "pcap"
    } else if has(&READ) || !writes && words.iter().any(|word| is_recording(word)) {
        "report"
    } else if writes {
        "record"
    } else {
        "stat"
    }
}

/// Name what stands in the place of a subcommand.
fn wrong_one(error: &Error, root: &Command, words: &[String], answer: Answer) -> Option<String> {
    let ContextValue::String(name) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let rest = words.get(1..)?;
    let none = format!("there is no subcommand {name}");
    if words.first().is_some_and(|first| first == "help") {
        return Some(format!("{none}: sockstamp --help lists them"));
    }
    if let Some(line) = of_check(words) {
        return Some(format!("{none}; {line}"));
    }
    let mut known = SUBCOMMANDS.iter();
    if let Some((_, instead)) = known.find(|(names, _)| has_word(names, name)) {
        return Some(format!("{none}: write {}", with_rest(instead, rest)));
    }
    if is_recording(name) {
        let line = first_taken(&["report"], words);
        return Some(format!("to read a recording: {line}"));
    }
    if FILTER_WORDS.contains(&name.as_str()) || moved(root, words).is_some() {
        return Some(without_one(root, words, answer));
    }
    if let Some(similar) = similar(error, ContextKind::SuggestedSubcommand, name) {
        return Some(format!("{none}: write {}", with_rest(&similar, rest)));
    }
    if let Some(name) = name.strip_prefix("pod/") {
        let line = with_rest(&format!("stat --container {name}"), rest);
        return Some(format!("{none}: write {line}"));
    }
    if name.parse::<IpAddr>().is_ok() {
        let line = first_taken(&["ping"], words);
        return Some(format!("to probe a host: {line}"));
    }
    if name.parse::<u32>().is_ok() {
        let line = first_taken(&["stat", "--pid"], words);
        return Some(format!("for a process: {line}"));
    }
    if words.len() > 1 && is_program(name) {
        let line = first_taken(&["stat", "--"], words);
        return Some(format!("to run a command: {line}"));
    }
    let is_name = name
        .chars()
        .all(|c| c.is_alphanumeric() || "-_./".contains(c));
    if !is_name {
        return Some(without_one(root, words, answer));
    }
    Some(format!(
        "{none}: sockstamp --help lists them; for a process: {}",
        first_taken(&["stat", "--comm"], words)
    ))
}

/// Return what to type for a check: of settings, or of a figure.
fn of_check(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    if !CHECKING.contains(&first.as_str()) {
        return None;
    }
    let is_settings = |word: &&String| Path::new(word).extension().is_some_and(|it| it == "toml");
    if let Some(file) = rest.iter().find(is_settings) {
        let line = taken::words("agent --check --config");
        return Some(format!(
            "of settings: {}",
            typed(&[&line[..], std::slice::from_ref(file)].concat())
        ));
    }
    let is_figure = |word: &String| word.contains(['<', '>', '%']) || word.contains("p9");
    rest.iter().any(is_figure).then(|| {
        "it is a condition of two recordings: \
         sockstamp diff --fail-if 'peer.answer.p99 > +20%' BEFORE AFTER"
            .to_owned()
    })
}

/// Return the words behind a beginning if they are taken there, or else the first of them alone.
fn first_taken(begin: &[&str], words: &[String]) -> String {
    let begin: Vec<_> = begin.iter().map(|&word| word.to_owned()).collect();
    let line = [&begin, words].concat();
    match mended(line.clone()) {
        Some(line) => typed(&line),
        None => typed(&line[..begin.len() + 1]),
    }
}

/// Return the line of a subcommand's other name with what stands behind that, if it is taken then;
/// what it only names gives way.
fn with_rest(instead: &str, rest: &[String]) -> String {
    let told = || with_files(&format!("sockstamp {instead}"), rest);
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
    mended(line).map_or_else(told, |line| typed(&line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::refused;

    fn of(line: &str) -> String {
        let (error, arguments) = refused(line);
        super::super::line(&error, &arguments).unwrap_or_default()
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
        for (line, end) in [
            ("5", "for a process: sockstamp stat --pid 5"),
            ("5 5", "for a process: sockstamp stat --pid 5"),
            ("5 port 80", "for a process: sockstamp stat --pid 5 port 80"),
            ("a.parquet --by pid", "sockstamp report a.parquet --by pid"),
            ("a.parquet --nonsense", "sockstamp report a.parquet"),
            ("recrod -d 2", "write sockstamp record --output PATH -d 2"),
            ("repotr a.parquet", "write sockstamp report a.parquet"),
            (
                "events -d 2 --json",
                "write sockstamp trace -d 2 --format json",
            ),
            (
                "serve --port 9100",
                "write sockstamp agent --listen 127.0.0.1:9100",
            ),
            ("help filter", "sockstamp --help lists them"),
            ("127.0.0.1", "to probe a host: sockstamp ping 127.0.0.1"),
            ("script", "write sockstamp trace -r FILE"),
            ("prometheus", "write sockstamp agent"),
        ] {
            let told = of(line);
            assert!(told.ends_with(end), "{line}: {told}");
        }
    }

    /// The line that is printed is taken as it stands.
    #[test]
    fn a_line_without_a_subcommand_is_mended_behind_it() {
        for (line, written) in [
            ("-p 1 -d 10", "stat -p 1 -d 10"),
            ("-d 2 --json", "stat -d 2 --format json"),
            ("-d 2 --port 5432", "stat -d 2 port 5432"),
            ("-q -d 2", "stat -d 2"),
            ("-t 2", "stat --duration 2"),
            ("-w out.pcap -d 2", "pcap -w out.pcap -d 2"),
            ("-r a.parquet -w out.pcap", "pcap -r a.parquet -w out.pcap"),
            ("-w rec -d 2", "record -o rec -d 2"),
            ("-r a.parquet", "report a.parquet"),
            ("-r a.parquet --by peer", "report a.parquet --by peer"),
            ("-r a.parquet -n 5", "report a.parquet --by comm --top 5"),
            ("--html a.html a.parquet", "report --html a.html a.parquet"),
            ("--threshold 50ms -d 2", "stat --slow 50ms -d 2"),
            ("-d 2 --colour=always", "stat -d 2 --color=always"),
            ("-duration 2", "stat --duration 2"),
            ("--for 2s", "stat --duration 2s"),
            ("--count 5", "trace --count 5"),
            (
                "-r a.parquet --by remote,port",
                "report a.parquet --by peer,port",
            ),
            (
                "-r a.parquet --percentiles 50,99",
                "report a.parquet --columns p50",
            ),
        ] {
            let expected = format!("a subcommand comes first: sockstamp {written}");
            assert_eq!(of(line), expected);
            assert!(is_taken(&taken::words(written)), "{written}");
        }
    }

    #[test]
    fn what_is_wrong_behind_a_missing_subcommand_is_told_at_once() {
        for (line, end) in [
            (":5432", "write port 5432"),
            ("--pid 1 10", "sockstamp stat --pid 1 --duration 10"),
            (
                "-r a.parquet --group-by pid",
                "sockstamp report a.parquet --by pid",
            ),
            ("-f -d 2", "as in `sockstamp stat -d 2 tcp port 80`"),
            ("-d 2 :5432", "write port 5432"),
            ("-d soon", "a number with us, ms, s, m or h"),
            (
                "-d 2 --nonsense",
                "sockstamp stat --help lists what there is",
            ),
        ] {
            let told = of(line);
            assert!(told.ends_with(end), "{line}: {told}");
        }
    }

    #[test]
    fn a_check_is_of_settings_or_of_a_figure() {
        for (line, end) in [
            (
                "check config agent.toml",
                "sockstamp agent --check --config agent.toml",
            ),
            ("check --p99 50ms", "BEFORE AFTER"),
            ("assert p99<50ms", "BEFORE AFTER"),
            ("check", "write sockstamp doctor"),
        ] {
            let told = of(line);
            assert!(told.ends_with(end), "{line}: {told}");
        }
    }

    #[test]
    fn a_dash_of_a_page_is_a_hyphen() {
        for (line, end) in [
            ("stat –d 2", "write sockstamp stat -d 2"),
            ("stat —duration 2", "write sockstamp stat --duration 2"),
            ("–d 2", "a subcommand comes first: sockstamp stat -d 2"),
        ] {
            let told = of(line);
            assert!(told.ends_with(end), "{line}: {told}");
        }
    }
}
