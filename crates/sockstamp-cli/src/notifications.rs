//! `sockstamp notifications`: the service for applications that use the library.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use nix::unistd::Group;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe;
use sockstamp::completions::protocol::Status;
use sockstamp_bpf::completions::{Limits, Listener, Publisher, Server};
use sockstamp_print::output::Format;
use sockstamp_run::escape::{complain, inform};
use sockstamp_run::stall::Watch;

/// The version of the JSON: it changes when a key that exists changes.
const VERSION: u32 = 1;

/// Options of `notifications`.
#[derive(Debug, Args)]
pub struct Options {
    /// The Unix socket for applications; its directory is created if missing
    #[arg(long, value_name = "PATH", default_value = sockstamp::completions::DEFAULT_PATH)]
    pub socket: PathBuf,
    /// Permissions of the socket, in octal digits as for chmod(1)
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = mode)]
    pub mode: u32,
    /// The group of the socket: a name or a number
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Serve up to N applications at once, and as many areas of memory
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=4096),
    )]
    pub applications: u32,
    /// Serve up to N applications per user at once; memory that an earlier one keeps still counts
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    pub per_user: u32,
    /// Provide N slots for sockets per application, of 4672 bytes each
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=65536),
    )]
    pub sockets: u32,
    /// Print the use of the running service, and exit
    #[arg(long)]
    pub status: bool,
    /// Output format of --status
    #[arg(long, value_enum, default_value_t, requires = "status")]
    pub format: Format,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.status {
        status(options)?;
    } else {
        serve(options)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(options: &Options) -> Result<()> {
    let group = options.group.as_deref().map(group_id).transpose()?;
    let (stop, stopped) = UnixStream::pair().context("cannot catch signals")?;
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        let stopped = stopped.try_clone().context("cannot catch signals")?;
        pipe::register(signal, stopped).context("cannot catch signals")?;
    }
    let _watch = Watch::begin(false, Arc::default())?;
    let publisher = Publisher::attach(options.applications, options.sockets)?;
    let listener = Listener::bind(&options.socket, options.mode, group)?;
    let limits = Limits {
        applications: options.applications,
        of_a_user: options.per_user,
    };
    let mut server = Server::new(publisher, listener, limits, |line| complain(line))?;
    inform(format_args!(
        "applications connect to {}",
        options.socket.display()
    ));
    server.serve(stop.as_fd())?;
    Ok(())
}

fn status(options: &Options) -> Result<()> {
    let status = sockstamp::completions::status(&options.socket);
    let Status {
        applications,
        sockets,
        areas,
        refused,
        torn,
    } = status.context("no service answers")?;
    let text = match options.format {
        Format::Text => format!(
            "{applications} applications, {sockets} sockets, {areas} areas of memory, \
             {refused} requests refused, {torn} entries torn"
        ),
        Format::Json => json!({
            "version": VERSION,
            "applications": applications,
            "sockets": sockets,
            "areas": areas,
            "refused": refused,
            "torn": torn,
        })
        .to_string(),
    };
    writeln!(io::stdout(), "{text}").context("cannot write")
}

fn group_id(name: &str) -> Result<u32> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let group =
        Group::from_name(name).with_context(|| format!("cannot look up the group {name}"))?;
    let group = group.with_context(|| format!("there is no group {name}"))?;
    Ok(group.gid.as_raw())
}

fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("it is three octal digits, such as 660".to_owned()),
    }
}
