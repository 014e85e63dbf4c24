//! Suggest the intended command for common mistakes in a command line.

mod begun;
mod files;
mod lists;
mod misused;
mod processes;
mod program;
mod spelled;
mod table;
mod taken;
mod values;
mod wrong_word;

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;

use crate::options::filter::FILTER_WORDS;
use crate::options::wrong_filter;
use files::{CAPTURES, is_recording};
use processes::is_process;
use program::is_program;
use table::{AGENT, has_word};
use taken::{is_taken, line as typed, quoted};

/// Return what is wrong with these arguments and what to type, in one line, if that is known.
pub(crate) fn line(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if !error.use_stderr() || arguments.len() < 2 {
        return None;
    }
    let words: Vec<String> = (arguments.iter().skip(1))
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    begun::of_dashes(&words, line)
        .or_else(|| of_sleep(error, &words))
        .or_else(|| spelled::of_one_hyphen(&words))
        .or_else(|| of_completions(arguments))
        .or_else(|| of_no_command(&words))
        .or_else(|| of_page(&words))
        .or_else(|| of_table(&words))
        .or_else(|| lists::line(&words))
        .or_else(|| of_agent(&words))
        .or_else(|| processes::none(&words))
        .or_else(|| processes::several(&words, is_process))
        .or_else(|| of_namespace(error, &words))
        .or_else(|| spelled::instead(error, arguments))
        .or_else(|| of_files(&words))
        .or_else(|| of_filter(error, &words))
        .or_else(|| wrong_word::hint(&words, is_program, |word| Path::new(word).exists()))
        .or_else(|| begun::line(error, &words, line))
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

/// Return what to type for a command behind a subcommand that runs none.
fn of_no_command(words: &[String]) -> Option<String> {
    let subcommand = words.first()?;
    let runs_none = ["stuck", "top"].contains(&subcommand.as_str());
    let command = words.get(taken::end(words)..).filter(|it| it.len() > 1)?;
    let line = [&["stat".to_owned()], command].concat();
    (runs_none && is_taken(&line))
        .then(|| format!("{subcommand} runs no command: {}", typed(&line)))
}

/// Return what to type for a recording in the place of the page that `report` writes.
fn of_page(words: &[String]) -> Option<String> {
    let place = words.iter().position(|word| word == "--html")? + 1;
    let recording = words.get(place).filter(|word| is_recording(word))?;
    let line = taken::replaced(words, place..place, &["OUT".to_owned()]);
    is_taken(&line).then(|| {
        format!(
            "--html takes the page, {recording} is read: {}",
            typed(&line)
        )
    })
}

/// Return what to type for a table that `export` does not write.
fn of_table(words: &[String]) -> Option<String> {
    let (subcommand, rest) = words.split_first()?;
    let is_table = |word: &&String| *word == "csv" || word.ends_with(".csv");
    let table = rest.iter().find(is_table)?;
    let output = match table.as_str() {
        "csv" => vec![],
        file => vec!["-o".to_owned(), file.to_owned()],
    };
    let files = rest.iter().filter(|word| is_recording(word)).cloned();
    let line = [taken::words("report --format csv"), files.collect(), output].concat();
    (subcommand == "export" && is_taken(&line))
        .then(|| format!("a table is of report: {}", typed(&line)))
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
    if let Some((_, told)) = AGENT.iter().find(|(names, _)| has_word(names, first)) {
        return Some(format!("agent has no {first}: {told}"));
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
    let mut written = taken::replaced(words, place..place + 1, &with);
    // A file that is read and one that is written may both lack their options.
    if let Some(read) = written.iter().position(|word| is_recording(word))
        && written[read - 1] != "-r"
    {
        written.insert(read, "-r".to_owned());
    }
    (subcommand == "pcap" && is_taken(&written))
        .then(|| format!("to write to it: {}", typed(&written)))
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
