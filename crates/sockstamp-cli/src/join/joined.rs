//! The messages of both hosts, joined and summed.

use std::path::PathBuf;
use std::thread;

use anyhow::Result;
use sockstamp_join::sides::{First, Stamp};
use sockstamp_join::{Host, Join, Life, Nat, Settings, Translations, Trust};
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_print::progress::Progress;
use sockstamp_record::{Detail, Reader};

use super::halves::{Halves, Recorded};
use super::options::Options;
use super::sums::Sums;
use crate::options::choice::Choice;
use crate::recordings::open;

/// All that is printed.
pub(super) struct Joined {
    pub(super) settings: Settings,
    pub(super) hosts: [Recorded; 2],
    pub(super) sums: [Sums; 2],
    pub(super) join: Join,
}

impl Joined {
    /// Read the recordings, and hand out each joined message.
    pub(super) fn of(
        options: &Options,
        paths: &[Vec<PathBuf>; 2],
        choice: &Choice,
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
            join = join.translated(translations(&recordings, choice)?);
        }
        let mut hosts = [Recorded::default(), Recorded::default()];
        let mut sums = [Sums::new(options.slowest), Sums::new(options.slowest)];
        let mut failed = Ok(());
        let mut each = |life: &Life| {
            let names = [&life.sender, &life.reader].map(|end| (end.pid, &end.comm));
            if !choice.has_either(names) {
                return;
            }
            sums[life.from as usize].add(life);
            if failed.is_ok() {
                failed = take(life);
            }
        };
        let mut progress = Progress::new(rows(&recordings))?;
        thread::scope(|scope| {
            let begin = |recordings| Halves::of(scope, recordings, choice).map(Some);
            let mut halves = [begin(&recordings[0])?, begin(&recordings[1])?];
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
        // A signal ends what only computes, too.
        drop(progress);
        join.finish(&mut each);
        failed?;
        Ok(Self {
            settings,
            hosts,
            sums,
            join,
        })
    }

    /// Return true if no message was joined.
    pub(super) fn is_empty(&self) -> bool {
        self.sums.iter().all(|sums| sums.total.is_empty())
    }

    /// Return the messages from a host.
    pub(super) fn from(&self, host: Host) -> &Sums {
        &self.sums[host as usize]
    }

    /// Return the middle of what both hosts recorded, by the first one's monotonic clock.
    pub(super) fn middle(&self) -> Option<Stamp<First>> {
        let (first, last) = self.hosts[0].span?;
        Some(Timestamp::from_nanos(u64::midpoint(first, last)))
    }
}

/// Open the recordings of a host, to read them in parallel with those of the other.
fn beside(paths: &[PathBuf]) -> Result<Vec<Reader>> {
    let readers = open(paths)?.into_iter();
    Ok(readers
        .map(|reader| reader.shared(Host::ALL.len()))
        .collect())
}

/// Look for connections whose addresses differ between the hosts.
fn translations(recordings: &[Vec<Reader>; 2], choice: &Choice) -> Result<Translations> {
    let mut nat = Nat::default();
    let mut progress = Progress::new(rows(recordings))?;
    for (host, recordings) in Host::ALL.into_iter().zip(recordings) {
        for recording in recordings {
            recording.each(Detail::All, |message| {
                if choice.has_flow(message) {
                    nat.add(host, message);
                }
                progress.step()
            })?;
        }
    }
    drop(progress);
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
