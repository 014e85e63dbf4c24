//! `sockstamp record`: messages into Parquet files.

mod host;
mod patience;
mod place;
mod recorder;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use sockstamp_model::summary::Summary;

use crate::duration::{self, duration};
use crate::measure::{self, Measurement, Recorded};
use crate::measuring::{self, Measuring};
use crate::recordings::PACKETS;
use crate::target::Target;
use crate::{command, escape};

use place::{Choice, Limits, Missing, Place};
use recorder::Recorder;

/// Row groups of a file in a directory.
const GROUPS: usize = 100;

/// Options of `record`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// The target.
    pub target: Target,
    #[command(flatten)]
    /// Options of measuring.
    pub measuring: Measuring,
    /// Stop after this time: a number with ms, s (default) or m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Record only messages whose total exceeds this time; every message is measured
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration::with_unit,
        conflicts_with_all = ["rate_cap", "sample", "in_step"],
        help_heading = measuring::HEADING,
    )]
    pub slower_than: Option<Duration>,
    /// Also record each packet of the target, in a file next to each file of messages
    ///
    /// It has the same name, with `.packets` in place of `.parquet`, or after any other name.
    /// `sockstamp pcap -o` converts it to pcapng. A packet names the message whose bytes it
    /// carries.
    #[arg(long, conflicts_with_all = ["slower_than", "new_only"])]
    pub packets: bool,
    /// Tag TCP connections, for `join` where something between the hosts rewrites sequence numbers
    ///
    /// One segment of each direction carries an experimental TCP option (kind 253, RFC 6994) with
    /// its sequence number. Both hosts must record with this option.
    #[arg(long, requires = "in_step", conflicts_with = "packets", help_heading = measuring::HEADING)]
    pub tag: bool,
    /// Write this new file, or files in this directory if it exists or ends with /
    ///
    /// A file that exists is refused, unless it is empty: it may be another recording.
    ///
    /// In a directory, files are date=DATE/hour=HOUR/host=NAME/TIME-NUMBER.parquet, in UTC; a new
    /// one begins with each hour, and after 100 row groups.
    #[arg(short, long, value_name = "PATH")]
    pub output: PathBuf,
    /// In a directory: begin a new file when one has this many megabytes, packets included
    #[arg(
        long,
        value_name = "MB",
        default_value_t = 256,
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Files",
    )]
    pub rotate_size: u64,
    /// In a directory: begin a new file after this time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60m", help_heading = "Files")]
    pub rotate_time: Duration,
    /// Keep the recording below this many megabytes, packets included
    ///
    /// In a directory, the oldest files of this recording are removed; a single file ends the
    /// recording.
    #[arg(
        long,
        value_name = "MB",
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Files",
    )]
    pub max_size: Option<u64>,
    /// Stop when the file system has less than this many megabytes free
    #[arg(long, value_name = "MB", default_value_t = 256, help_heading = "Files")]
    pub min_free: u64,
    /// Run this command and measure only it
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pids", "cgroup", "container", "netns"])]
    pub command: Vec<OsString>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.packets
        && options
            .output
            .extension()
            .is_some_and(|extension| extension == PACKETS)
    {
        bail!(
            "{} would be the file of packets: choose another name for the file of messages",
            options.output.display()
        );
    }
    let mut recorder = start(options)?;
    let measurement = Measurement {
        target: &options.target,
        command: &options.command,
        duration: options.duration,
        measuring: &options.measuring,
        recorded: options
            .slower_than
            .map_or(Recorded::All, Recorded::SlowerThan),
        groups: None,
        tag: options.tag,
    };
    let outcome = measure::run(&measurement, &mut recorder);
    // Keep the recorded messages, even if the measurement ended by an error.
    let lost = outcome.as_ref().ok().map(|outcome| outcome.summary.lost);
    let ended = recorder.finish(lost);
    let (ended, outcome) = match (ended, outcome) {
        (Ok(ended), outcome) => (ended, outcome),
        (Err(_), Err(error)) | (Err(error), Ok(_)) => return Err(error),
    };
    for recorded in ended.recorded {
        escape::complain(format_args!("{recorded}"));
    }
    tell_missing(ended.missing);
    let outcome = match (outcome, ended.failure) {
        (Ok(outcome), failure) => {
            tell_lost(&outcome.summary);
            failure.map_or(Ok(outcome), Err)?
        }
        (Err(error), failure) => {
            if let Some(failure) = failure {
                escape::complain(format_args!("{failure:#}"));
            }
            return Err(error);
        }
    };
    Ok(outcome.status.map_or(ExitCode::SUCCESS, command::exit_code))
}

/// Say how many rows were measured, but not written.
fn tell_missing(missing: Missing) {
    for (count, what) in [(missing.messages, "messages"), (missing.packets, "packets")] {
        if count > 0 {
            escape::complain(format_args!(
                "{count} {what} are not in the recording: they came after it had to end"
            ));
        }
    }
}

fn tell_lost(summary: &Summary) {
    if let Some(tags) = summary.tags {
        escape::complain(format_args!("{tags}"));
    }
    if summary.lost.ring > 0 {
        escape::complain(format_args!(
            "{} messages are not in the recording: it could not keep up with them",
            summary.lost.ring
        ));
    }
}

fn start(options: &Options) -> Result<Recorder> {
    let limits = Limits {
        file_bytes: megabytes(options.rotate_size),
        file_time: options.rotate_time,
        file_groups: GROUPS,
        all_bytes: options.max_size.map(megabytes),
        free_bytes: megabytes(options.min_free),
    };
    let choice = Choice {
        in_step: options.measuring.in_step,
        slower_than: options.slower_than,
    };
    let place = Place::new(&options.output, options.packets, limits, choice)?;
    Recorder::start(place)
}

const fn megabytes(count: u64) -> u64 {
    count.saturating_mul(1 << 20)
}
