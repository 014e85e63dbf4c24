//! `sockstamp stuck`: everything that waits now.

mod options;
mod recorded;

use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use sockstamp_bpf::Stuck;
use sockstamp_bpf::stuck::{Look, Open};
use sockstamp_host::owner::Owners;
use sockstamp_model::clock::Nanos;
use sockstamp_print::destination::Stream;
use sockstamp_print::listing::{doubtful, lines, listed, listed_unix, namespaces};
use sockstamp_print::open_waits::{self, Places};
use sockstamp_print::output::{self, Format};
use sockstamp_print::peers::Peers;
use sockstamp_run::escape::{self, complain};
use sockstamp_run::life::Life;
use sockstamp_run::target::names_without_process;

use crate::recordings::Recordings;
pub use options::Options;
use options::{VERSION, WAITING};

/// Clear a terminal, and begin at its top: ECMA-48, ED and CUP.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Time between looks of `--for`.
const BETWEEN: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(recordings) = Recordings::named(&options.source)? {
        return recorded::run(&recordings, options);
    }
    let mut output = options.output.open(Stream::Output)?;
    let target = options.source.target.resolve()?;
    tell_nameless(&target.comms, options.fail)?;
    let mut stuck = Stuck::start(&target)?;
    match options.watch {
        true => watch(options, &mut stuck, &mut *output),
        false => once(options, &mut stuck, &mut *output),
    }
}

/// Report names that no process has. Nothing waits then: `--fail` would pass a typing error.
fn tell_nameless(comms: &[String], fails: bool) -> Result<()> {
    let nameless = names_without_process(comms);
    if fails && !comms.is_empty() && nameless.len() == comms.len() {
        bail!(
            "no process is named {}: nothing is looked at",
            nameless.join(" or ")
        );
    }
    for name in nameless {
        complain(format_args!("no process is named {name}"));
    }
    Ok(())
}

fn once(options: &Options, stuck: &mut Stuck, output: &mut dyn Write) -> Result<ExitCode> {
    let look = match options.looking {
        Some(time) => look_for(time, stuck)?,
        None => look_now(options.slow, stuck)?,
    };
    let mut owners = Owners::default();
    let (listed, peers) = with_peers(&look, options.slow.into(), stuck, &mut owners)?;
    tell(options, &look, &listed, &peers, output)?;
    let waits = !listed.is_empty() || !listed_unix(&look, options.slow.into()).is_empty();
    Ok(match waits && options.fail {
        true => ExitCode::from(WAITING),
        false => ExitCode::SUCCESS,
    })
}

/// Look once, and once more where only that tells whether something waits for this long.
fn look_now(slow: Duration, stuck: &mut Stuck) -> Result<Look> {
    /// Longest delay before the list.
    const PATIENCE: Duration = Duration::from_millis(100);
    /// An event loop may be busy for so long.
    const BRIEFLY: Duration = Duration::from_millis(50);
    let mut look = stuck.look()?;
    let patience = slow.min(PATIENCE);
    if look.has_least_ages || look.has_unwatched_requests {
        thread::sleep(patience);
        look = stuck.look()?;
    }
    for _ in 0..2 {
        if look.has_unconfirmed {
            thread::sleep(patience.max(BRIEFLY));
            look = stuck.look()?;
        }
    }
    Ok(look)
}

fn look_for(time: Duration, stuck: &mut Stuck) -> Result<Look> {
    let end = Instant::now() + time;
    let mut look = stuck.look()?;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(look);
        }
        thread::sleep(left.min(BETWEEN));
        look = stuck.look()?;
    }
}

fn watch(options: &Options, stuck: &mut Stuck, output: &mut dyn Write) -> Result<ExitCode> {
    let is_terminal = options.output.is_terminal(Stream::Output);
    let clears = options.format == Format::Text && is_terminal;
    let mut life = Life::new(None)?;
    let mut next = Instant::now();
    let mut owners = Owners::default();
    life.last(|_, signal| {
        let look = stuck.look()?;
        if clears {
            write!(output, "{CLEAR}").context("cannot print")?;
        }
        let (listed, peers) = with_peers(&look, options.slow.into(), stuck, &mut owners)?;
        tell(options, &look, &listed, &peers, output)?;
        next += options.interval;
        wait(next, signal)?;
        Ok(!stuck.has_outlived_its_target() || options.source.target.keep)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Wait until this time, or for a signal.
fn wait(until: Instant, signal: BorrowedFd<'_>) -> Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let mut watched = [PollFd::new(signal, PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
    match poll(&mut watched, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno).context("cannot wait"),
    }
}

/// Return what waits long enough, and the programs that are waited for.
fn with_peers<'a>(
    look: &'a Look,
    slow: Nanos,
    stuck: &Stuck,
    owners: &mut Owners,
) -> Result<(Vec<&'a Open>, Peers)> {
    let listed = listed(look, slow);
    let unix = listed_unix(look, slow);
    let peers = Peers::of(&listed, &unix, owners, || Ok(stuck.unmoved()?))?;
    Ok((listed, peers))
}

/// Print a look.
fn tell(
    options: &Options,
    look: &Look,
    listed: &[&Open],
    peers: &Peers,
    output: &mut dyn Write,
) -> Result<()> {
    let brush = options.colours.brush_for(&options.output, Stream::Output);
    let slow = options.slow.into();
    let places = Places::of_namespaces(namespaces(look, slow));
    let printed = match options.format {
        Format::Text => lines(slow, look, listed, peers, &places, options.why, brush)
            .into_iter()
            .try_for_each(|line| writeln!(output, "{line}")),
        Format::Json => json(output, options, look, listed, peers),
    };
    let printed = printed.and_then(|()| output.flush());
    output::unless_unread(printed.context("cannot print"))
}

/// The object of `--format json`.
#[derive(Serialize)]
struct Json<'a> {
    version: u32,
    slow_ns: Nanos,
    sockets: u64,
    /// Waits that may have lasted as long, and are not known to.
    of_unknown_age: usize,
    unseen: [&'static str; 2],
    waits: Vec<open_waits::Json<'a>>,
}

fn json(
    output: &mut dyn Write,
    options: &Options,
    look: &Look,
    listed: &[&Open],
    peers: &Peers,
) -> io::Result<()> {
    let slow = Nanos::from(options.slow);
    let of_tcp = listed.iter().map(|open| {
        let json = open_waits::Json::new(open, peers.get(&open.wait), options.why);
        (open.wait.since, json)
    });
    let of_unix = listed_unix(look, slow).into_iter().map(|open| {
        let json = open_waits::Json::of_unix(open, peers.of_unix(open));
        (open.wait.since, json)
    });
    let mut waits: Vec<_> = of_tcp.chain(of_unix).collect();
    waits.sort_by_key(|(since, _)| *since);
    let object = Json {
        version: VERSION,
        slow_ns: slow,
        sockets: look.visited,
        of_unknown_age: doubtful(look, slow).count(),
        unseen: ["udp", "unix"],
        waits: waits.into_iter().map(|(_, json)| json).collect(),
    };
    escape::json(&mut *output, &object)?;
    writeln!(output)
}
