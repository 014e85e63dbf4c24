//! `sockstamp join`: whole lives of messages, from the recordings of both hosts.

mod halves;
mod json;
mod lives;
mod offsets;
mod sums;
mod text;
mod waterfall;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_join::sides::{First, Stamp};
use sockstamp_join::{Host, Join, Life, Nat, Settings, Translations, Trust};
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_record::{Detail, Reader};

use crate::duration::with_unit;
use crate::output::Format;
use crate::progress::Progress;
use crate::recordings::{files, open};

use halves::{Halves, Recorded};
use lives::Lives;
use sums::Sums;

/// Options of `join`.
#[derive(Debug, Args)]
pub struct Options {
    /// The recording of one host: a file, or a directory that `record -o` filled
    #[arg(value_name = "FIRST")]
    pub first: PathBuf,
    /// The recording of the other host
    #[arg(value_name = "SECOND")]
    pub second: PathBuf,
    /// Treat CLOCK_REALTIME of both hosts as equal, because PTP synchronizes it
    ///
    /// Otherwise the offset of the clocks comes from the messages themselves, with an interval.
    #[arg(long)]
    pub ptp: bool,
    /// Find connections whose addresses NAT changes, by the numbers and lengths of their messages
    ///
    /// Both hosts must have measured the same messages (--in-step, --every). The recordings are
    /// read twice.
    #[arg(long)]
    pub nat: bool,
    /// Allow the clocks of the hosts to differ by up to this time
    ///
    /// Messages are kept for this long, until their other end is read.
    #[arg(long, value_name = "TIME", value_parser = with_unit, default_value = "10s")]
    pub apart: Duration,
    /// Print the stages of this many of the slowest messages of each direction
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub slowest: usize,
    /// Write each joined message to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub lives: Option<PathBuf>,
    /// Write them as a recording: `report`, `explain`, `diff` and SQL read whole lives as well
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the offsets of the clocks to this file, as CSV: sql/join.sql joins by them
    #[arg(long, value_name = "FILE")]
    pub clocks: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// All that is printed.
struct Joined {
    settings: Settings,
    hosts: [Recorded; 2],
    sums: [Sums; 2],
    join: Join,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let paths = [files(&options.first)?, files(&options.second)?];
    let mut lives = Lives::create(options, &paths.concat())?;
    let joined = Joined::of(options, &paths, &mut |life| lives.write(life))?;
    lives.finish()?;
    if let Some(path) = &options.clocks {
        offsets::write(path, &paths.concat(), &joined)?;
    }
    let mut output = io::stdout();
    let printed = match options.format {
        Format::Text => text::all(&mut output, &joined),
        Format::Json => json::all(&mut output, &joined),
    };
    match printed {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

impl Joined {
    fn of(
        options: &Options,
        paths: &[Vec<PathBuf>; 2],
        take: &mut dyn FnMut(&Life) -> Result<()>,
    ) -> Result<Self> {
        let trust = match options.ptp {
            true => Trust::Clocks,
            false => Trust::Messages,
        };
        let recordings = [beside(&paths[0])?, beside(&paths[1])?];
        let settings = Settings {
            trust,
            apart: Nanos::from(options.apart),
            in_step: are_in_step(&recordings),
        };
        let mut join = Join::new(settings);
        if options.nat {
            join = join.translated(translations(&recordings)?);
        }
        let mut hosts = [Recorded::default(), Recorded::default()];
        let mut sums = [Sums::new(options.slowest), Sums::new(options.slowest)];
        let mut failed = Ok(());
        let mut each = |life: &Life| {
            sums[life.from as usize].add(life);
            if failed.is_ok() {
                failed = take(life);
            }
        };
        let mut progress = Progress::new(rows(&recordings))?;
        thread::scope(|scope| {
            let mut halves =
                [&recordings[0], &recordings[1]].map(|recordings| Some(Halves::of(scope, recordings)));
            while halves.iter().any(Option::is_some) {
                let host = join.needs();
                let of_host = &mut halves[host as usize];
                if let Some(half) = of_host.as_mut().and_then(Halves::next) {
                    progress.step()?;
                    join.add(host, half, &mut each);
                } else if let Some(ended) = of_host.take() {
                    hosts[host as usize] = ended.finish()?;
                    join.ends(host);
                }
            }
            anyhow::Ok(())
        })?;
        join.finish(&mut each);
        failed?;
        Ok(Self {
            settings,
            hosts,
            sums,
            join,
        })
    }

    /// Return the messages from a host.
    fn from(&self, host: Host) -> &Sums {
        &self.sums[host as usize]
    }
}

/// Open the recordings of a host, to be read beside those of the other.
fn beside(paths: &[PathBuf]) -> Result<Vec<Reader>> {
    let readers = open(paths)?.into_iter();
    Ok(readers.map(|reader| reader.shared(Host::ALL.len())).collect())
}

/// Look for connections whose addresses differ between the hosts.
fn translations(recordings: &[Vec<Reader>; 2]) -> Result<Translations> {
    let mut nat = Nat::default();
    let mut progress = Progress::new(rows(recordings))?;
    for (host, recordings) in Host::ALL.into_iter().zip(recordings) {
        for recording in recordings {
            recording.each(Detail::All, |message| {
                nat.add(host, message);
                progress.step()
            })?;
        }
    }
    Ok(nat.translations())
}

/// Return the number of messages of both hosts.
fn rows(recordings: &[Vec<Reader>; 2]) -> u64 {
    recordings.iter().flatten().map(Reader::rows).sum()
}

/// Return true if all chose their messages by the same multiples.
fn are_in_step(recordings: &[Vec<Reader>; 2]) -> bool {
    let mut steps = recordings
        .iter()
        .flatten()
        .map(|recording| recording.fact("in_step"));
    let first = steps.next().flatten();
    first.is_some() && steps.all(|step| step == first)
}

/// The middle of what both hosts recorded, by the first one's monotonic clock.
fn middle(joined: &Joined) -> Option<Stamp<First>> {
    let (first, last) = joined.hosts[0].span?;
    Some(Timestamp::from_nanos(u64::midpoint(first, last)))
}
