//! Man pages and shell completions, from the definition of the command line.

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use sockstamp_cli::cli::Cli;

use crate::Files;

pub(crate) const PAGES: &str = "docs/man";
pub(crate) const COMPLETIONS: &str = "docs/completions";

/// A page for the program and one for each subcommand, as git(1) has it.
pub(crate) fn pages() -> Result<Files> {
    let mut root = visible();
    // Gives the subcommands their full names.
    root.build();
    let mut files = Files::from([page(root.clone())?]);
    for subcommand in root.get_subcommands() {
        files.extend([page(subcommand.clone())?]);
    }
    Ok(files)
}

fn page(command: Command) -> Result<(std::path::PathBuf, Vec<u8>)> {
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    let mut contents = Vec::new();
    Man::new(command)
        .render(&mut contents)
        .with_context(|| format!("cannot render the page of {name}"))?;
    Ok((Path::new(PAGES).join(format!("{name}.1")), contents))
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
/// `help`, which says nothing that the pages do not.
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
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(subcommands)
}
