//! Suggest what to type where the first word after the subcommand begins no filter.

use crate::options::filter::FILTER_WORDS;

use super::taken::{is_taken, line as typed, quoted};
use super::{
    LONGEST_NAME, MEASURING, READING, first_word, is_interface, is_recording, of_number, of_stage,
    of_time, of_word, values,
};

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
        .as_unit()
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

    fn as_unit(&self) -> Option<String> {
        let before = self.before?;
        before.parse::<f64>().ok()?;
        let is_unit = values::UNITS.contains(&self.word.as_str());
        let time = format!("{}{}", quoted(before), self.word);
        is_unit.then(|| format!("a time is one word: {}", self.joined(time)))
    }

    fn as_output(&self) -> Option<String> {
        if self.subcommand != "record" || !is_recording(self.word) {
            return None;
        }
        let added = ["-o", self.word];
        let line = self.with(&added, self.rest_taken(&added));
        Some(format!("to write to it: {line}"))
    }

    fn as_recording(&self, is_file: &impl Fn(&str) -> bool) -> Option<String> {
        if !is_recording(self.word) && !(is_file(self.word) && self.reads()) {
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
