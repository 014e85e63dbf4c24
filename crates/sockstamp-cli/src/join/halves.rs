//! The halves of lives that a host recorded, made by a thread: to make them takes longer than to
//! join them.
//!
//! Rows of a row group are ordered by their flow, and a row group may last for minutes. Joining
//! forgets what is older than both hosts' newest messages, so halves are in the order of their
//! time.

use std::iter::Flatten;
use std::panic::resume_unwind;
use std::sync::mpsc::{IntoIter, SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use sockstamp_join::{Half, Maker};
use sockstamp_model::clock::{Realtime, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_record::{Detail, Reader};

use crate::options::choice::Choice;

/// The number of halves per batch, and of waiting batches: threads seldom wait for each other, and
/// little memory is in use.
const BATCH: usize = 4096;
const READY: usize = 2;

/// A host's recording.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) name: String,
    pub(super) messages: u64,
    /// The monotonic clock at the first and the last message.
    pub(super) span: Option<(u64, u64)>,
    /// The host's wall clock at the same.
    pub(super) times: Option<(Timestamp<Realtime>, Timestamp<Realtime>)>,
}

impl Recorded {
    fn add(&mut self, message: &Message) {
        self.messages += 1;
        let (first, last) = self.times.unwrap_or((message.time, message.time));
        self.times = Some((first.min(message.time), last.max(message.time)));
        let stamp = message.stamps.ack.or(message.stamps.read);
        if let Some(stamp) = stamp.map(Timestamp::as_nanos) {
            let (first, last) = self.span.unwrap_or((stamp, stamp));
            self.span = Some((first.min(stamp), last.max(stamp)));
        }
    }
}

/// The halves of a host.
pub(super) struct Halves<'scope> {
    halves: Flatten<IntoIter<Vec<Half>>>,
    maker: ScopedJoinHandle<'scope, Result<Recorded>>,
}

impl<'scope> Halves<'scope> {
    /// Begin to make them.
    pub(super) fn of(
        scope: &'scope Scope<'scope, '_>,
        recordings: &'scope [Reader],
        choice: &'scope Choice,
    ) -> Result<Self> {
        let (batches, halves) = sync_channel(READY);
        let maker = Builder::new().spawn_scoped(scope, move || make(recordings, choice, &batches));
        Ok(Self {
            halves: halves.into_iter().flatten(),
            maker: maker.context("cannot read a recording beside the other")?,
        })
    }

    /// Return the next one; after the last, or one that cannot be read, `None`.
    pub(super) fn next(&mut self) -> Option<Half> {
        self.halves.next()
    }

    /// Return the totals of the recording, once there are no more halves.
    pub(super) fn finish(self) -> Result<Recorded> {
        self.maker
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn make(
    recordings: &[Reader],
    choice: &Choice,
    batches: &SyncSender<Vec<Half>>,
) -> Result<Recorded> {
    let name = recordings
        .iter()
        .find_map(|recording| recording.fact("host"));
    let mut recorded = Recorded {
        name: name.unwrap_or("-").to_owned(),
        ..Recorded::default()
    };
    let mut maker = Maker::default();
    let mut halves = Vec::new();
    for recording in recordings {
        let mut groups = recording.groups();
        let mut rest = groups.next().unwrap_or(0);
        recording.each(Detail::All, |message| {
            if message.is_life() {
                bail!(
                    "{}: its messages are joined already",
                    recording.path().display()
                );
            }
            if choice.has_flow(message) {
                recorded.add(message);
                halves.push(maker.half(message));
            }
            rest = rest.saturating_sub(1);
            if rest > 0 {
                return Ok(());
            }
            rest = groups.next().unwrap_or(0);
            pass_in_order(&mut halves, batches)
        })?;
    }
    Ok(recorded)
}

/// Pass the halves of a row group on.
fn pass_in_order(halves: &mut Vec<Half>, batches: &SyncSender<Vec<Half>>) -> Result<()> {
    halves.sort_by_key(Half::time);
    let mut ordered = halves.drain(..);
    while ordered.len() > 0 {
        pass(ordered.by_ref().take(BATCH).collect(), batches)?;
    }
    Ok(())
}

/// Pass halves on. Ignore failures: halves are refused if joining has ended.
fn pass(batch: Vec<Half>, batches: &SyncSender<Vec<Half>>) -> Result<()> {
    batches
        .send(batch)
        .map_err(|_| anyhow!("joining has ended"))
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::fixture;
    use sockstamp_model::flow::SocketCookie;
    use sockstamp_model::stage::Direction;
    use sockstamp_record::{Batch, Writer};

    use super::*;

    /// Write two row groups, each with two connections that last for all of its minute.
    fn recording(path: &std::path::Path) {
        let mut writer = Writer::create(path, &[]).unwrap();
        for minute in 0..2 {
            let mut batch = Batch::new();
            for second in 0..60 {
                for cookie in 1..=2 {
                    let mut message = fixture::message(Direction::Tx);
                    let seconds = 1_700_000_000 + 60 * minute + second;
                    message.flow.cookie = SocketCookie(cookie);
                    message.time = Timestamp::from_nanos(1_000_000_000 * seconds + cookie);
                    batch.push(&message);
                }
            }
            writer.write(&batch).unwrap();
        }
        writer.finish().unwrap();
    }

    #[test]
    fn halves_are_in_the_order_of_their_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        recording(&path);
        let (recordings, choice) = ([Reader::open(&path).unwrap()], Choice::default());
        let mut stored = Vec::new();
        let noted: Result<()> = recordings[0].each(Detail::All, |message| {
            stored.push(message.time.as_nanos());
            Ok(())
        });
        noted.unwrap();
        assert!(!stored.is_sorted(), "the order of rows is that of flows");
        let times: Vec<u64> = std::thread::scope(|scope| {
            let mut halves = Halves::of(scope, &recordings, &choice).unwrap();
            std::iter::from_fn(|| halves.next())
                .map(|half| half.time())
                .collect()
        });
        stored.sort_unstable();
        assert_eq!(times, stored);
    }
}
