//! `sockstamp stuck`: everything that waits now.

mod recorded;

use std::io::{self, IsTerminal, Write};
use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use sockstamp_bpf::Stuck;
use sockstamp_bpf::stuck::{Look, Open};
use sockstamp_model::clock::Nanos;
use sockstamp_run::duration::{duration, interval};
use sockstamp_run::escape;
use sockstamp_run::life::Life;

use crate::options::colours::Colours;
use crate::options::source::Source;
use crate::print::colour::Brush;
use crate::print::open_waits::{self, Places};
use crate::print::output::Format;

/// The version of the JSON: it changes when a key that exists changes.
const VERSION: u32 = 1;

/// Exit status if something waits longer than `--slow`, with `--fail`.
const WAITING: u8 = 3;

/// Clear a terminal, and begin at its top: ECMA-48, ED and CUP.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// What no look can know.
const UNSEEN: &str = "open questions over UDP and waits on Unix sockets leave nothing to see";

/// Time between looks of `--for`.
const BETWEEN: Duration = Duration::from_millis(100);

/// Options of `stuck`.
#[derive(Debug, Args)]
// A look sees no connection begin.
#[command(mut_arg("new_only", |arg| arg.hide(true).conflicts_with("slow")))]
pub struct Options {
    #[command(flatten)]
    /// Recordings, or the target.
    pub source: Source,
    /// List what waits at least this long: a number with us, ms, s (default), m or h
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10ms")]
    pub slow: Duration,
    /// Below each wait, print what stands behind it, how to check it, and its usual cure
    #[arg(long)]
    pub why: bool,
    /// Exit with status 3 if something waits at least this long
    #[arg(long, conflicts_with = "watch")]
    pub fail: bool,
    /// Look again and again until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// The time between looks of --watch: a number with us, ms, s (default), m or h
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s", requires = "watch")]
    pub interval: Duration,
    /// Look for this long before anything is listed: a number with us, ms, s (default), m or h
    ///
    /// Only what waits at the end is listed. Several looks show how long a request is not read, and
    /// which senders go on without an answer: nobody waits for one there.
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "watch")]
    pub looking: Option<Duration>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The colours of text.
    #[command(flatten)]
    pub colours: Colours,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(recordings) = options.source.recordings()? {
        return recorded::run(&recordings, options);
    }
    let mut stuck = Stuck::start(&options.source.target.resolve()?)?;
    match options.watch {
        true => watch(options, &mut stuck),
        false => once(options, &mut stuck),
    }
}

fn once(options: &Options, stuck: &mut Stuck) -> Result<ExitCode> {
    let look = match options.looking {
        Some(time) => look_for(time, stuck)?,
        None => look_now(options.slow, stuck)?,
    };
    let listed = listed(&look, options.slow.into());
    tell(options, &look, &listed)?;
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
    if !look.unread {
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

fn watch(options: &Options, stuck: &mut Stuck) -> Result<ExitCode> {
    let clears = options.format == Format::Text && io::stdout().is_terminal();
    let mut life = Life::new(None)?;
    let mut next = Instant::now();
    life.last(|_, signal| {
        let look = stuck.look()?;
        if clears {
            write!(io::stdout(), "{CLEAR}").context("cannot print")?;
        }
        tell(options, &look, &listed(&look, options.slow.into()))?;
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

/// Print a look.
fn tell(options: &Options, look: &Look, listed: &[&Open]) -> Result<()> {
    let mut output = io::stdout().lock();
    let brush = options.colours.brush(output.is_terminal());
    let printed = match options.format {
        Format::Text => lines(options.slow.into(), look, listed, options.why, brush)
            .into_iter()
            .try_for_each(|line| writeln!(output, "{line}")),
        Format::Json => json(&mut output, options, look, listed),
    };
    self::printed(printed.and_then(|()| output.flush()))
}

/// A reader that has seen enough is no failure.
fn printed(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot print")
        }
        _ => Ok(()),
    }
}

/// Return what waits as lines, and how many there are, or none; if asked, `why` below each.
pub(crate) fn lines(
    slow: Nanos,
    look: &Look,
    listed: &[&Open],
    why: bool,
    brush: Brush,
) -> Vec<String> {
    let places = Places::of(listed.iter().map(|open| &open.wait));
    let sockets = look.visited;
    let count = match listed.len() {
        0 => format!("nothing waits {slow} or longer"),
        1 => format!("1 wait of {slow} or longer"),
        count => format!("{count} waits of {slow} or longer"),
    };
    let lines = listed.iter().flat_map(|open| {
        let line = open_waits::line(open, &places, brush);
        let reasons = why.then(|| open_waits::why(&open.wait));
        [line].into_iter().chain(reasons.into_iter().flatten())
    });
    let last = format!("{count} on {sockets} TCP sockets; {UNSEEN}");
    lines.chain([last]).collect()
}

/// The object of `--format json`.
#[derive(Serialize)]
struct Json<'a> {
    version: u32,
    slow_ns: Nanos,
    sockets: u64,
    unseen: [&'static str; 2],
    waits: Vec<open_waits::Json<'a>>,
}

fn json(
    output: &mut dyn Write,
    options: &Options,
    look: &Look,
    listed: &[&Open],
) -> io::Result<()> {
    let object = Json {
        version: VERSION,
        slow_ns: Nanos::from(options.slow),
        sockets: look.visited,
        unseen: ["udp", "unix"],
        waits: listed
            .iter()
            .map(|open| open_waits::Json::new(open, options.why))
            .collect(),
    };
    escape::json(&mut *output, &object)?;
    writeln!(output)
}
