//! The halves of lives that a host recorded, made by a thread: to make them takes longer than to
//! join them.

use std::iter::Flatten;
use std::mem;
use std::panic::resume_unwind;
use std::sync::mpsc::{IntoIter, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use anyhow::{Result, anyhow, bail};
use sockstamp_join::{Half, Maker};
use sockstamp_model::clock::Timestamp;
use sockstamp_model::message::Message;
use sockstamp_record::{Detail, Reader};

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
}

impl Recorded {
    fn add(&mut self, message: &Message) {
        self.messages += 1;
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
    pub(super) fn of(scope: &'scope Scope<'scope, '_>, recordings: &'scope [Reader]) -> Self {
        let (batches, halves) = sync_channel(READY);
        Self {
            halves: halves.into_iter().flatten(),
            maker: scope.spawn(move || make(recordings, &batches)),
        }
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

fn make(recordings: &[Reader], batches: &SyncSender<Vec<Half>>) -> Result<Recorded> {
    let name = recordings
        .iter()
        .find_map(|recording| recording.fact("host"));
    let mut recorded = Recorded {
        name: name.unwrap_or("-").to_owned(),
        ..Recorded::default()
    };
    let mut maker = Maker::default();
    let mut batch = Vec::with_capacity(BATCH);
    for recording in recordings {
        recording.each(Detail::All, |message| {
            if message.is_life() {
                bail!(
                    "{}: its messages are joined already",
                    recording.path().display()
                );
            }
            recorded.add(message);
            batch.push(maker.half(message));
            match batch.len() {
                BATCH => pass(mem::replace(&mut batch, Vec::with_capacity(BATCH)), batches),
                _ => Ok(()),
            }
        })?;
    }
    pass(batch, batches)?;
    Ok(recorded)
}

/// Pass halves on. Ignore failures: halves are refused if joining has ended.
fn pass(batch: Vec<Half>, batches: &SyncSender<Vec<Half>>) -> Result<()> {
    batches
        .send(batch)
        .map_err(|_| anyhow!("joining has ended"))
}
