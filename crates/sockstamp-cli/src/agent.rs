//! `sockstamp agent`: the options of the daemon.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use sockstamp_model::name::Escaped;

/// A request to an agent that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Action {
    /// Keep the files of the last minutes, and print their directory
    Snapshot,
}

/// Options of `agent`.
#[derive(Debug, Args)]
pub struct Options {
    /// Send this request to the running agent, at the address of --listen or of the file
    #[arg(value_enum, conflicts_with = "check")]
    pub action: Option<Action>,
    /// Read settings from this file, and reload it on SIGHUP; --print-settings lists them
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the file of --config, and exit
    #[arg(long, requires = "config")]
    pub check: bool,
    /// Print the settings of the file of --config, with the defaults of others, and exit
    #[arg(long, conflicts_with_all = ["action", "check"])]
    pub print_settings: bool,
    /// Serve HTTP at this address, instead of the file's [default: 127.0.0.1:9776]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = sockstamp_agent::listen_address)]
    pub listen: Option<SocketAddr>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let settings = sockstamp_agent::Options {
        config: options.config.clone(),
        listen: options.listen,
    };
    match options.action {
        Some(Action::Snapshot) => {
            let directory = sockstamp_agent::snapshot(&settings)?;
            writeln!(io::stdout(), "{}", Escaped(directory.as_bytes())).context("cannot write")?;
        }
        None if options.print_settings => {
            let settings = sockstamp_agent::settings(&settings)?;
            // Names that others chose are quoted there.
            io::stdout()
                .write_all(settings.as_bytes())
                .context("cannot write")?;
        }
        None if options.check => {
            sockstamp_agent::check(&settings)?;
            let file = options.config.clone().unwrap_or_default();
            writeln!(io::stdout(), "{}: good", file.display()).context("cannot write")?;
        }
        None => sockstamp_agent::run(&settings)?,
    }
    Ok(ExitCode::SUCCESS)
}
