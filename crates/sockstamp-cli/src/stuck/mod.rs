//! `sockstamp stuck`: everything that waits now.

mod options;
mod recorded;

use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use sockstamp_bpf::Stuck;
use sockstamp_bpf::stuck::{Look, Open};
use sockstamp_model::clock::Nanos;
use sockstamp_run::escape;
use sockstamp_run::life::Life;

use crate::print::colour::Brush;
use crate::print::destination::Stream;
use crate::print::numbers::counted;
use crate::print::open_waits::{self, Places};
use crate::print::output::{self, Format};
use crate::print::peers::{Peer, Peers};
use crate::recordings::Recordings;
pub use options::Options;
use options::{VERSION, WAITING};

/// Clear a terminal, and begin at its top: ECMA-48, ED and CUP.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// What no look can know.
const UNSEEN: &str = "open questions over UDP and waits on Unix sockets leave nothing to see";

/// Time between looks of `--for`.
const BETWEEN: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(recordings) = Recordings::named(&options.source)? {
        return recorded::run(&recordings, options);
    }
    let mut output = options.output.open(Stream::Output)?;
    let mut stuck = Stuck::start(&options.source.target.resolve()?)?;
    match options.watch {
        true => watch(options, &mut stuck, &mut *output),
        false => once(options, &mut stuck, &mut *output),
    }
}

fn once(options: &Options, stuck: &mut Stuck, output: &mut dyn Write) -> Result<ExitCode> {
    let look = match options.looking {
        Some(time) => look_for(time, stuck)?,
        None => look_now(options.slow, stuck)?,
    };
    let (listed, peers) = with_peers(&look, options.slow.into(), stuck)?;
    tell(options, &look, &listed, &peers, output)?;
    Ok(match listed[..] {
        [_, ..] if options.fail => ExitCode::from(WAITING),
        _ => ExitCode::SUCCESS,
    })
}

/// Look once, and once more where only that tells whether something waits for this long.
fn look_now(slow: Duration, stuck: &mut Stuck) -> Result<Look> {
    /// Longest delay before the list.
    const PATIENCE: Duration = Duration::from_millis(100);
    let look = stuck.look()?;
    if !look.is_doubtful {
        return Ok(look);
    }
    thread::sleep(slow.min(PATIENCE));
    Ok(stuck.look()?)
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
    life.last(|_, signal| {
        let look = stuck.look()?;
        if clears {
            write!(output, "{CLEAR}").context("cannot print")?;
        }
        let (listed, peers) = with_peers(&look, options.slow.into(), stuck)?;
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

/// Return what waits long enough, the oldest first.
pub(crate) fn listed(look: &Look, slow: Nanos) -> Vec<&Open> {
    let long = |open: &&Open| open.wait.lasted >= slow;
    look.open.iter().filter(long).collect()
}

/// Return the same, and the programs that are waited for.
fn with_peers<'a>(look: &'a Look, slow: Nanos, stuck: &Stuck) -> Result<(Vec<&'a Open>, Peers)> {
    let listed = listed(look, slow);
    let peers = Peers::of(&listed, || Ok(stuck.unmoved()?))?;
    Ok((listed, peers))
}

/// Return the waits that may have lasted for this long, and are not known to.
fn doubtful(look: &Look, slow: Nanos) -> impl Iterator<Item = &Open> {
    let is_so = move |open: &&Open| open.at_least && open.wait.lasted < slow;
    look.open.iter().filter(is_so)
}

/// Return the count of waits, as far as it is known.
fn count(look: &Look, listed: &[&Open], slow: Nanos) -> String {
    let unknown: Vec<Nanos> = doubtful(look, slow).map(|open| open.wait.lasted).collect();
    let (known, unknown) = match unknown.iter().max() {
        None => (" waits", String::new()),
        Some(least) => (
            " is known to wait",
            of_unknown_age(unknown.len(), *least, slow),
        ),
    };
    let count = match listed.len() {
        0 => format!("nothing{known} {slow} or longer"),
        count => format!("{} of {slow} or longer", counted(count as u64, "wait")),
    };
    let sockets = counted(look.visited, "TCP socket");
    format!("{count}{unknown} on {sockets}; {UNSEEN}")
}

/// Tell of waits that may be longer.
fn of_unknown_age(count: usize, least: Nanos, slow: Nanos) -> String {
    let one_of_them = if count > 1 { "one of them " } else { "" };
    format!(
        ", and {count} for an unknown time, {one_of_them}at least {least} (stuck --for {} tells),",
        typed(slow)
    )
}

/// Return a time as options take it.
fn typed(time: Nanos) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let whole = units
        .into_iter()
        .find(|(unit, _)| time.0.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or((1_000, "us"));
    format!("{}{name}", time.0.div_ceil(unit))
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
    let places = Places::of(listed.iter().map(|open| &open.wait));
    let printed = match options.format {
        Format::Text => lines(slow, look, listed, peers, &places, options.why, brush)
            .into_iter()
            .try_for_each(|line| writeln!(output, "{line}")),
        Format::Json => json(output, options, look, listed, peers),
    };
    let printed = printed.and_then(|()| output.flush());
    output::unless_unread(printed.context("cannot print"))
}

/// Return what waits as lines, and how many there are, or none; if asked, `why` below each.
pub(crate) fn lines(
    slow: Nanos,
    look: &Look,
    listed: &[&Open],
    peers: &Peers,
    places: &Places,
    why: bool,
    brush: Brush,
) -> Vec<String> {
    let lines = listed.iter().flat_map(|open| {
        let peer = peers.get(&open.wait).map(Peer::words);
        let line = open_waits::line(open, places, brush) + &peer.unwrap_or_default();
        let reasons = why.then(|| open_waits::why(&open.wait));
        [line].into_iter().chain(reasons.into_iter().flatten())
    });
    lines.chain([count(look, listed, slow)]).collect()
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
    let object = Json {
        version: VERSION,
        slow_ns: Nanos::from(options.slow),
        sockets: look.visited,
        of_unknown_age: doubtful(look, options.slow.into()).count(),
        unseen: ["udp", "unix"],
        waits: listed
            .iter()
            .map(|open| open_waits::Json::new(open, peers.get(&open.wait), options.why))
            .collect(),
    };
    escape::json(&mut *output, &object)?;
    writeln!(output)
}
