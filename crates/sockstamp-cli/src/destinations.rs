//! Refuse names of files to write that mean something else than they do here, before anything is
//! measured.

use std::ffi::OsStr;
use std::path::Path;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Error};
use sockstamp_run::escape::quoted;

use crate::recordings::identity;

/// Subcommands whose `-o` names a file for what they print.
const PRINTING: [&str; 8] = [
    "stat", "stuck", "trace", "explain", "report", "diff", "doctor", "ping",
];
/// Subcommands whose `-o` names a file for what they record.
const RECORDING: [&str; 2] = ["record", "pcap"];
/// Extensions of files, and the formats that they promise.
const EXTENSIONS: [(&str, &str); 6] = [
    ("json", "json"),
    ("jsonl", "json"),
    ("ndjson", "json"),
    ("csv", "csv"),
    ("tsv", "csv"),
    ("txt", "text"),
];
/// Formats that kubectl(1) and others take behind `-o`.
const FORMATS: [&str; 8] = [
    "json", "jsonl", "ndjson", "csv", "text", "table", "wide", "yaml",
];
/// Letters behind % that strftime(3) fills, as tcpdump(1) does in names of files.
const FILLED: &str = "FTYmdHMSs";

/// Check the name behind `-o`.
pub(crate) fn check(command: &Command, matches: &ArgMatches) -> Result<(), Error> {
    let told = matches.subcommand().and_then(|(name, matches)| {
        let output = typed(matches, "output").or_else(|| typed(matches, "write"))?;
        let subcommand = command.find_subcommand(name)?;
        if let Some(told) = of_command(matches, output) {
            return Some(told);
        }
        match name {
            _ if PRINTING.contains(&name) => of_format(subcommand, matches, output),
            _ if RECORDING.contains(&name) => of_kind(name, output).or_else(|| of_time(output)),
            _ => None,
        }
    });
    match told {
        // The kind of errors that have no context.
        Some(told) => Err(Error::raw(ErrorKind::ArgumentConflict, told)),
        None => Ok(()),
    }
}

/// Return the value of an option, if the subcommand has that option and it was given.
fn typed<'a>(matches: &'a ArgMatches, option: &str) -> Option<&'a OsStr> {
    matches.try_get_raw(option).ok()??.next()
}

/// Return what to type for a file of the command that is measured, as its script: the output would
/// replace it.
fn of_command(matches: &ArgMatches, output: &OsStr) -> Option<String> {
    let file = identity(Path::new(output))?;
    let mut words = matches.try_get_raw("command").ok()??;
    words.find(|word| identity(Path::new(word)) == Some(file))?;
    Some(format!(
        "{} is a file of the command: write to another file",
        quoted(&output.to_string_lossy())
    ))
}

/// Return what to type for a format behind `-o`, or for a file with the extension of another
/// format than is written.
fn of_format(subcommand: &Command, matches: &ArgMatches, output: &OsStr) -> Option<String> {
    let known = formats(subcommand)?;
    let has = |format: &str| known.iter().any(|it| it == format);
    let with = |format: &str| match has(format) {
        true => format!("write --format {format}"),
        false => format!("the formats here are {}", known.join(" and ")),
    };
    let of_extension = |extension: &str| {
        let mut extensions = EXTENSIONS.iter();
        extensions.find(|(it, _)| *it == extension).map(|it| it.1)
    };
    let name = output.to_str()?;
    if FORMATS.contains(&name) {
        let format = of_extension(name).unwrap_or(name);
        let told = with(format);
        return Some(format!("-o names a file, {name} is a format: {told}"));
    }
    let extension = Path::new(name).extension()?.to_str()?;
    let promised = of_extension(extension)?;
    let is_chosen = matches.value_source("format") == Some(ValueSource::CommandLine);
    let written = typed(matches, "format")?;
    (!is_chosen && written != promised).then(|| {
        format!(
            "-o {name} would hold {}: {}",
            written.display(),
            with(promised)
        )
    })
}

fn formats(subcommand: &Command) -> Option<Vec<String>> {
    let mut arguments = subcommand.get_arguments();
    let format = arguments.find(|argument| argument.get_id() == "format")?;
    let values = Arg::get_possible_values(format);
    Some(values.iter().map(|it| it.get_name().to_owned()).collect())
}

/// Return what to type for a capture that would be a recording, or the other way round.
fn of_kind(subcommand: &str, output: &OsStr) -> Option<String> {
    let extension = Path::new(output).extension()?.to_str()?;
    let name = quoted(output.to_str()?);
    match (subcommand, extension) {
        ("record", "pcap" | "pcapng") => Some(format!(
            "record writes no capture: write sockstamp pcap -w {name}"
        )),
        ("pcap", "parquet") => Some(format!(
            "pcap writes no recording: write sockstamp record -o {name}"
        )),
        _ => None,
    }
}

/// Return what to type for a name with places for a time.
fn of_time(output: &OsStr) -> Option<String> {
    let name = output.to_str()?;
    let is_filled = |text: &&str| {
        let mut letters = text.chars();
        let is_known = letters.next().is_some_and(|first| FILLED.contains(first));
        is_known && !letters.next().is_some_and(|next| next.is_ascii_lowercase())
    };
    let has_place = name.split('%').skip(1).any(|text| is_filled(&text));
    has_place.then(|| {
        format!(
            "no time is filled into {name}: record -o FOLDER/ names each file after its time, \
             and in a shell $(date +%F) does"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    fn of(words: &str) -> Option<String> {
        let words = ["sockstamp"].into_iter().chain(words.split(' '));
        let told = crate::parse(words.map(OsString::from)).err()?.to_string();
        Some(
            told.lines()
                .next()?
                .trim_start_matches("error: ")
                .to_owned(),
        )
    }

    #[test]
    fn a_format_is_no_file() {
        for (words, told) in [
            ("stat -o json", "json is a format: write --format json"),
            ("trace -o jsonl", "jsonl is a format: write --format json"),
            ("report -o csv a", "csv is a format: write --format csv"),
            ("stuck -o wide", "the formats here are text and json"),
            ("trace -o csv", "the formats here are text and json"),
            ("ping ::1 -o json", "json is a format: write --format json"),
            (
                "ping ::1 -o csv",
                "csv is a format: the formats here are text and json",
            ),
        ] {
            let line = of(words).unwrap_or_default();
            assert!(line.ends_with(told), "{words}: {line}");
        }
        for words in [
            "stat -o ./json",
            "record -o json",
            "export --perfetto -o json a",
        ] {
            assert_eq!(of(words), None, "{words}");
        }
    }

    #[test]
    fn a_file_of_the_command_is_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let [script, other] = ["a.py", "out"].map(|name| directory.path().join(name));
        std::fs::write(&script, "pass").unwrap();
        let [script, other] = [&script, &other].map(|path| path.display().to_string());
        for begin in ["pcap -w", "stat -o", "trace -o", "explain -o", "record -o"] {
            let told = of(&format!("{begin} {script} -- python3 {script}")).unwrap_or_default();
            assert!(
                told.ends_with("a file of the command: write to another file"),
                "{begin}: {told}"
            );
            assert_eq!(of(&format!("{begin} {other} -- python3 {script}")), None);
        }
    }

    #[test]
    fn an_extension_and_the_format_agree() {
        let told = "-o r.json would hold text: write --format json";
        assert_eq!(of("report a -o r.json").as_deref(), Some(told));
        let told = "-o r.csv would hold text: the formats here are text and json";
        assert_eq!(of("trace -o r.csv").as_deref(), Some(told));
        for words in [
            "stat -o r.json --format json",
            "stat -o r.csv --format text",
            "stat -o r.txt",
            "stat -o r",
            "join a b -o r.json",
        ] {
            assert_eq!(of(words), None, "{words}");
        }
    }

    #[test]
    fn a_capture_is_no_recording() {
        for (words, told) in [
            ("record -o a.pcap", "write sockstamp pcap -w a.pcap"),
            (
                "record -o a.pcapng -d 2",
                "write sockstamp pcap -w a.pcapng",
            ),
            ("pcap -w a.parquet", "write sockstamp record -o a.parquet"),
        ] {
            let line = of(words).unwrap_or_default();
            assert!(line.ends_with(told), "{words}: {line}");
        }
        for words in ["record -o pcap", "pcap -w a.cap", "record -o a.d/"] {
            assert_eq!(of(words), None, "{words}");
        }
    }

    #[test]
    fn no_time_is_filled_into_a_name() {
        let told = of("record -o a-%F.parquet").unwrap_or_default();
        assert!(told.contains("record -o FOLDER/"), "{told}");
        assert!(of("pcap -w a-%H%M.pcapng").is_some());
        for words in [
            "record -o 100%",
            "record -o a-50%-load.parquet",
            "record -o 50%small.parquet",
            "stat -o %F",
        ] {
            assert_eq!(of(words), None, "{words}");
        }
    }
}
