//! Collect messages, and write them on a thread of their own: the kernel's ring is read meanwhile.

use std::fmt;
use std::mem;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use sockstamp_model::message::Message;
use sockstamp_record::Batch;

use super::place::Place;
use crate::measure::Observer;

/// The longest time that a message waits for its row group: what a crash may cost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Batches that wait to be written. With the one that is filled and the one that is written, they
/// bound the memory.
const WAITING: usize = 1;

/// Takes messages from the measurement.
pub(crate) struct Recorder {
    batch: Box<Batch>,
    /// The time of the batch's first message.
    since: Option<Instant>,
    /// None once the writer is told to end.
    full: Option<SyncSender<Box<Batch>>>,
    empty: Receiver<Box<Batch>>,
    writer: Option<JoinHandle<Result<Recorded>>>,
    stopped: bool,
}

/// The result of a recording.
pub(crate) struct Recorded {
    rows: u64,
    bytes: u64,
    files: u64,
    removed: u64,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rows,
            bytes,
            files,
            removed,
        } = self;
        write!(f, "recorded {rows} messages, {bytes} bytes, files: {files}")?;
        if *removed > 0 {
            write!(f, ", of which {removed} were removed for --max-size")?;
        }
        Ok(())
    }
}

impl Recorder {
    pub(crate) fn start(place: Place) -> Result<Self> {
        let (full, batches) = sync_channel(WAITING);
        let (back, empty) = channel();
        let writer = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write(place, &batches, &back))
            .context("cannot start the thread that writes")?;
        Ok(Self {
            batch: Box::new(Batch::new()),
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
        let writer = self.writer.take().context("it was finished before")?;
        writer
            .join()
            .map_err(|_| anyhow!("the thread that writes has failed"))?
    }

    fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let next = self.empty.try_recv().unwrap_or_else(|_| Box::new(Batch::new()));
        let batch = mem::replace(&mut self.batch, next);
        self.since = None;
        // If it takes none, it has ended: its error is told by `finish`.
        let taken = self.full.as_ref().is_some_and(|full| full.send(batch).is_ok());
        self.stopped |= !taken;
    }
}

impl Observer for Recorder {
    fn message(&mut self, message: &Message) {
        if self.stopped {
            return;
        }
        self.since.get_or_insert_with(Instant::now);
        self.batch.push(message);
        if self.batch.is_full() {
            self.hand_over();
        }
    }

    fn round_is_over(&mut self) -> bool {
        if self.since.is_some_and(|since| since.elapsed() >= PATIENCE) {
            self.hand_over();
        }
        let ended = self.writer.as_ref().is_some_and(JoinHandle::is_finished);
        !self.stopped && !ended
    }
}

fn write(mut place: Place, batches: &Receiver<Box<Batch>>, back: &Sender<Box<Batch>>) -> Result<Recorded> {
    for mut batch in batches {
        place.write(&batch)?;
        batch.clear();
        // Nobody takes it back at the end.
        let _ = back.send(batch);
    }
    place.end()?;
    Ok(Recorded {
        rows: place.rows,
        bytes: place.bytes,
        files: place.files,
        removed: place.removed,
    })
}
