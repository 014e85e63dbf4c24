//! Suggest what to type where the first word after the subcommand begins no filter.

use std::ffi::OsStr;
use std::path::Path;

use clap::CommandFactory;
use sockstamp_model::stage::Stage;
use sockstamp_run::duration::duration;

use crate::command_line::Cli;
use crate::options::filter::FILTER_WORDS;

use super::files::is_recording;
use super::table::{ALONE, WORDS, filled, has_word};
use super::taken::{self, has_value_behind, is_taken, line as typed, quoted};
use super::values;

/// Subcommands that take a filter expression and, except `top` and `stuck`, a command.
const MEASURING: [&str; 8] = [
    "stat", "stuck", "trace", "top", "record", "pcap", "explain", "doctor",
];
/// Subcommands that read recordings instead.
const READING: [&str; 4] = ["stuck", "trace", "pcap", "explain"];
/// Characters of a process name: TASK_COMM_LEN of include/linux/sched.h, without its end.
const LONGEST_NAME: usize = 15;

/// Return a hint if the first word after the subcommand and its options begins no filter. The name
/// of a program with arguments is a command, a name alone is a process.
pub(super) fn hint(
    arguments: &[String],
    is_program: impl Fn(&str) -> bool,
    is_file: impl Fn(&str) -> bool,
) -> Option<String> {
    if arguments
        .get(1)
        .is_some_and(|word| word == "--explain-words")
    {
        return Some(
            "the words of all output are explained by: sockstamp --explain-words".to_owned(),
        );
    }
    let wrong = Wrong::find(arguments)?;
    wrong
        .alone()
        .or_else(|| wrong.as_unit())
        .or_else(|| wrong.as_output())
        .or_else(|| wrong.as_recording(&is_file))
        .or_else(|| wrong.as_namespace(&is_file))
        .or_else(|| wrong.as_state())
        .or_else(|| wrong.as_name(&is_program, &is_file))
}

/// The first wrong word of a command line.
struct Wrong<'a> {
    subcommand: &'a str,
    /// The subcommand and its options.
    begin: Vec<String>,
    /// The last word of them, after the subcommand.
    before: Option<&'a str>,
    word: &'a String,
    rest: &'a [String],
    /// The word, and the rest.
    words: &'a [String],
}

impl<'a> Wrong<'a> {
    fn find(arguments: &'a [String]) -> Option<Self> {
        let [subcommand, behind @ ..] = arguments else {
            return None;
        };
        let has_command = behind.iter().any(|argument| argument == "--");
        if !MEASURING.contains(&subcommand.as_str()) || has_command {
            return None;
        }
        let (options, words) = behind.split_at(first_word(subcommand, behind)?);
        let [word, rest @ ..] = words else {
            return None;
        };
        Some(Self {
            subcommand,
            begin: [std::slice::from_ref(subcommand), options].concat(),
            before: options.last().map(String::as_str),
            word,
            rest,
            words,
        })
    }

    fn reads(&self) -> bool {
        READING.contains(&self.subcommand)
    }

    /// Add words to what stands before the wrong one, and the words behind it.
    fn with(&self, added: &[&str], behind: &[String]) -> String {
        typed(&self.begin_with(added, behind))
    }

    fn begin_with(&self, added: &[&str], behind: &[String]) -> Vec<String> {
        let added: Vec<_> = added.iter().map(|&word| word.to_owned()).collect();
        [&self.begin, &added, behind].concat()
    }

    /// Return the words behind it, unless they are wrong, too.
    fn rest_taken(&self, added: &[&str]) -> &'a [String] {
        match is_taken(&self.begin_with(added, self.rest)) {
            true => self.rest,
            false => &[],
        }
    }

    /// Return the line with other words in the place of the last one before it, and of itself.
    fn joined(&self, word: String) -> String {
        let place = self.begin.len() - 1;
        typed(&[&self.begin[..place], &[word], self.rest].concat())
    }

    fn alone(&self) -> Option<String> {
        let is_of = |of: &str| of.is_empty() || of == self.subcommand;
        let mut entries = ALONE.iter();
        let (_, _, told) =
            entries.find(|(of, words, _)| is_of(of) && has_word(words, self.word))?;
        let told = told.replace("{WORD}", self.word);
        Some(told.replace("{SUBCOMMAND}", self.subcommand))
    }

    fn as_unit(&self) -> Option<String> {
        let before = self.before?;
        before.parse::<f64>().ok()?;
        let is_unit = values::UNITS.contains(&self.word.as_str());
        let time = format!("{}{}", quoted(before), self.word);
        is_unit.then(|| format!("a time is one word: {}", self.joined(time)))
    }

    fn as_output(&self) -> Option<String> {
        let has_extension = || {
            let extension = Path::new(self.word).extension().and_then(OsStr::to_str);
            let is_one = |it: &str| it.starts_with(|c: char| c.is_ascii_alphabetic());
            extension.is_some_and(is_one) && !self.word.contains([':', '='])
        };
        if self.subcommand != "record" || !(is_recording(self.word) || has_extension()) {
            return None;
        }
        let added = ["-o", self.word];
        let line = self.with(&added, self.rest_taken(&added));
        Some(format!("to write to it: {line}"))
    }

    fn as_recording(&self, is_file: &impl Fn(&str) -> bool) -> Option<String> {
        if !(is_recording(self.word) || is_file(self.word) && self.reads()) {
            return None;
        }
        let report = [&["report".to_owned()], self.words].concat();
        Some(match self.reads() {
            true => {
                let added = ["-r", self.word];
                let line = self.with(&added, self.rest_taken(&added));
                format!("to read recordings: {line}")
            }
            false if is_taken(&report) => format!("to read a recording: {}", typed(&report)),
            false => format!(
                "to read a recording: sockstamp report {}",
                quoted(self.word)
            ),
        })
    }

    fn as_namespace(&self, is_file: &impl Fn(&str) -> bool) -> Option<String> {
        let [.., option, name] = &self.begin[1..] else {
            return None;
        };
        if option != "--netns" || !is_file(&format!("/run/netns/{}", self.word)) {
            return None;
        }
        let line = self.joined(format!("{name},{}", self.word));
        Some(format!("several network namespaces are one word: {line}"))
    }

    fn as_state(&self) -> Option<String> {
        let line = || typed(&self.begin);
        (self.word == "state").then(|| {
            format!(
                "a filter has no states, which `ss state` has: write {}",
                line()
            )
        })
    }

    /// Return a hint for a word that may be a name: of a time, a stage, a command, a process or an
    /// interface.
    fn as_name(
        &self,
        is_program: &impl Fn(&str) -> bool,
        is_file: &impl Fn(&str) -> bool,
    ) -> Option<String> {
        let (word, rest) = (self.word, self.rest);
        let is_name = word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if !is_name || FILTER_WORDS.contains(&word.as_str()) {
            return None;
        }
        let known = of_time(&self.begin, word, rest)
            .or_else(|| of_stage(word))
            .or_else(|| of_word(&self.begin, self.words))
            .or_else(|| self.as_command(is_program));
        if known.is_some() {
            return known;
        }
        if word.parse::<u32>().is_ok() {
            return of_number(&self.begin, word, rest);
        }
        self.as_interface(is_file).or_else(|| self.as_process())
    }

    fn as_command(&self, is_program: &impl Fn(&str) -> bool) -> Option<String> {
        let runs_commands = !["top", "stuck"].contains(&self.subcommand);
        let as_process = self.begin_with(&["--comm", self.word], self.rest);
        let next = self.rest.first()?;
        let is_process = next.starts_with('-') && is_taken(&as_process);
        let is_command = runs_commands && is_program(self.word) && !is_process;
        is_command.then(|| format!("to run a command: {}", self.with(&["--"], self.words)))
    }

    fn as_interface(&self, is_file: &impl Fn(&str) -> bool) -> Option<String> {
        let option = match self.subcommand {
            "doctor" => "--nic",
            _ => "--interface",
        };
        let is_one = self.rest.is_empty() && is_interface(self.word, is_file);
        is_one.then(|| {
            let line = self.with(&[option, self.word], &[]);
            format!("for an interface: {line}")
        })
    }

    fn as_process(&self) -> Option<String> {
        // The kernel keeps the beginning of a program's name, without its folder.
        let name: String = (self.word.rsplit('/').next()?.chars())
            .take(LONGEST_NAME)
            .collect();
        let line = self.with(&["--comm", &name], self.rest_taken(&[]));
        Some(format!(
            "is a filter word missing (host, net, port)? For a process: {line}"
        ))
    }
}

/// Return what to type for a time that stands alone.
fn of_time(begin: &[String], word: &str, rest: &[String]) -> Option<String> {
    duration(word).ok()?;
    word.parse::<f64>().err()?;
    if begin.last().is_some_and(|option| option == "--watch") {
        return of_number(begin, word, rest);
    }
    let with = |option: &str| {
        let line = [begin, &taken::words(&format!("{option} {word}")), rest].concat();
        is_taken(&line).then(|| typed(&line))
    };
    let lines: Vec<_> = [
        ("to measure so long", with("--duration")),
        ("for what is slower", with("--slow")),
    ]
    .into_iter()
    .filter_map(|(what, line)| Some(format!("{what}: {}", line?)))
    .collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Return where a stage is explained, whose name stands in the place of a filter.
fn of_stage(word: &str) -> Option<String> {
    let mut stages = Stage::ALL.into_iter();
    stages.find(|stage| stage.name() == word)?;
    Some(format!(
        "{word} is a stage, and all stages are printed; the words of all output are explained by: \
         sockstamp --explain-words"
    ))
}

/// Return what a number alone may be: behind --watch, as watch(1) has it, the time between looks;
/// before another number, as vmstat(8) has it, too.
fn of_number(begin: &[String], number: &str, rest: &[String]) -> Option<String> {
    let subcommand = begin.first()?;
    let with = |added: &str, behind: &[String]| {
        let line = [begin, &taken::words(added), behind].concat();
        is_taken(&line).then(|| typed(&line))
    };
    if begin.last().is_some_and(|option| option == "--watch") {
        let line = with(&format!("--interval {number}"), rest)?;
        return Some(format!("the time between looks: {line}"));
    }
    if let [count] = rest
        && let (Ok(pause), Ok(count)) = (number.parse::<u64>(), count.parse::<u64>())
    {
        let time = pause.saturating_mul(count);
        let looks = with(&format!("--interval {pause} --duration {time}"), &[])
            .or_else(|| with(&values::for_time(subcommand, number).join(" "), &[]));
        return looks.map(|line| format!("the time between looks: {line}"));
    }
    let as_process = match begin {
        [before @ .., option, known] if option == "-p" || option == "--pid" => {
            let list = format!("{known},{number}");
            let line = [before, &[option.clone(), list], rest].concat();
            is_taken(&line).then(|| typed(&line))
        }
        _ => with(&format!("--pid {number}"), rest),
    };
    let lines: Vec<_> = [
        ("port", with(&format!("port {number}"), rest)),
        ("process", as_process),
        (
            "time",
            with(&values::for_time(subcommand, number).join(" "), rest),
        ),
    ]
    .into_iter()
    .filter_map(|(what, line)| Some(format!("for a {what}: {}", line?)))
    .collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Return what to type for a word that other programs put before a name, and the name.
fn of_word(begin: &[String], words: &[String]) -> Option<String> {
    let [word, value, behind @ ..] = words else {
        return None;
    };
    let (_, option) = WORDS.iter().find(|(names, _)| has_word(names, word))?;
    let line = [begin, &taken::words(&filled(option, Some(value))), behind].concat();
    is_taken(&line).then(|| format!("{word} begins no filter: write {}", typed(&line)))
}

/// Return true for an interface of this host, or a name as systemd and the kernel give them.
fn is_interface(word: &str, is_file: impl Fn(&str) -> bool) -> bool {
    if Path::new(word).file_name() != Some(word.as_ref()) {
        return false;
    }
    const KINDS: [&str; 8] = ["eth", "ens", "eno", "enp", "wlan", "bond", "veth", "tun"];
    let is_numbered = |kind: &str| {
        let number = word.strip_prefix(kind);
        number.is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    KINDS.into_iter().any(is_numbered) || is_file(&format!("/sys/class/net/{word}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Option<String> {
        let arguments: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        hint(
            &arguments,
            |name| name == "curl",
            |name| ["a.parquet", "/run/netns/b", "/sys/class/net/wg-home"].contains(&name),
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
                "for a port: sockstamp stat port 80; for a process: sockstamp stat --pid 80; \
                 for a time: sockstamp stat --duration 80",
            ),
            (
                "stuck --watch 2",
                "the time between looks: sockstamp stuck --watch --interval 2",
            ),
            (
                "doctor eth0",
                "for an interface: sockstamp doctor --nic eth0",
            ),
            (
                "trace wg-home",
                "for an interface: sockstamp trace --interface wg-home",
            ),
            (
                "trace pid 7 port 80",
                "pid begins no filter: write sockstamp trace --pid 7 port 80",
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
                "stat --slow 5ms --netns a b",
                "several network namespaces are one word: sockstamp stat --slow 5ms --netns a,b",
            ),
            (
                "stuck state established",
                "a filter has no states, which `ss state` has: write sockstamp stuck",
            ),
            (
                "record out.parquet",
                "to write to it: sockstamp record -o out.parquet",
            ),
            (
                "record out.parquet other.parquet",
                "to write to it: sockstamp record -o out.parquet",
            ),
            (
                "record out.parquet port 80",
                "to write to it: sockstamp record -o out.parquet port 80",
            ),
            (
                "explain a.parquet --nonsense",
                "to read recordings: sockstamp explain -r a.parquet",
            ),
        ] {
            assert_eq!(of(words).as_deref(), Some(hint));
        }
    }

    #[test]
    fn a_word_that_says_what_is_so_anyway_is_left_out() {
        for (words, hint) in [
            ("stuck now", "all that waits now is listed: sockstamp stuck"),
            ("stat help", "for its options: sockstamp help stat"),
            (
                "explain p99",
                "for what is slower: sockstamp explain --slow p99",
            ),
            ("explain stuck", "for what waits now: sockstamp stuck"),
            (
                "doctor stat",
                "all subcommands are looked at: sockstamp doctor",
            ),
            (
                "record rec9.ss",
                "to write to it: sockstamp record -o rec9.ss",
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
