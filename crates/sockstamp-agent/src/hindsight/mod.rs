//! The last minutes on disk: messages in Parquet files; the oldest files are removed.
//!
//! A thread of its own writes them. It never blocks the measuring one: messages that it cannot take
//! in time are counted and left out.

mod explanation;
mod files;
mod lock;
mod watch;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use sockstamp_metrics::catalogue::{
    HINDSIGHT_BYTES, HINDSIGHT_EARLY, HINDSIGHT_LOST, HINDSIGHT_MESSAGES, SNAPSHOTS,
};
use sockstamp_metrics::{Exposition, Labels, Value};
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_record::{Batch, Rows};
use sockstamp_run::capabilities;
use sockstamp_run::containers::Containers;
use sockstamp_run::escape::complain;
use sockstamp_run::wording::in_words;
use tokio::sync::oneshot;

use self::files::Files;
use self::lock::Lock;
use self::watch::Watch;
use crate::config::HindsightTable;
use crate::http::question::{Answer, Answered, Refusal};
use crate::owners::Owner;

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
    Snapshot(Option<oneshot::Sender<Answered>>),
    /// Keep them, because a condition was met.
    Keep(String),
    /// Reply to the client with the reasons of slow messages.
    Explain(oneshot::Sender<Answered>),
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
pub(crate) struct Totals(Arc<Counts>);

impl Totals {
    /// Add the series to an exposition.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
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
pub(crate) struct Hindsight {
    batch: Box<Batch>,
    containers: Containers,
    /// The time of the batch's first message.
    since: Option<Instant>,
    slow: Option<Nanos>,
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

/// Find out whether a recording can be there. One that is there already is no error: the agent that
/// runs may have the same settings.
pub(crate) fn check(table: &HindsightTable) -> Result<()> {
    Files::new(table).map(|_| ())
}

impl Hindsight {
    /// Start the thread of a recording. It writes nothing before [`begin`](Self::begin).
    pub(crate) fn start(table: &HindsightTable, totals: &Totals) -> Result<Self> {
        let files = Files::new(table)?;
        let lock = Lock::take(&table.directory)?;
        let (orders, received) = sync_channel(WAITING);
        let counts = Arc::clone(&totals.0);
        let thread = thread::Builder::new()
            .name("hindsight".to_owned())
            .spawn(move || {
                capabilities::keep(&[]);
                work(files, &received, &counts);
                drop(lock);
            })
            .context("cannot start a thread")?;
        Ok(Self {
            batch: Box::new(Batch::new()),
            containers: Containers::of_host(),
            since: None,
            slow: table.slow.map(Nanos::from),
            watch: Watch::new(&table.keep_when, table.keep),
            orders: Some(orders),
            thread: Some(thread),
            totals: totals.clone(),
        })
    }

    /// Begin when this thread has ended, if there is one; files of an earlier recording in the same
    /// directory are part of this one.
    pub(crate) fn begin(&self, before: Option<JoinHandle<()>>) {
        let orders = self.orders.as_ref();
        // There is room for it: no other order came before.
        let _ = orders.map(|orders| orders.try_send(Order::Begin(before)));
    }

    /// Hand the last messages over, and return the thread that writes them.
    pub(crate) fn end(mut self) -> Option<JoinHandle<()>> {
        self.close();
        self.thread.take()
    }

    fn close(&mut self) {
        self.hand_over();
        drop(self.orders.take());
    }

    /// Add a message, if it is slow enough: the session may deliver it for other users.
    pub(crate) fn push(&mut self, message: &Message, owner: &Owner) {
        self.watch.push(message);
        // Without a time all are recorded, but those of groups that have one of their own.
        let limit = owner.slow(Some(self.slow.unwrap_or_default()));
        let limit = limit.filter(|limit| *limit > Nanos::ZERO);
        if limit.is_some_and(|limit| !message.is_slow(limit)) {
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
    pub(crate) fn tick(&mut self) -> Option<Duration> {
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
    pub(crate) fn snapshot(&mut self, client: Option<oneshot::Sender<Answered>>) {
        self.hand_over();
        self.order(Order::Snapshot(client));
    }

    /// Explain the newest files.
    pub(crate) fn explain(&mut self, client: oneshot::Sender<Answered>) {
        self.hand_over();
        self.order(Order::Explain(client));
    }

    /// Hand an order over; refuse it if there is no room.
    fn order(&self, order: Order) {
        let Some(orders) = &self.orders else {
            return;
        };
        if let Err(TrySendError::Full(order) | TrySendError::Disconnected(order)) =
            orders.try_send(order)
        {
            refuse(order, &self.totals.0);
        }
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
                tell(files.snapshot(), None, client, counts);
                continue;
            }
            Some(Order::Keep(why)) => {
                tell(files.keep(), Some(&why), None, counts);
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

/// Refuse an order for which the thread has no time.
fn refuse(order: Order, counts: &Counts) {
    let slow = "the disk is too slow";
    match order {
        Order::Snapshot(client) => tell(Err(anyhow!(slow)), None, client, counts),
        Order::Keep(why) => tell(Err(anyhow!(slow)), Some(&why), None, counts),
        Order::Explain(client) => {
            // The client may have gone.
            let _ = client.send(Err(Refusal::unavailable(format!("{slow}: ask again\n"))));
        }
        // Messages are handed over otherwise.
        Order::Begin(_) | Order::Write(_) => {}
    }
}

/// Tell the log and the client what has become of a snapshot, and count it.
fn tell(
    kept: Result<PathBuf>,
    why: Option<&str>,
    client: Option<oneshot::Sender<Answered>>,
    counts: &Counts,
) {
    complain(line(&kept, why));
    let counter = match &kept {
        Ok(_) => &counts.taken,
        Err(_) => &counts.refused,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    let outcome = kept
        .map(|path| Answer::from(format!("{}\n", path.display())))
        .map_err(|error| Refusal::unavailable(in_words(&format!("{error:#}\n"))));
    // The client may have gone.
    let _ = client.map(|client| client.send(outcome));
}

/// Return the line of the log about a snapshot, with the condition that was met, if nobody has
/// asked for it.
fn line(kept: &Result<PathBuf>, why: Option<&str>) -> String {
    match (kept, why) {
        (Ok(path), None) => format!("the last minutes are in {}", path.display()),
        (Ok(path), Some(why)) => format!("the last minutes are in {}: {why}", path.display()),
        (Err(error), None) => format!("no snapshot: {error:#}"),
        (Err(error), Some(why)) => format!("no snapshot, although {why}: {error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_that_the_last_minutes_are_kept_only_if_they_are() {
        let condition = Some("rx.app took more than 1s in 2 of 20 messages");
        let kept = Ok(PathBuf::from("/a/b"));
        assert_eq!(line(&kept, None), "the last minutes are in /a/b");
        assert_eq!(
            line(&kept, condition),
            "the last minutes are in /a/b: rx.app took more than 1s in 2 of 20 messages"
        );
        let refused = Err(anyhow!("remove some"));
        assert_eq!(line(&refused, None), "no snapshot: remove some");
        assert_eq!(
            line(&refused, condition),
            "no snapshot, although rx.app took more than 1s in 2 of 20 messages: remove some"
        );
    }

    #[test]
    fn a_client_of_an_order_without_room_learns_why() {
        let counts = Counts::default();
        let asked: [fn(oneshot::Sender<Answered>) -> Order; 2] =
            [|client| Order::Snapshot(Some(client)), Order::Explain];
        for order in asked {
            let (client, mut answered) = oneshot::channel();
            refuse(order(client), &counts);
            let told = format!("{:?}", answered.try_recv().unwrap().unwrap_err());
            assert!(told.contains("the disk is too slow"), "{told}");
        }
        assert_eq!(counts.refused.load(Ordering::Relaxed), 1);
    }
}
