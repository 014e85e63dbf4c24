//! Man pages and shell completions, from the definition of the command line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use clap_mangen::Man;
use sockstamp_cli::Cli;

use crate::files::Files;
use crate::{closing, root_page};

/// The day of the last change to what pages say.
pub(crate) const DATE: &str = "2026-11-30";

pub(crate) const PAGES: &str = "docs/man";
pub(crate) const COMPLETIONS: &str = "docs/completions";

/// The program.
const NAME: &str = "sockstamp";

/// The only one that has subcommands.
const ROOT_PAGE: &str = "sockstamp.1";

/// A page for the program and one for each subcommand, as git(1) has it.
pub(crate) fn pages() -> Result<Files> {
    let mut root = visible();
    // Give the subcommands their full names.
    root.build();
    let mut files = Files::from([page(root.clone())?]);
    for subcommand in root.get_subcommands() {
        files.extend([page(subcommand.clone())?]);
    }
    Ok(files)
}

fn page(mut command: Command) -> Result<(PathBuf, Vec<u8>)> {
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    let usage = command.render_usage().to_string();
    let mut contents = Vec::new();
    render(&Man::new(command), &usage, &mut contents)
        .with_context(|| format!("cannot render the page of {name}"))?;
    let page = tidy(&String::from_utf8(contents)?);
    Ok((
        Path::new(PAGES).join(format!("{name}.1")),
        page.into_bytes(),
    ))
}

/// Render like `Man::render`, but with the synopsis of `--help`: clap_mangen's leaves out the `--`
/// before a command and its repetition.
fn render(man: &Man, usage: &str, page: &mut impl Write) -> io::Result<()> {
    let file = man.get_filename();
    title(file.trim_end_matches(".1"), page)?;
    man.render_name_section(page)?;
    let synopsis = usage.trim_start_matches("Usage: ").replace('-', "\\-");
    writeln!(page, ".SH SYNOPSIS\n{synopsis}")?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    let name = file.trim_start_matches("sockstamp-").trim_end_matches(".1");
    if file == ROOT_PAGE {
        man.render_subcommands_section(page)?;
        root_page::render(page)?;
        return closing::render("", page);
    }
    root_page::examples_of(name, page)?;
    closing::render(name, page)
}

/// Write the title, as mandoc(1) wants it: with a date, the version, and capitals.
fn title(name: &str, page: &mut impl Write) -> io::Result<()> {
    let (name, version) = (name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    writeln!(
        page,
        ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH {name} 1 {DATE} \"sockstamp {version}\""
    )
}

/// Write lines as mandoc(1) wants them: up to 80 bytes, a sentence begins a line, and an empty line
/// has no breaks beside it. Code keeps its lines.
pub(crate) fn tidy(page: &str) -> String {
    let mut tidied = String::new();
    let mut is_code = false;
    for line in page.replace(".br\n\n.br\n", ".sp\n").lines() {
        is_code = line == ".nf" || is_code && line != ".fi";
        match line.trim_end() {
            line if is_code || line.starts_with(['.', '\'']) => tidied.extend([line, "\n"]),
            line => wrapped(line, &mut tidied),
        }
    }
    tidied
}

/// Break a line of text at spaces. A line that begins with a dot or a quote would be a request.
fn wrapped(line: &str, tidied: &mut String) {
    const WIDTH: usize = 78;
    let mut width = 0;
    let mut ends_sentence = false;
    for word in line.split(' ') {
        let fits = width + 1 + word.len() <= WIDTH && !ends_sentence;
        let is_request = word.is_empty() || word.starts_with(['.', '\'']);
        match width {
            0 => {}
            _ if fits || is_request => {
                tidied.push(' ');
                width += 1;
            }
            _ => {
                tidied.push('\n');
                width = 0;
            }
        }
        tidied.push_str(word);
        width += word.len();
        ends_sentence = word.ends_with(['.', '?', '!']);
    }
    tidied.push('\n');
}

/// Under the names that each shell looks for: scripts that ask the program at TAB.
pub(crate) fn completions() -> Result<Files> {
    let shells: [(&dyn EnvCompleter, &str); 3] = [
        (&Bash, "sockstamp.bash"),
        (&Zsh, "_sockstamp"),
        (&Fish, "sockstamp.fish"),
    ];
    let script = |(shell, file): (&dyn EnvCompleter, &str)| {
        let mut contents = Vec::new();
        shell.write_registration("COMPLETE", NAME, NAME, NAME, &mut contents)?;
        anyhow::Ok((Path::new(COMPLETIONS).join(file), contents))
    };
    shells.into_iter().map(script).collect()
}

/// The command line without its hidden subcommands, and without `help`, which adds nothing to the
/// pages.
fn visible() -> Command {
    let whole = Cli::command();
    let subcommands: Vec<_> = whole
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
        .cloned()
        .collect();
    Command::new("sockstamp")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .args(whole.get_arguments().cloned())
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(subcommands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_begin_with_sentences() {
        let long = "word ".repeat(20);
        let told = tidy(&format!("One. Two\n.SH A\n.br\n\n.br\n{long}\n"));
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines[..4], ["One.", "Two", ".SH A", ".sp"]);
        assert!(lines.iter().all(|line| line.len() <= 80), "{told}");
        assert_eq!(told.matches("word").count(), 20);
    }

    /// A word that begins with a dot would be a request.
    #[test]
    fn no_word_becomes_a_request() {
        let words = format!("{} .parquet 'x' more", "a".repeat(78));
        assert!(
            tidy(&words)
                .lines()
                .all(|line| !line.starts_with(['.', '\'']))
        );
    }
}
