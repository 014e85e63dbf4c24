//! Commands that the documents show are such that sockstamp takes.

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use clap::error::ErrorKind;
use sockstamp_cli::Cli;

use crate::files::root;

/// Values that stand for a number in commands.
const NUMBERS: [&str; 2] = ["PID", "SERVER"];

fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.chain([root().join("README.md")]).collect()
}

/// Return the lines of blocks, where a long one goes on in the next, and whether a line is in one.
fn lines(page: &str) -> Vec<(bool, String)> {
    let page = page.replace("\\\n", " ");
    let mut is_fenced = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else {
            lines.push((is_fenced || line.starts_with("    "), line.to_owned()));
        }
    }
    lines
}

/// Return the words of a line as a shell has them, up to a comment, a pipe or a redirection.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            '|' | '>' | '#' if !is_quoted => break,
            other => words.last_mut().unwrap().push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    let number = |word: String| match NUMBERS.contains(&word.as_str()) {
        true => "1".to_owned(),
        false => word,
    };
    words.into_iter().map(number).collect()
}

/// Output of sockstamp begins with its name, too, and has columns.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let shown = line.split('#').next().unwrap_or(line).trim_end();
    (shown.starts_with("sockstamp ") && !shown.contains("  ")).then(|| words(shown))
}

#[test]
fn commands_of_blocks_are_command_lines_that_sockstamp_takes() {
    let mut count = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        let of_blocks = lines(&page).into_iter().filter(|(is_block, _)| *is_block);
        for words in of_blocks.filter_map(|(_, line)| command(&line)) {
            let parsed = Cli::try_parse_from(&words);
            assert!(parsed.is_ok(), "{}: {words:?}: {parsed:?}", path.display());
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
}

/// In sentences, commands may lack what stands behind them.
#[test]
fn commands_of_sentences_have_options_that_there_are() {
    let mut count = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        let text = lines(&page).into_iter().filter(|(is_block, _)| !is_block);
        let text: Vec<_> = text.map(|(_, line)| line).collect();
        let text = text.join(" ");
        let quoted = text.split('`').skip(1).step_by(2);
        for words in quoted.filter_map(command).filter(|words| words.len() > 2) {
            let failed = Cli::try_parse_from(&words).err().map(|error| error.kind());
            let wrong = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
            let is_wrong = failed.is_some_and(|kind| wrong.contains(&kind));
            assert!(!is_wrong, "{}: {words:?}: {failed:?}", path.display());
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}

#[test]
fn words_are_those_of_a_shell() {
    let told = command("sudo sockstamp stat -p PID 'tcp port 1' | head # why");
    let expected = ["sockstamp", "stat", "-p", "1", "tcp port 1"];
    assert!(told.is_some_and(|words| words.iter().eq(&expected)));
    for output in ["sockstamp  0.1.0", "the sockstamp stat"] {
        assert!(command(output).is_none(), "{output}");
    }
}
