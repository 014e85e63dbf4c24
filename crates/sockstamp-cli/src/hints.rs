//! Say what was probably meant, where a command line is wrong use in a common way.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Subcommands that take a filter expression and, but for `top`, a command.
const MEASURING: [&str; 6] = ["stat", "trace", "top", "record", "pcap", "explain"];
/// Those that take files in its place.
const READING: [&str; 2] = ["pcap", "explain"];
/// The first word of a filter is one of these: pcap-filter(7).
pub(crate) const FILTER_WORDS: [&str; 13] = [
    "tcp",
    "udp",
    "ip",
    "ip6",
    "src",
    "dst",
    "host",
    "net",
    "port",
    "portrange",
    "not",
    "and",
    "or",
];

/// Return a hint for the arguments of this process.
pub(crate) fn of_arguments() -> Option<String> {
    let arguments: Vec<String> = env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    hint(&arguments, is_program, |word| Path::new(word).exists())
}

/// Return a hint if the word after the subcommand begins no filter: the name of a program with
/// arguments is a command, one alone a process.
fn hint(
    arguments: &[String],
    is_program: impl Fn(&str) -> bool,
    is_file: impl Fn(&str) -> bool,
) -> Option<String> {
    let [subcommand, word, rest @ ..] = arguments else {
        return None;
    };
    if word == "--explain-words" {
        return Some("the words of all output are explained by: sockstamp --explain-words".to_owned());
    }
    let is_word = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    if !MEASURING.contains(&subcommand.as_str())
        || !is_word
        || word.starts_with('-')
        || FILTER_WORDS.contains(&word.as_str())
        || rest.iter().any(|argument| argument == "--")
        || (READING.contains(&subcommand.as_str()) && is_file(word))
    {
        return None;
    }
    if !rest.is_empty() && subcommand != "top" && is_program(word) {
        let command = arguments[1..].join(" ");
        return Some(format!("to run a command: sockstamp {subcommand} -- {command}"));
    }
    Some(format!(
        "is a filter word missing (host, net, port)? For a process: sockstamp {subcommand} --comm {word}"
    ))
}

/// Return true if a shell would find the program.
fn is_program(name: &str) -> bool {
    let executable = |path: std::path::PathBuf| {
        path.metadata()
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return executable(name.into());
    }
    env::var_os("PATH")
        .is_some_and(|paths| env::split_paths(&paths).any(|folder| executable(folder.join(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Option<String> {
        let arguments: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        hint(&arguments, |name| name == "curl", |name| name == "a.parquet")
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
            Some("is a filter word missing (host, net, port)? For a process: sockstamp stat --comm nginx")
        );
        assert!(
            of("explain nginx")
                .unwrap()
                .ends_with("sockstamp explain --comm nginx")
        );
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
            "ping nginx",
            "stat nginx -- true",
            "explain a.parquet --duration 1s",
        ] {
            assert_eq!(of(words), None, "{words}");
        }
    }
}
