//! Collect rows, and write them on a thread of its own: the kernel's ring is read meanwhile.

use std::fmt;
use std::mem;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use sockstamp_record::Rows;

use super::place::Place;

/// The longest time that a row waits for its row group: what a crash may cost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Batches that wait to be written. With the one that is filled and the one that is written, they
/// bound the memory.
const WAITING: usize = 1;

/// Take rows: messages or packets.
pub(crate) struct Recorder<T> {
    batch: Box<T>,
    /// The time of the batch's first row.
    since: Option<Instant>,
    /// None once the writer must end.
    full: Option<SyncSender<Box<T>>>,
    empty: Receiver<Box<T>>,
    writer: Option<JoinHandle<Result<Recorded>>>,
    stopped: bool,
}

/// The result of a recording.
pub(crate) struct Recorded {
    what: &'static str,
    rows: u64,
    bytes: u64,
    files: u64,
    removed: u64,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            rows,
            bytes,
            files,
            removed,
        } = self;
        write!(f, "recorded {rows} {what}, {bytes} bytes, files: {files}")?;
        if *removed > 0 {
            write!(f, ", of which {removed} were removed for --max-size")?;
        }
        Ok(())
    }
}

impl<T: Rows + Send + 'static> Recorder<T> {
    /// Begin to record, and call the rows so.
    pub(crate) fn start(place: Place<T>, what: &'static str) -> Result<Self> {
        let (full, batches) = sync_channel(WAITING);
        let (back, empty) = channel();
        let writer = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write(place, what, &batches, &back))
            .context("cannot start the writer thread")?;
        Ok(Self {
            batch: Box::default(),
            since: None,
            full: Some(full),
            empty,
            writer: Some(writer),
            stopped: false,
        })
    }

    /// Wait until all is written.
    pub(crate) fn finish(mut self) -> Result<Recorded> {
        self.hand_over();
        drop(self.full.take());
        let writer = self.writer.take().context("it is already finished")?;
        writer
            .join()
            .map_err(|_| anyhow!("the writer thread has failed"))?
    }

    fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let next = self.empty.try_recv().unwrap_or_default();
        let batch = mem::replace(&mut self.batch, next);
        self.since = None;
        // If it takes none, it has ended: `finish` reports its error.
        let taken = self.full.as_ref().is_some_and(|full| full.send(batch).is_ok());
        self.stopped |= !taken;
    }

    /// Add a row.
    pub(crate) fn push(&mut self, add: impl FnOnce(&mut T)) {
        if self.stopped {
            return;
        }
        self.since.get_or_insert_with(Instant::now);
        add(&mut self.batch);
        if self.batch.is_full() {
            self.hand_over();
        }
    }

    /// Hand over rows that have waited; return false if no more can be written.
    pub(crate) fn round_is_over(&mut self) -> bool {
        if self.since.is_some_and(|since| since.elapsed() >= PATIENCE) {
            self.hand_over();
        }
        let ended = self.writer.as_ref().is_some_and(JoinHandle::is_finished);
        !self.stopped && !ended
    }
}

fn write<T: Rows>(
    mut place: Place<T>,
    what: &'static str,
    batches: &Receiver<Box<T>>,
    back: &Sender<Box<T>>,
) -> Result<Recorded> {
    for mut batch in batches {
        place.write(&batch)?;
        batch.clear();
        // At the end, no receiver takes it back.
        let _ = back.send(batch);
    }
    place.end()?;
    Ok(Recorded {
        what,
        rows: place.rows,
        bytes: place.bytes,
        files: place.files,
        removed: place.removed,
    })
}
