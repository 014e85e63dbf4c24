//! `sockstamp completions`: the service for applications that use the library.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use anyhow::{Context, Result};
use nix::unistd::Group;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe;
use sockstamp_bpf::completions::{Limits, Listener, Publisher, Server};

use crate::cli;
use crate::escape::complain;

pub(crate) fn run(options: &cli::Completions) -> Result<ExitCode> {
    if options.status {
        status(options)?;
    } else {
        serve(options)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(options: &cli::Completions) -> Result<()> {
    let group = options.group.as_deref().map(group_id).transpose()?;
    let (stop, stopped) = UnixStream::pair().context("cannot catch signals")?;
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        let stopped = stopped.try_clone().context("cannot catch signals")?;
        pipe::register(signal, stopped).context("cannot catch signals")?;
    }
    let publisher = Publisher::attach(options.applications, options.sockets)?;
    let listener = Listener::bind(&options.socket, options.mode, group)?;
    let limits = Limits {
        applications: options.applications,
        of_a_user: options.per_user,
    };
    let mut server = Server::new(publisher, listener, limits, |line| complain(line))?;
    complain(format_args!(
        "applications connect to {}",
        options.socket.display()
    ));
    server.serve(stop.as_fd())?;
    Ok(())
}

fn status(options: &cli::Completions) -> Result<()> {
    let status = sockstamp::completions::status(&options.socket)?;
    writeln!(
        io::stdout(),
        "{} applications, {} sockets, {} requests refused, {} entries torn",
        status.applications,
        status.sockets,
        status.refused,
        status.torn
    )
    .context("cannot write")
}

fn group_id(name: &str) -> Result<u32> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let group = Group::from_name(name).with_context(|| format!("cannot look up the group {name}"))?;
    let group = group.with_context(|| format!("there is no group {name}"))?;
    Ok(group.gid.as_raw())
}
