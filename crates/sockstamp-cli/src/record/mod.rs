//! `sockstamp record`: messages into Parquet files.

mod host;
mod patience;
mod place;
mod provenance;
mod recorder;
mod turn;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use sockstamp_explain::diagnosis::Scope;
use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::Summary;
use sockstamp_print::output::is_stdout;
use sockstamp_print::silence;
use sockstamp_print::wrong_use::WrongUse;
use sockstamp_run::duration::duration;
use sockstamp_run::{command, escape};

use crate::measure::{self, Measurement, Recorded};
use crate::options::heading::MEASURING;
use crate::options::live::Live;
use crate::options::slow::SlowOnly;
use crate::recordings::PACKETS;
use crate::recordings::WAITS;

use place::{Choice, Limits, Missing, Place, is_directory};
use recorder::{Recorded as Written, Recorder};

/// The limits of a file in a directory, unless options say otherwise.
const ROTATE_SIZE: u64 = 256;
const ROTATE_TIME: Duration = Duration::from_secs(3600);
/// Row groups of a file in a directory.
const GROUPS: usize = 100;

/// Options of `record`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// The measurement.
    pub live: Live,
    #[command(flatten)]
    /// The messages that are recorded.
    pub slow_only: SlowOnly,
    /// Stop after N messages
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Also record each packet of the target, in a file next to each file of messages
    ///
    /// It has the same name, with `.packets` in place of `.parquet`, or after any other name.
    /// `sockstamp pcap -r` converts it to pcapng. A packet names the message whose bytes it
    /// carries.
    #[arg(long, conflicts_with_all = ["slow", "new_only"])]
    pub packets: bool,
    /// Tag TCP connections, for `join` where something between the hosts rewrites sequence numbers
    ///
    /// One segment of each direction carries an experimental TCP option (kind 253, RFC 6994) with
    /// its sequence number. Both hosts must record with this option, and with the same
    /// --sample 2^K.
    #[arg(long, requires = "sample", conflicts_with = "packets", help_heading = MEASURING)]
    pub tag: bool,
    /// Write this new file, or files in this directory if it exists or ends with /
    ///
    /// A file that exists is refused, unless it is empty and nobody else may use it (mode 0600): it
    /// may be another recording. FILE.waits beside it has what waited, FILE.packets the packets.
    ///
    /// In a directory, files are date=DATE/hour=HOUR/host=NAME/TIME-NUMBER.parquet, in UTC; a new
    /// one begins with each hour, and after 100 row groups.
    #[arg(short, long, value_name = "PATH")]
    pub output: PathBuf,
    /// In a directory: begin a new file when one has this many megabytes, packets included
    /// [default: 256]
    #[arg(
        long,
        value_name = "MB",
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Files",
    )]
    pub rotate_size: Option<u64>,
    /// In a directory: begin a new file after this time, 1s or longer [default: 60m]
    #[arg(long, value_name = "TIME", value_parser = rotate_time, help_heading = "Files")]
    pub rotate_time: Option<Duration>,
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
}

/// Read the time of a file: a shorter one would have few rows for what a file costs.
fn rotate_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    match time >= Duration::from_secs(1) {
        true => Ok(time),
        false => Err("a file lasts 1s or longer".to_owned()),
    }
}

/// Refuse options of a directory for a single file.
fn refuse_rotation(options: &Options) -> Result<()> {
    let option = match (options.rotate_size, options.rotate_time) {
        (Some(_), _) => "--rotate-size",
        (None, Some(_)) => "--rotate-time",
        (None, None) => return Ok(()),
    };
    let path: &Path = &options.output;
    if is_directory(path) {
        return Ok(());
    }
    let path = path.display();
    bail!("{option} is for a directory, and {path} is a single file: write -o {path}/")
}

/// Refuse standard output: a recording is a file whose end is written anew.
fn refuse_stdout(options: &Options) -> Result<()> {
    if !is_stdout(&options.output) {
        return Ok(());
    }
    let told = "a recording is a file: write -o FILE, or trace --format json for standard output";
    Err(WrongUse(told.to_owned()).into())
}

/// Refuse tags where each host measures messages of its own choice.
fn refuse_tags_out_of_step(options: &Options) -> Result<()> {
    if options.tag && options.live.measuring.in_step().is_none() {
        return Err(WrongUse("--tag needs --sample 2^K, such as 2^16".to_owned()).into());
    }
    Ok(())
}

/// Refuse a file of messages whose name the files beside it have.
fn refuse_names_of_others(options: &Options) -> Result<()> {
    let has = |name: &str| {
        let extension = options.output.extension();
        extension.is_some_and(|extension| extension == name)
    };
    let others = [(PACKETS, options.packets), (WAITS, true)];
    let Some((other, _)) = others.into_iter().find(|(name, made)| *made && has(name)) else {
        return Ok(());
    };
    let path = options.output.display();
    bail!("{path} would be the file of {other}: choose another name for the file of messages")
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    refuse_stdout(options)?;
    refuse_rotation(options)?;
    refuse_names_of_others(options)?;
    refuse_tags_out_of_step(options)?;
    let mut recorder = start(options)?;
    let measurement = Measurement {
        target: &options.live.target,
        command: &options.live.command,
        duration: options.live.duration,
        measuring: &options.live.measuring,
        recorded: Recorded::slower_than(options.slow_only),
        waits: Some(
            options
                .slow_only
                .slow
                .map_or(Scope::default().slow, Nanos::from),
        ),
        unix: true,
        groups: None,
        tag: options.tag,
        told: Some("recording"),
    };
    let measured = measure::run(&measurement, &mut recorder);
    // Keep the recorded messages, even if the measurement ended by an error.
    let lost = measured.as_ref().ok().map(|measured| measured.summary.lost);
    let ended = recorder.finish(lost);
    let (ended, measured) = match (ended, measured) {
        (Ok(ended), measured) => (ended, measured),
        (Err(_), Err(error)) | (Err(error), Ok(_)) => return Err(error),
    };
    for recorded in &ended.recorded {
        escape::complain(format_args!("{recorded}"));
    }
    if let (Ok(measured), true) = (&measured, ended.recorded.iter().all(Written::is_empty)) {
        let asked = silence::Asked {
            slow: options.slow_only.slow,
            filter: options.live.target.filter.0.as_ref(),
            command: &options.live.command,
        };
        silence::tell(&measured.summary, asked);
    }
    tell_missing(ended.missing);
    let measured = match (measured, ended.failure) {
        (Ok(measured), failure) => {
            tell_lost(&measured.summary);
            failure.map_or(Ok(measured), Err)?
        }
        (Err(error), failure) => {
            if let Some(failure) = failure {
                escape::complain(format_args!("{failure:#}"));
            }
            return Err(error);
        }
    };
    Ok(measured
        .status
        .map_or(ExitCode::SUCCESS, command::exit_code))
}

/// Say how many rows were measured, but not written.
fn tell_missing(missing: Missing) {
    for (count, what) in [
        (missing.messages, "messages"),
        (missing.packets, "packets"),
        (missing.waits, "waits"),
    ] {
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
        file_bytes: megabytes(options.rotate_size.unwrap_or(ROTATE_SIZE)),
        file_time: options.rotate_time.unwrap_or(ROTATE_TIME),
        file_groups: GROUPS,
        all_bytes: options.max_size.map(megabytes),
        free_bytes: megabytes(options.min_free),
    };
    let sampling = options.live.measuring.sampling(options.slow_only.slow);
    let choice = Choice {
        in_step: options.live.measuring.in_step(),
        slow_only: options.slow_only.slow,
        provenance: provenance::facts(sampling, &options.live.command),
    };
    let place = Place::new(&options.output, options.packets, limits, choice)?;
    Ok(Recorder::start(place)?.up_to(options.count))
}

const fn megabytes(count: u64) -> u64 {
    count.saturating_mul(1 << 20)
}

#[cfg(test)]
mod tests {
    use std::iter;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &[&str]) -> Result<Options, clap::Error> {
        let words = iter::once("record").chain(words.iter().copied());
        Words::try_parse_from(words).map(|words| words.options)
    }

    #[test]
    fn a_file_lasts_a_second_or_longer() {
        for time in ["0", "0s", "1ms", "999ms"] {
            let told = options(&["-o", "x/", "--rotate-time", time]).unwrap_err();
            let told = told.to_string();
            assert!(told.contains("a file lasts 1s or longer"), "{told}");
        }
        let options = options(&["-o", "x/", "--rotate-time", "1s"]).unwrap();
        assert_eq!(options.rotate_time, Some(Duration::from_secs(1)));
    }

    #[test]
    fn tags_are_for_hosts_in_step() {
        for (sample, is_refused) in [("2^16", false), ("1/64", true), ("all", true)] {
            let options = options(&["-o", "x", "--tag", "--sample", sample]).unwrap();
            assert_eq!(refuse_tags_out_of_step(&options).is_err(), is_refused);
        }
    }

    #[test]
    fn a_single_file_does_not_rotate() {
        for (option, value) in [("--rotate-size", "1"), ("--rotate-time", "5m")] {
            let of = |path| options(&["-o", path, option, value]).unwrap();
            let told = refuse_rotation(&of("some-file")).unwrap_err().to_string();
            let expected = format!(
                "{option} is for a directory, and some-file is a single file: write -o some-file/"
            );
            assert_eq!(told, expected);
            assert!(refuse_rotation(&of("some-directory/")).is_ok());
            assert!(refuse_rotation(&of("/tmp")).is_ok());
        }
        assert!(refuse_rotation(&options(&["-o", "some-file"]).unwrap()).is_ok());
    }
}
