//! Values that an option does not take.

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Error};

use super::taken::{self, end, is_taken, line as typed, replaced};
use crate::command_line::Cli;

/// Units of a time, which belong to its number.
pub(super) const UNITS: [&str; 7] = ["us", "µs", "ms", "s", "sec", "m", "h"];

/// Return the option for a time that stands alone.
pub(super) fn for_time(subcommand: &str, time: &str) -> Vec<String> {
    let option = match subcommand {
        "stuck" => "--watch --interval",
        "top" => "--interval",
        _ => "--duration",
    };
    taken::words(&format!("{option} {time}"))
}

/// Options of numbers, which other programs give the names of processes.
const NUMBERS: [&str; 2] = ["--count", "--pid"];

/// A value that is refused, where it stands.
pub(super) struct Value<'a> {
    words: &'a [String],
    /// The option, without a value.
    option: String,
    pub(super) text: String,
    /// The place of the value, or of the one word with its option.
    place: usize,
}

impl<'a> Value<'a> {
    pub(super) fn of(error: &Error, words: &'a [String]) -> Option<Self> {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            _ => None,
        };
        let text = context(ContextKind::InvalidValue)?;
        let option = context(ContextKind::InvalidArg)?;
        let option = option.split([' ', '=']).next()?.to_owned();
        let place = place_of(words, &option, &text)?;
        Some(Self {
            words,
            option,
            text,
            place,
        })
    }

    /// Return the line with these words in the place of the option and its value.
    fn without_option(&self, with: &str) -> Vec<String> {
        let is_one = self.words[self.place] != self.text;
        let begin = self.place - usize::from(!is_one);
        replaced(self.words, begin..self.place + 1, &taken::words(with))
    }

    /// Return the line with other words in the place of the value alone.
    pub(super) fn with(&self, with: &str) -> Vec<String> {
        let with = match self.words[self.place] == self.text {
            true => taken::words(with),
            false => taken::words(&format!("{}={with}", self.option)),
        };
        replaced(self.words, self.place..self.place + 1, &with)
    }
}

/// Find the value of an option, which may stand elsewhere too: as the subcommand, or behind another
/// option.
fn place_of(words: &[String], option: &str, text: &str) -> Option<usize> {
    let joined = format!("{option}={text}");
    let short = short_of(words.first()?, option);
    let behind_own = |&place: &usize| {
        let before = &words[place - 1];
        words[place] == joined || before == option || short.as_ref() == Some(before)
    };
    let places = (1..end(words)).filter(|&place| [text, &joined].contains(&&*words[place]));
    places.clone().find(behind_own).or_else(|| places.min())
}

/// Return the short name of an option, as it is typed.
fn short_of(subcommand: &str, option: &str) -> Option<String> {
    let long = option.strip_prefix("--")?;
    let root = Cli::command();
    let mut arguments = root.find_subcommand(subcommand)?.get_arguments();
    let found = arguments.find(|argument| argument.get_long() == Some(long))?;
    found.get_short().map(|short| format!("-{short}"))
}

/// Return what is wrong with a value, and what to type where that is known.
pub(super) fn line(error: &Error, told: &str, words: &[String]) -> String {
    // The words of an integer's parser.
    let told = told.replace("invalid digit found in string", "it is a number");
    let Some(value) = Value::of(error, words) else {
        return told;
    };
    of_endless(&value)
        .or_else(|| of_host(&value))
        .or_else(|| of_size(&value))
        .or_else(|| of_percentile(&value))
        .or_else(|| of_address(&value))
        .or_else(|| of_name(&value).map(|line| format!("{told}; for a process: {line}")))
        .unwrap_or(told)
}

/// Return what to type for a time without an end.
fn of_endless(value: &Value<'_>) -> Option<String> {
    let is_endless = ["forever", "inf", "infinity", "infinite", "-1"].contains(&&*value.text);
    let line = value.without_option("");
    (is_endless && value.option == "--duration" && is_taken(&line))
        .then(|| format!("without it, Ctrl-C ends: write {}", typed(&line)))
}

/// Return what to type for a word among hosts that is a number of probes.
fn of_host(value: &Value<'_>) -> Option<String> {
    let &Value {
        words, ref text, ..
    } = value;
    if !value.option.starts_with('[') && !value.option.starts_with('<') {
        return None;
    }
    let before = words.get(value.place.checked_sub(1)?)?;
    text.parse::<u64>().ok()?;
    // The count of ping's Windows.
    let begin = value.place - usize::from(before == "-n");
    let line = replaced(
        words,
        begin..value.place + 1,
        &taken::words(&format!("-c {text}")),
    );
    let as_port = replaced(
        words,
        value.place..value.place + 1,
        &taken::words(&format!("--tcp {text}")),
    );
    let port = match before != "-n" && is_taken(&as_port) {
        true => format!("; for a port: {}", typed(&as_port)),
        false => String::new(),
    };
    is_taken(&line).then(|| {
        format!(
            "{text} is no host; to end after some: {}{port}",
            typed(&line)
        )
    })
}

/// Return what to type for a size with a unit, where it is a number of megabytes.
fn of_size(value: &Value<'_>) -> Option<String> {
    let number = value.text.trim_end_matches(['M', 'B', 'm', 'b', 'i']);
    let of_megabytes = ["--max-size", "--rotate-size", "--min-free", "--buffer"];
    let is_size = number != value.text && of_megabytes.contains(&value.option.as_str());
    (is_size && is_taken(&value.with(number))).then(|| {
        format!(
            "it is a number of megabytes: write {} {number}",
            value.option
        )
    })
}

/// Return what to type for p999, which many programs call p99.9 so.
fn of_percentile(value: &Value<'_>) -> Option<String> {
    let digits = value.text.strip_prefix('p')?;
    let (whole, fraction) = digits.split_at_checked(2)?;
    let percentile = format!("p{whole}.{fraction}");
    (!fraction.is_empty() && is_taken(&value.with(&percentile)))
        .then(|| format!("write {} {percentile}", value.option))
}

/// Return what to type for an address with a port, where a port stands.
fn of_address(value: &Value<'_>) -> Option<String> {
    let (host, port) = value.text.rsplit_once(':')?;
    let host = host.trim_matches(['[', ']']);
    let line = [value.with(port), vec![host.to_owned()]].concat();
    let is_port = ["--tcp", "--udp"].contains(&value.option.as_str());
    (is_port && !host.is_empty() && is_taken(&line))
        .then(|| format!("a host stands without an option: {}", typed(&line)))
}

/// Return what to type for the name of a process where a number stands.
fn of_name(value: &Value<'_>) -> Option<String> {
    let mut characters = value.text.chars();
    let is_name = characters.next().is_some_and(char::is_alphabetic)
        && NUMBERS.contains(&value.option.as_str());
    if !is_name {
        return None;
    }
    let line = value.without_option(&format!("--comm {}", value.text));
    is_taken(&line).then(|| typed(&line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::refused;

    fn of(words: &str) -> String {
        let (error, _) = refused(words);
        line(&error, "told", &taken::words(words))
    }

    #[test]
    fn a_value_is_found_behind_its_option() {
        for words in [
            "trace -c trace",
            "stat --slow stat",
            "ping -c ping ::1",
            "record --rotate-size record -o x",
            "diff --fail-if diff a b",
        ] {
            assert!(of(words).starts_with("told"), "{words}");
        }
        assert_eq!(
            of("trace -c trace"),
            "told; for a process: sockstamp trace --comm trace"
        );
        assert_eq!(
            of("stat -d forever port 80"),
            "without it, Ctrl-C ends: write sockstamp stat port 80"
        );
        assert_eq!(
            of("record -o 5MB --max-size 5MB"),
            "it is a number of megabytes: write --max-size 5"
        );
    }
}
