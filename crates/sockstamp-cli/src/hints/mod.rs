//! Suggest the intended command for common mistakes in a command line.

mod begun;
mod misused;
mod processes;
mod program;
mod spelled;
mod table;
mod taken;
mod values;
mod wrong_word;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory};
use sockstamp_model::stage::Stage;
use sockstamp_run::duration::duration;

use crate::command_line::Cli;
use crate::options::filter::FILTER_WORDS;
use crate::options::wrong_filter;
use processes::is_process;
use program::is_program;
use table::{WORDS, filled, has_word};
use taken::{is_taken, line as typed, quoted};

/// Subcommands that take a filter expression and, except `top` and `stuck`, a command.
const MEASURING: [&str; 8] = [
    "stat", "stuck", "trace", "top", "record", "pcap", "explain", "doctor",
];
/// Subcommands that read recordings instead.
const READING: [&str; 4] = ["stuck", "trace", "pcap", "explain"];
/// Characters of a process name: TASK_COMM_LEN of include/linux/sched.h, without its end.
const LONGEST_NAME: usize = 15;
/// Extensions of captures, which are no recordings.
const CAPTURES: [&str; 2] = [".pcapng", ".pcap"];

/// Return what is wrong with these arguments and what to type, in one line, if that is known.
pub(crate) fn line(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if !error.use_stderr() || arguments.len() < 2 {
        return None;
    }
    let words: Vec<String> = (arguments.iter().skip(1))
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    begun::of_dashes(&words)
        .or_else(|| of_sleep(error, &words))
        .or_else(|| spelled::of_one_hyphen(&words))
        .or_else(|| of_completions(arguments))
        .or_else(|| of_agent(&words))
        .or_else(|| processes::none(&words))
        .or_else(|| processes::several(&words, is_process))
        .or_else(|| of_namespace(error, &words))
        .or_else(|| spelled::instead(error, arguments))
        .or_else(|| of_files(&words))
        .or_else(|| of_filter(error, &words))
        .or_else(|| wrong_word::hint(&words, is_program, |word| Path::new(word).exists()))
        .or_else(|| misused::line(error, &words))
}

/// Return what to type for a command that only waits, as perf-stat(1) needs one beside `-p`.
fn of_sleep(error: &clap::Error, words: &[String]) -> Option<String> {
    let [before @ .., sleep, time] = words else {
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
    let before = processes::joined(&before, |_| true).unwrap_or(before);
    let measured = [before, taken::words(&format!("--duration {time}"))].concat();
    let line = spelled::mended(measured)?;
    Some(format!("to measure for a time: {}", typed(&line)))
}

/// Return what to type for words behind `agent`, which has its target in a file.
fn of_agent(words: &[String]) -> Option<String> {
    let [subcommand, behind @ ..] = words else {
        return None;
    };
    let first = behind.first().filter(|_| subcommand == "agent")?;
    if FILTER_WORDS.contains(&first.as_str()) {
        return Some(format!(
            "the target stands in the file of --config: [target] filter = \"{}\"",
            behind.join(" ")
        ));
    }
    let is_check = ["check", "validate", "test", "config"].contains(&first.as_str());
    if let ([_, file], true) = (behind, is_check) {
        let line = ["agent", "--check", "--config", file].map(str::to_owned);
        return is_taken(&line).then(|| format!("to check settings: {}", typed(&line)));
    }
    if first.ends_with(".toml") {
        let line = taken::replaced(words, 1..1, &["--config".to_owned()]);
        return is_taken(&line).then(|| format!("settings have an option: {}", typed(&line)));
    }
    let (_, port) = first.rsplit_once(':').unwrap_or(("", first));
    port.parse::<u16>().ok()?;
    let address = if first.starts_with(|c: char| c.is_ascii_digit()) && first.contains(':') {
        first.clone()
    } else {
        format!("127.0.0.1:{port}")
    };
    let line = ["agent", "--listen", &address].map(str::to_owned);
    is_taken(&line).then(|| format!("the address has an option: {}", typed(&line)))
}

/// Return what to type for a command in a network namespace: it is measured wherever it runs.
fn of_namespace(error: &clap::Error, words: &[String]) -> Option<String> {
    if error.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    let end = taken::end(words);
    let place = words[..end].iter().position(|word| word == "--netns")?;
    let name = words.get(place + 1).filter(|_| end < words.len())?;
    let within = taken::replaced(words, place..place + 2, &[]);
    let enter = match name.parse::<u32>() {
        Ok(process) => format!("nsenter -n -t {process}"),
        Err(_) => format!("ip netns exec {}", quoted(name)),
    };
    let is_one = !name.contains(',');
    (is_one && is_taken(&within)).then(|| {
        format!(
            "a command is measured wherever it runs: {enter} {}",
            typed(&within)
        )
    })
}

/// Return what to type for completions: those of a shell, or the service that had their name.
fn of_completions(arguments: &[OsString]) -> Option<String> {
    const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];
    let [_, subcommand, words @ ..] = arguments else {
        return None;
    };
    let subcommand = subcommand.to_str()?.trim_start_matches('-');
    if !["completion", "completions"].contains(&subcommand) {
        return None;
    }
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let shell = words.iter().find(|word| SHELLS.contains(&word.as_ref()));
    let of_shell = |shell: &str| {
        format!("for the completions of a shell: source <(COMPLETE={shell} sockstamp)")
    };
    if let Some(shell) = shell {
        return Some(of_shell(shell));
    }
    let service = format!("sockstamp notifications {}", words.join(" "));
    Some(format!(
        "the service is called notifications now: write {}; {}",
        service.trim_end(),
        of_shell("bash")
    ))
}

/// Return what to type for files in another place than their own.
fn of_files(words: &[String]) -> Option<String> {
    let subcommand = words.first()?;
    let is_capture = |word: &String| CAPTURES.iter().any(|end| word.ends_with(end));
    let place = words.iter().position(is_capture)?;
    let file = &words[place];
    let option = words.get(place.checked_sub(1)?).map(String::as_str);
    if let Some("-r" | "--read") = option {
        return Some(format!(
            "{file} is a capture: tcpdump -r {}; -r takes what record --packets writes",
            quoted(file)
        ));
    }
    let with = ["-w".to_owned(), file.clone()];
    let written = taken::replaced(words, place..place + 1, &with);
    (subcommand == "pcap" && is_taken(&written))
        .then(|| format!("to write to it: {}", typed(&written)))
}

/// Return true for the name of a recording: by its extension, or by what the file begins with.
fn is_recording(word: &str) -> bool {
    // To open a pipe is to wait for its other end.
    let is_file = || Path::new(word).metadata().is_ok_and(|file| file.is_file());
    let begins = || {
        let mut begin = [0; 4];
        let read = File::open(word).and_then(|mut file| file.read_exact(&mut begin));
        read.is_ok() && begin == *b"PAR1"
    };
    word.ends_with(".parquet") || is_file() && begins()
}

/// Return the words with recordings before their filter.
fn recordings_first(words: &[String]) -> Option<Vec<String>> {
    let (subcommand, behind) = words.split_first()?;
    let is_one = |word: &String| word.ends_with(".parquet") || Path::new(word).exists();
    let (files, others): (Vec<_>, Vec<_>) = behind.iter().cloned().partition(is_one);
    let moved = [vec![subcommand.clone()], files, others].concat();
    (moved != words && is_taken(&moved)).then_some(moved)
}

/// Return what to type for a filter: clap does not know what it is, so its error has no context.
fn of_filter(error: &clap::Error, words: &[String]) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let told = error.render().to_string();
    let told = told.strip_prefix("error: ")?;
    let subcommand = words.first()?;
    if told.starts_with("filter, ")
        && let Some(moved) = recordings_first(words)
    {
        return Some(format!(
            "recordings stand before the filter: {}",
            typed(&moved)
        ));
    }
    let instead = wrong_filter::line(told, subcommand);
    if instead.is_none() && subcommand == "diff" && told.starts_with("filter, column 1:") {
        return Some(
            "two recordings are compared, or several by: \
             write sockstamp diff --before BEFORE... --after AFTER..."
                .to_owned(),
        );
    }
    instead
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
    use super::wrong_word::hint;

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
