//! Collect messages, packets and waits, and write them on a thread of its own: the kernel's ring is
//! read meanwhile.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use sockstamp_bpf::packets;
use sockstamp_host::clock;
use sockstamp_model::clock::{Monotonic, Nanos, Realtime, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_model::packet::{Packet, Way};
use sockstamp_model::summary::Lost;
use sockstamp_model::wait::{Wait, Waits};
use sockstamp_print::lost_packets::tell_lost;
use sockstamp_print::numbers::counted;
use sockstamp_record::{Batch, Packets, Rows, WaitRows, Waited};
use sockstamp_run::escape;
use sockstamp_run::process_names::ProcessNames;

use super::patience::Patience;
use super::place::{Missing, Place, Written};
use super::turn::Turn;
use crate::measure::Observer;
use crate::recordings::waits::of_processes;
use crate::ways::Ways;

/// Batches that wait to be written. With those that are filled and the one that is written, they
/// bound the memory.
const WAITING: usize = 1;

/// An order for the writer.
enum Order {
    Messages(Box<Batch>),
    Packets(Box<Packets>),
    Waits(Box<WaitRows>),
    /// Begin the next files, for rows of this time, in seconds since 1970.
    Next(u64),
    /// Note what the recording lacks: messages, and packets.
    Lost(Lost, packets::Lost),
    /// Note what is known of waits without a row, and names of processes.
    OfWaits(Box<Waits>, String),
    /// The measurement has failed: what the recording lacks is unknown.
    Failed,
}

/// Rows of a kind that wait for their row group.
struct Waiting<T> {
    batch: Box<T>,
    /// The time of the batch's first row.
    since: Option<Instant>,
    /// Batches that were written.
    empty: Receiver<Box<T>>,
}

impl<T: Rows> Waiting<T> {
    fn new(empty: Receiver<Box<T>>) -> Self {
        Self {
            batch: Box::default(),
            since: None,
            empty,
        }
    }

    /// Add a row; return true if the batch is full.
    fn push(&mut self, add: impl FnOnce(&mut T)) -> bool {
        self.since.get_or_insert_with(Instant::now);
        add(&mut self.batch);
        self.batch.is_full()
    }

    fn is_over(&self, patience: Patience, begun: Instant) -> bool {
        self.since.is_some_and(|since| {
            patience.is_over(self.batch.len(), since.elapsed(), begun.elapsed())
        })
    }

    fn take(&mut self) -> Option<Box<T>> {
        if self.batch.is_empty() {
            return None;
        }
        self.since = None;
        let next = self.empty.try_recv().unwrap_or_default();
        Some(mem::replace(&mut self.batch, next))
    }
}

/// Packets need their messages.
struct OfPackets {
    ways: Ways,
    waiting: Waiting<Packets>,
    lost: packets::Lost,
}

/// Requests that are noted as owed an answer, others may as well be pushed to; and connections that
/// are noted as older.
const MOST_OWED: usize = 10_000;

/// Waits, and what is told of them at the end.
struct OfWaits {
    waiting: Waiting<WaitRows>,
    told: Waits,
}

/// Take messages, waits, and packets if they are wanted.
pub(super) struct Recorder {
    messages: Waiting<Batch>,
    packets: Option<OfPackets>,
    waits: OfWaits,
    names: ProcessNames,
    patience: Patience,
    /// The time of the files; `None` for a single one.
    turn: Option<Turn>,
    begun: Instant,
    /// None once the writer must end.
    orders: Option<SyncSender<Order>>,
    writer: Option<JoinHandle<Ended>>,
    /// Writing has failed: the writer only counts.
    failed: Arc<AtomicBool>,
    /// The writer takes no order.
    stopped: bool,
    /// Messages that are still to be recorded, if they are counted.
    left: Option<u64>,
}

/// The end of a recording, even of one that failed.
pub(super) struct Ended {
    pub(super) recorded: Vec<Recorded>,
    /// Rows that were measured, and are not in it.
    pub(super) missing: Missing,
    /// The first error.
    pub(super) failure: Option<anyhow::Error>,
}

/// The result of a recording.
pub(super) struct Recorded {
    what: &'static str,
    written: Written,
}

impl Recorded {
    pub(super) fn is_empty(&self) -> bool {
        self.written.rows == 0
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, written } = self;
        let Written {
            rows,
            bytes,
            files,
            removed,
        } = written;
        let rows = counted(*rows, what);
        let files = counted(*files, "file");
        write!(f, "recorded {rows}, {bytes} bytes, {files}")?;
        if *removed > 0 {
            let were = if *removed == 1 { "was" } else { "were" };
            write!(f, ", of which {removed} {were} removed for --max-size")?;
        }
        Ok(())
    }
}

impl Recorder {
    /// Begin to record.
    pub(super) fn start(place: Place) -> Result<Self> {
        let (orders, received) = sync_channel(WAITING);
        let (messages, empty) = channel();
        let (packets, empty_of_packets) = channel();
        let (waits, empty_of_waits) = channel();
        let patience = Patience {
            is_single: !place.is_directory(),
        };
        let turn = place.turn();
        let of_packets = place.packets.map(|_| OfPackets {
            ways: Ways::default(),
            waiting: Waiting::new(empty_of_packets),
            lost: packets::Lost::default(),
        });
        let failed = Arc::new(AtomicBool::new(false));
        let has_failed = Arc::clone(&failed);
        let writer = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || {
                let emptied = Emptied {
                    messages,
                    packets,
                    waits,
                };
                write(place, &received, &emptied, &has_failed)
            })
            .context("cannot start the writer thread")?;
        Ok(Self {
            messages: Waiting::new(empty),
            packets: of_packets,
            waits: OfWaits {
                waiting: Waiting::new(empty_of_waits),
                told: Waits::default(),
            },
            names: ProcessNames::default(),
            patience,
            turn,
            begun: Instant::now(),
            orders: Some(orders),
            writer: Some(writer),
            failed,
            stopped: false,
            left: None,
        })
    }

    /// Record up to so many messages.
    pub(super) fn up_to(mut self, count: Option<u64>) -> Self {
        self.left = count;
        self
    }

    /// Wait until all is written. `lost` is what the measurement lacks; `None` if it failed.
    pub(super) fn finish(mut self, lost: Option<Lost>) -> Result<Ended> {
        self.hand_over_messages();
        let rest = self.packets.as_mut().map(|packets| packets.ways.rest());
        self.push_packets(rest.unwrap_or_default());
        self.hand_over_packets();
        self.hand_over_waits();
        if lost.is_some() {
            let told = mem::take(&mut self.waits.told);
            let processes = of_processes(self.names.known());
            self.order(Order::OfWaits(Box::new(told), processes));
        }
        let packets = self.packets.as_ref().map(|packets| packets.lost);
        self.order(match lost {
            Some(lost) => Order::Lost(lost, packets.unwrap_or_default()),
            None => Order::Failed,
        });
        drop(self.orders.take());
        let writer = self.writer.take().context("it is already finished")?;
        writer
            .join()
            .map_err(|_| anyhow!("the writer thread has failed"))
    }

    fn order(&mut self, order: Order) {
        // If it takes none, it has panicked: `finish` reports it.
        let taken = self
            .orders
            .as_ref()
            .is_some_and(|orders| orders.send(order).is_ok());
        self.stopped |= !taken;
    }

    fn hand_over_messages(&mut self) {
        if let Some(batch) = self.messages.take() {
            self.order(Order::Messages(batch));
        }
    }

    fn hand_over_packets(&mut self) {
        let packets = self.packets.as_mut();
        if let Some(batch) = packets.and_then(|packets| packets.waiting.take()) {
            self.order(Order::Packets(batch));
        }
    }

    fn hand_over_waits(&mut self) {
        if let Some(batch) = self.waits.waiting.take() {
            self.order(Order::Waits(batch));
        }
    }

    /// Begin the next files if a row of this time does not belong to the last ones. The rows that
    /// wait do.
    fn make_way(&mut self, time: Timestamp<Realtime>) {
        let next = self.turn.as_mut().and_then(|turn| turn.next(time));
        if let Some(seconds) = next {
            self.hand_over_messages();
            self.hand_over_packets();
            self.hand_over_waits();
            self.order(Order::Next(seconds));
        }
    }

    fn push_packets(&mut self, ways: Vec<Way>) {
        for way in ways {
            self.make_way(way.packet.time);
            let Some(packets) = self.packets.as_mut().filter(|_| !self.stopped) else {
                return;
            };
            if packets.waiting.push(|batch| batch.push(way)) {
                self.hand_over_packets();
            }
        }
    }

    fn push_wait(&mut self, row: Waited) {
        self.names.of(row.wait.pid);
        self.make_way(row.time);
        if self.waits.waiting.push(|batch| batch.push(row)) {
            self.hand_over_waits();
        }
    }
}

/// Return a wait with the time at which it ended, or was looked at, by these clocks.
fn ended(wait: &Wait, now: Now) -> Waited {
    Waited {
        time: now.of_end(wait.since, wait.lasted),
        wait: wait.clone(),
        unix: None,
    }
}

/// One moment by two clocks.
#[derive(Debug, Clone, Copy)]
struct Now {
    monotonic: u64,
    realtime: u64,
}

impl Now {
    /// Return the time at which a wait ended.
    fn of_end(self, since: Timestamp<Monotonic>, lasted: Nanos) -> Timestamp<Realtime> {
        let end = since.as_nanos().saturating_add(lasted.0);
        let ago = self.monotonic.saturating_sub(end);
        Timestamp::from_nanos(self.realtime.saturating_sub(ago))
    }

    fn read() -> Option<Self> {
        let realtime = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(Self {
            monotonic: clock::now().ok()?.as_nanos(),
            realtime: Nanos::from(realtime).0,
        })
    }
}

impl Observer for Recorder {
    fn message(&mut self, message: &Message) {
        if self.stopped || self.left == Some(0) {
            return;
        }
        self.left = self.left.map(|left| left - 1);
        if let Some(packets) = &mut self.packets {
            packets.ways.message(message);
        }
        self.names.of(message.pid);
        self.make_way(message.time);
        if self.messages.push(|batch| batch.push(message)) {
            self.hand_over_messages();
        }
    }

    /// Hand over rows that have waited; return false if no more can be written.
    fn round_is_over(&mut self) -> bool {
        let ready = self.packets.as_mut().map(|packets| packets.ways.ready());
        self.push_packets(ready.unwrap_or_default());
        let is_late = self.turn.as_mut().is_some_and(Turn::read_clock);
        if is_late || self.messages.is_over(self.patience, self.begun) {
            self.hand_over_messages();
        }
        let packets = self.packets.as_ref();
        if is_late
            || packets.is_some_and(|packets| packets.waiting.is_over(self.patience, self.begun))
        {
            self.hand_over_packets();
        }
        if is_late || self.waits.waiting.is_over(self.patience, self.begun) {
            self.hand_over_waits();
        }
        !self.stopped && self.left != Some(0) && !self.failed.load(Ordering::Relaxed)
    }

    fn wants_containers(&self) -> bool {
        true
    }

    fn wants_ended_waits(&self) -> bool {
        true
    }

    fn waits(&mut self, waits: &Waits) {
        let told = &mut self.waits.told;
        told.attempts.extend(waits.attempts.iter().cloned());
        told.unix_attempts
            .extend(waits.unix_attempts.iter().cloned());
        let room = MOST_OWED.saturating_sub(told.owed.len());
        told.owed.extend(waits.owed.iter().take(room));
        let room = MOST_OWED.saturating_sub(told.older.len());
        told.older.extend(waits.older.iter().take(room));
        told.lost += waits.lost;
        if waits.lost > 0 {
            escape::complain(format_args!(
                "{} waits are not in the recording: it could not keep up with them",
                waits.lost
            ));
        }
        let without = waits.list.iter().filter(|wait| wait.is_without_message());
        let Some(now) = Now::read().filter(|_| !self.stopped) else {
            return;
        };
        without.for_each(|wait| self.push_wait(ended(wait, now)));
        // No message shows one at a Unix socket.
        for wait in &waits.unix {
            let time = now.of_end(wait.since, wait.lasted);
            self.push_wait(Waited::of_unix(time, wait.clone()));
        }
    }

    fn wants_packets(&self) -> bool {
        self.packets.is_some()
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        if let Some(packets) = &mut self.packets {
            packets.ways.packet(packet);
        }
    }

    fn lost_packets(&mut self, lost: packets::Lost) {
        tell_lost(lost);
        if let Some(packets) = &mut self.packets {
            packets.lost = lost;
        }
    }
}

/// Take batches back that were written.
struct Emptied {
    messages: Sender<Box<Batch>>,
    packets: Sender<Box<Packets>>,
    waits: Sender<Box<WaitRows>>,
}

/// Carry out orders until their end. After an error, rows are only counted.
fn write(
    mut place: Place,
    orders: &Receiver<Order>,
    emptied: &Emptied,
    has_failed: &AtomicBool,
) -> Ended {
    let mut failure = None;
    let mut is_measured = true;
    for order in orders {
        let mut done = Ok(());
        // At the end, no receiver takes a batch back.
        match order {
            Order::Messages(mut batch) => {
                match failure {
                    None => done = place.write(&batch),
                    Some(_) => place.miss_messages(&batch),
                }
                batch.clear();
                let _ = emptied.messages.send(batch);
            }
            Order::Packets(mut batch) => {
                match failure {
                    None => done = place.write_packets(&batch),
                    Some(_) => place.miss_packets(&batch),
                }
                batch.clear();
                let _ = emptied.packets.send(batch);
            }
            Order::Waits(mut batch) => {
                match failure {
                    None => done = place.write_waits(&batch),
                    Some(_) => place.miss_waits(&batch),
                }
                batch.clear();
                let _ = emptied.waits.send(batch);
            }
            Order::Next(seconds) if failure.is_none() => done = place.begin_next(seconds),
            Order::Next(_) => {}
            Order::Lost(messages, packets) => place.note_lost(messages, packets),
            Order::OfWaits(told, processes) => place.note_waits(&told, processes),
            Order::Failed => is_measured = false,
        }
        if let Err(error) = done {
            has_failed.store(true, Ordering::Relaxed);
            failure = Some(error);
        }
    }
    if !is_measured && place.is_empty() {
        place.discard();
    } else if let Err(error) = place.end() {
        failure.get_or_insert(error);
    }
    let messages = Recorded {
        what: "message",
        written: place.messages,
    };
    let packets = place.packets.map(|written| Recorded {
        what: "packet",
        written,
    });
    let waits = Recorded {
        what: "wait",
        written: place.waits,
    };
    let all = [messages].into_iter().chain(packets).chain([waits]);
    Ended {
        recorded: all.filter(|recorded| recorded.written.files > 0).collect(),
        missing: place.missing,
        failure,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use sockstamp_model::fixture;
    use sockstamp_model::stage::Direction;
    use sockstamp_record::Reader;

    use super::super::place::{Choice, Limits};
    use super::*;

    /// Carry out these orders; no more than this many bytes may be written.
    fn carried_out(path: &Path, all_bytes: u64, orders: Vec<Order>) -> Ended {
        let limits = Limits {
            file_bytes: u64::MAX,
            file_time: Duration::MAX,
            file_groups: usize::MAX,
            all_bytes: Some(all_bytes),
            free_bytes: 0,
        };
        let place = Place::new(path, false, limits, Choice::default()).unwrap();
        let (sender, received) = channel();
        for order in orders {
            sender.send(order).unwrap();
        }
        drop(sender);
        let has_failed = AtomicBool::new(false);
        let emptied = Emptied {
            messages: channel().0,
            packets: channel().0,
            waits: channel().0,
        };
        let ended = write(place, &received, &emptied, &has_failed);
        assert_eq!(has_failed.load(Ordering::Relaxed), ended.failure.is_some());
        ended
    }

    fn messages(count: u64) -> Order {
        let mut batch = Batch::new();
        (0..count).for_each(|_| batch.push(&fixture::message(Direction::Tx)));
        Order::Messages(Box::new(batch))
    }

    fn lost() -> Order {
        let lost = Lost {
            ring: 2,
            ..Lost::default()
        };
        Order::Lost(lost, packets::Lost::default())
    }

    /// Record messages that end at these seconds; return the rows of each file, by its path.
    fn rows_of(path: &Path, file_time: Duration, rounds: &[&[u64]]) -> Vec<(String, u64)> {
        let limits = Limits {
            file_bytes: u64::MAX,
            file_time,
            file_groups: usize::MAX,
            all_bytes: None,
            free_bytes: 0,
        };
        let place = Place::new(path, false, limits, Choice::default()).unwrap();
        let mut recorder = Recorder::start(place).unwrap();
        for round in rounds {
            for seconds in *round {
                let mut message = fixture::message(Direction::Tx);
                message.time = Timestamp::from_nanos(seconds * 1_000_000_000);
                recorder.message(&message);
            }
            assert!(recorder.round_is_over());
        }
        let ended = recorder.finish(Some(Lost::default())).unwrap();
        assert!(ended.failure.is_none());
        let files = crate::recordings::files(path).unwrap();
        let rows = files.iter().map(|file| {
            let of = file.strip_prefix(path).unwrap().display().to_string();
            (of, Reader::open(file).unwrap().rows())
        });
        rows.collect()
    }

    #[test]
    fn rows_that_wait_are_written_to_the_file_of_their_hour() {
        // 2099-12-31, 20:00.
        const BEGIN: u64 = 4_102_444_799 - 4 * 3600 + 1;
        let directory = tempfile::tempdir().unwrap();
        let end = BEGIN + 3600;
        let rounds: [&[u64]; 2] = [&[BEGIN, BEGIN + 1, end - 1, end], &[end + 1]];
        let rows = rows_of(directory.path(), Duration::MAX, &rounds);
        let [(first, 3), (second, 2)] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert!(first.starts_with("date=2099-12-31/hour=20/"), "{rows:?}");
        assert!(second.starts_with("date=2099-12-31/hour=21/"), "{rows:?}");
    }

    #[test]
    fn a_file_ends_with_its_time_however_few_rows_wait() {
        let directory = tempfile::tempdir().unwrap();
        let rounds: [&[u64]; 3] = [&[1, 1], &[1], &[1, 1, 1]];
        let rows = rows_of(directory.path(), Duration::ZERO, &rounds);
        let mut rows: Vec<_> = rows.into_iter().map(|(_, rows)| rows).collect();
        rows.sort_unstable();
        assert_eq!(rows, [1, 2, 3]);
    }

    #[test]
    fn rows_after_a_failed_write_count_as_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let ended = carried_out(&path, u64::MAX, vec![messages(10)]);
        assert!(ended.failure.is_none());
        let most = ended.recorded[0].written.bytes + 10_000;
        let path = directory.path().join("other");
        let orders = vec![messages(10), messages(7), messages(5), lost()];
        let ended = carried_out(&path, most, orders);
        let told = ended.failure.unwrap().to_string();
        assert!(told.contains("has reached --max-size"), "{told}");
        let missing = Missing {
            messages: 12,
            ..Missing::default()
        };
        assert_eq!(ended.missing, missing);
        let file = Reader::open(&path).unwrap();
        assert_eq!((file.rows(), file.unread()), (10, 0));
        assert_eq!(file.fact("lost"), Some("14"));
        assert!(path.metadata().unwrap().len() <= most);
    }

    #[test]
    fn losses_of_a_failed_measurement_are_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        carried_out(&path, u64::MAX, vec![messages(10), Order::Failed]);
        let file = Reader::open(&path).unwrap();
        assert_eq!((file.rows(), file.fact("lost")), (10, None));
    }

    #[test]
    fn a_measurement_that_never_began_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let ended = carried_out(&path, u64::MAX, vec![Order::Failed]);
        assert!(ended.recorded.is_empty());
        assert!(!path.exists());
    }
}
