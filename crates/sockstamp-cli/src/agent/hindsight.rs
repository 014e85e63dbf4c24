//! The last minutes on disk: messages in Parquet files; the oldest files are removed.
//!
//! A thread of its own writes them. It never blocks the measuring one: messages that it cannot take
//! in time are counted and left out.

mod explanation;
mod files;
pub(super) mod watch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use sockstamp_export::catalogue::{
    HINDSIGHT_BYTES, HINDSIGHT_EARLY, HINDSIGHT_LOST, HINDSIGHT_MESSAGES, SNAPSHOTS,
};
use sockstamp_export::{Exposition, Labels, Value};
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_record::{Batch, Rows};
use tokio::sync::oneshot;

use self::files::Files;
use self::watch::Watch;
use super::config::HindsightTable;
use super::owners::Owner;
use super::server::Answer;
use crate::containers::Containers;
use crate::escape::complain;

/// The longest time that a message waits to be written: what a crash may cost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Messages of a batch: a bound on the memory.
const BATCH: usize = 8192;
/// A failure is said if there was none for so long: on a full disk, each old file that is removed
/// makes room for another.
const WORKS_AGAIN: Duration = Duration::from_secs(60);
/// Orders that wait for the thread.
const WAITING: usize = 4;

#[derive(Debug)]
enum Order {
    /// Begin, once this thread has ended: that of the recording before.
    Begin(Option<JoinHandle<()>>),
    Write(Box<Batch>),
    /// Keep the existing messages; reply to the client, if there is one.
    Snapshot(Option<oneshot::Sender<Answer>>),
    /// Keep them, because a condition was met.
    Keep(String),
    /// Reply to the client with the reasons of slow messages.
    Explain(oneshot::Sender<Answer>),
}

/// Counts of messages and snapshots, by their fate.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    /// Left out, because the thread lagged.
    behind: AtomicU64,
    /// Left out, because the file system was too full.
    room: AtomicU64,
    /// Left out, because a file could not be written.
    failed: AtomicU64,
    /// Files that went before their time, for `max_size` and `min_free`.
    early: AtomicU64,
    bytes: AtomicU64,
    taken: AtomicU64,
    refused: AtomicU64,
}

/// The counts of all recordings of an agent.
#[derive(Debug, Default, Clone)]
pub(super) struct Totals(Arc<Counts>);

impl Totals {
    /// Add the series to an exposition.
    pub(super) fn expose(&self, exposition: &mut Exposition) {
        let counts = &self.0;
        let count = |counter: &AtomicU64| Value::Count(counter.load(Ordering::Relaxed));
        exposition.add(&HINDSIGHT_MESSAGES, Labels::new(), count(&counts.written));
        exposition.add(&HINDSIGHT_BYTES, Labels::new(), count(&counts.bytes));
        exposition.add(&HINDSIGHT_EARLY, Labels::new(), count(&counts.early));
        for (metric, label, value, counter) in [
            (&HINDSIGHT_LOST, "reason", "behind", &counts.behind),
            (&HINDSIGHT_LOST, "reason", "room", &counts.room),
            (&HINDSIGHT_LOST, "reason", "failed", &counts.failed),
            (&SNAPSHOTS, "result", "taken", &counts.taken),
            (&SNAPSHOTS, "result", "refused", &counts.refused),
        ] {
            exposition.add(
                metric,
                vec![(label.into(), value.to_owned())],
                count(counter),
            );
        }
    }
}

/// The recording of the last minutes.
pub(super) struct Hindsight {
    batch: Box<Batch>,
    containers: Containers,
    /// The time of the batch's first message.
    since: Option<Instant>,
    slower_than: Option<Nanos>,
    watch: Watch,
    /// None once the thread must end.
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
    totals: Totals,
}

impl fmt::Debug for Hindsight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hindsight")
            .field("totals", &self.totals)
            .finish()
    }
}

/// Find out whether a recording can be there.
pub(super) fn check(table: &HindsightTable) -> Result<()> {
    Files::new(table).map(|_| ())
}

impl Hindsight {
    /// Start the thread of a recording. It writes nothing before [`begin`](Self::begin).
    pub(super) fn start(table: &HindsightTable, totals: &Totals) -> Result<Self> {
        let files = Files::new(table)?;
        let (orders, received) = sync_channel(WAITING);
        let counts = Arc::clone(&totals.0);
        let thread = thread::Builder::new()
            .name("hindsight".to_owned())
            .spawn(move || work(files, &received, &counts))
            .context("cannot start a thread")?;
        Ok(Self {
            batch: Box::new(Batch::new()),
            containers: Containers::of_host(),
            since: None,
            slower_than: table.slower_than.map(Nanos::from),
            watch: Watch::new(&table.keep_when, table.keep),
            orders: Some(orders),
            thread: Some(thread),
            totals: totals.clone(),
        })
    }

    /// Begin when this thread has ended, if there is one; files of an earlier recording in the same
    /// directory are part of this one.
    pub(super) fn begin(&self, before: Option<JoinHandle<()>>) {
        let orders = self.orders.as_ref();
        // It is the first order: there is room for it.
        let _ = orders.map(|orders| orders.try_send(Order::Begin(before)));
    }

    /// Hand the last messages over, and return the thread that writes them.
    pub(super) fn end(mut self) -> Option<JoinHandle<()>> {
        self.close();
        self.thread.take()
    }

    fn close(&mut self) {
        self.hand_over();
        drop(self.orders.take());
    }

    /// Add a message, if it took long enough: the session may deliver it for other users.
    pub(super) fn push(&mut self, message: &Message, owner: &Owner) {
        self.watch.push(message);
        // Without a time all are recorded, but those of groups that have one of their own.
        let least = owner.least(Some(self.slower_than.unwrap_or_default()));
        let least = least.filter(|least| *least > Nanos::ZERO);
        if least.is_some_and(|least| !message.verdict.is_valid() || message.duration() < least) {
            return;
        }
        self.since.get_or_insert_with(Instant::now);
        self.batch.push(&Message {
            container: self.containers.of(message.cgroup),
            ..message.clone()
        });
        if self.batch.len() >= BATCH {
            self.hand_over();
        }
    }

    /// Hand messages over that have waited long enough, and keep the last minutes if a condition
    /// was met; return the time until there is more to do.
    pub(super) fn tick(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if let Some(why) = self.watch.met(now) {
            self.hand_over();
            self.order(Order::Keep(why));
        }
        let waits = [self.hand_over_in_time(), self.watch.wait(now)];
        waits.into_iter().flatten().min()
    }

    fn hand_over_in_time(&mut self) -> Option<Duration> {
        let waited = self.since?.elapsed();
        if waited >= PATIENCE {
            self.hand_over();
            return None;
        }
        Some(PATIENCE - waited)
    }

    /// Keep the files that there are.
    pub(super) fn snapshot(&mut self, client: Option<oneshot::Sender<Answer>>) {
        self.hand_over();
        self.order(Order::Snapshot(client));
    }

    /// Order a snapshot.
    fn order(&self, order: Order) {
        let orders = self.orders.as_ref();
        if orders.is_some_and(|orders| orders.try_send(order).is_err()) {
            self.totals.0.refused.fetch_add(1, Ordering::Relaxed);
            complain("no snapshot: the disk is too slow");
        }
    }

    /// Explain the newest files.
    pub(super) fn explain(&mut self, client: oneshot::Sender<Answer>) {
        self.hand_over();
        // The client sees the connection end if the disk is too slow.
        let orders = self.orders.as_ref();
        let _ = orders.map(|orders| orders.try_send(Order::Explain(client)));
    }

    fn hand_over(&mut self) {
        self.since = None;
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Box::new(Batch::new()));
        let count = batch.len() as u64;
        let orders = self.orders.as_ref();
        if orders.is_none_or(|orders| orders.try_send(Order::Write(batch)).is_err()) {
            self.totals.0.behind.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// Write the last messages.
impl Drop for Hindsight {
    fn drop(&mut self) {
        self.close();
        // A panic of the thread was reported when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn work(mut files: Files, orders: &Receiver<Order>, counts: &Counts) {
    let mut failed: Option<Instant> = None;
    loop {
        let order = match orders.recv_timeout(files.until_age()) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let result = match order {
            Some(Order::Begin(before)) => {
                // A panic of the thread was reported when it happened.
                let _ = before.map(JoinHandle::join);
                files.take_over()
            }
            Some(Order::Write(batch)) => write(&mut files, &batch, counts),
            Some(Order::Snapshot(client)) => {
                snapshot(files.snapshot(), client, counts);
                continue;
            }
            Some(Order::Keep(why)) => {
                complain(format_args!("the last minutes are kept: {why}"));
                snapshot(files.keep(), None, counts);
                continue;
            }
            Some(Order::Explain(client)) => {
                explanation::explain(&mut files, client);
                continue;
            }
            None => files.age(),
        };
        counts.bytes.store(files.bytes(), Ordering::Relaxed);
        counts
            .early
            .fetch_add(files.take_early(), Ordering::Relaxed);
        if let Err(error) = result {
            let before = failed.replace(Instant::now());
            if before.is_none_or(|before| before.elapsed() >= WORKS_AGAIN) {
                complain(format_args!("hindsight lacks messages: {error:#}"));
            }
        }
    }
    if let Err(error) = files.end() {
        complain(format_args!("hindsight lacks messages: {error:#}"));
    }
}

fn write(files: &mut Files, batch: &Batch, counts: &Counts) -> Result<()> {
    let count = batch.len() as u64;
    match files.write(batch) {
        Ok(true) => {
            counts.written.fetch_add(count, Ordering::Relaxed);
            Ok(())
        }
        Ok(false) => {
            counts.room.fetch_add(count, Ordering::Relaxed);
            Err(anyhow!("the file system has less than min_free left"))
        }
        Err(error) => {
            counts.failed.fetch_add(count, Ordering::Relaxed);
            Err(error)
        }
    }
}

fn snapshot(kept: Result<PathBuf>, client: Option<oneshot::Sender<Answer>>, counts: &Counts) {
    match kept {
        Ok(path) => {
            counts.taken.fetch_add(1, Ordering::Relaxed);
            complain(format_args!("the last minutes are in {}", path.display()));
            // The client may have gone.
            let _ = client.map(|client| client.send(told(&path)));
        }
        Err(error) => {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            complain(format_args!("no snapshot: {error:#}"));
        }
    }
}

fn told(path: &Path) -> Answer {
    format!("{}\n", path.display()).into()
}
