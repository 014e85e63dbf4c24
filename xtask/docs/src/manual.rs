//! Man pages and shell completions, from the definition of the command line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use sockstamp_cli::Cli;

use crate::files::Files;
use crate::root_page;

pub(crate) const PAGES: &str = "docs/man";
pub(crate) const COMPLETIONS: &str = "docs/completions";

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
    Ok((Path::new(PAGES).join(format!("{name}.1")), contents))
}

/// Render like `Man::render`, but with the synopsis of `--help`: clap_mangen's leaves out the `--`
/// before a command and its repetition.
fn render(man: &Man, usage: &str, page: &mut impl Write) -> io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    let synopsis = usage.trim_start_matches("Usage: ").replace('-', "\\-");
    writeln!(page, ".SH SYNOPSIS\n{synopsis}")?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    let file = man.get_filename();
    let name = file.trim_start_matches("sockstamp-").trim_end_matches(".1");
    if file == ROOT_PAGE {
        man.render_subcommands_section(page)?;
        return root_page::render(page);
    }
    root_page::examples_of(name, page)
}

/// Under the names that each shell looks for.
pub(crate) fn completions() -> Files {
    [
        (Shell::Bash, "sockstamp.bash"),
        (Shell::Zsh, "_sockstamp"),
        (Shell::Fish, "sockstamp.fish"),
    ]
    .into_iter()
    .map(|(shell, file)| {
        let mut contents = Vec::new();
        clap_complete::generate(shell, &mut visible(), "sockstamp", &mut contents);
        (Path::new(COMPLETIONS).join(file), contents)
    })
    .collect()
}

/// The command line without its hidden subcommands, which clap_complete would offer, and without
/// `help`, which adds nothing to the pages.
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
