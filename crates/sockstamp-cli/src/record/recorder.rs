//! Collect messages and packets, and write them on a thread of its own: the kernel's ring is read
//! meanwhile.

use std::fmt;
use std::mem;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use sockstamp_bpf::packets;
use sockstamp_model::message::Message;
use sockstamp_model::packet::{Packet, Way};
use sockstamp_model::summary::Lost;
use sockstamp_record::{Batch, Packets, Rows};

use super::patience::Patience;
use super::place::{Place, Written};
use crate::measure::Observer;
use crate::pcap;
use crate::ways::Ways;

/// Batches that wait to be written. With those that are filled and the one that is written, they
/// bound the memory.
const WAITING: usize = 1;

/// An order for the writer.
enum Order {
    Messages(Box<Batch>),
    Packets(Box<Packets>),
    /// Note what the recording lacks: messages, and packets.
    Lost(Lost, packets::Lost),
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

/// Take messages, and packets if they are wanted.
pub(super) struct Recorder {
    messages: Waiting<Batch>,
    packets: Option<OfPackets>,
    patience: Patience,
    begun: Instant,
    /// None once the writer must end.
    orders: Option<SyncSender<Order>>,
    writer: Option<JoinHandle<Result<Vec<Recorded>>>>,
    stopped: bool,
}

/// The result of a recording.
pub(super) struct Recorded {
    what: &'static str,
    written: Written,
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
        write!(f, "recorded {rows} {what}, {bytes} bytes, files: {files}")?;
        if *removed > 0 {
            write!(f, ", of which {removed} were removed for --max-size")?;
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
        let patience = Patience {
            is_single: !place.is_directory(),
        };
        let of_packets = place.packets.map(|_| OfPackets {
            ways: Ways::default(),
            waiting: Waiting::new(empty_of_packets),
            lost: packets::Lost::default(),
        });
        let writer = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write(place, &received, &messages, &packets))
            .context("cannot start the writer thread")?;
        Ok(Self {
            messages: Waiting::new(empty),
            packets: of_packets,
            patience,
            begun: Instant::now(),
            orders: Some(orders),
            writer: Some(writer),
            stopped: false,
        })
    }

    /// Wait until all is written. `lost` is what the measurement lacks.
    pub(super) fn finish(mut self, lost: Lost) -> Result<Vec<Recorded>> {
        self.hand_over_messages();
        let rest = self.packets.as_mut().map(|packets| packets.ways.rest());
        self.push_packets(rest.unwrap_or_default());
        self.hand_over_packets();
        let packets = self.packets.as_ref().map(|packets| packets.lost);
        self.order(Order::Lost(lost, packets.unwrap_or_default()));
        drop(self.orders.take());
        let writer = self.writer.take().context("it is already finished")?;
        writer
            .join()
            .map_err(|_| anyhow!("the writer thread has failed"))?
    }

    fn order(&mut self, order: Order) {
        // If it takes none, it has ended: `finish` reports its error.
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

    fn push_packets(&mut self, ways: Vec<Way>) {
        for way in ways {
            let Some(packets) = self.packets.as_mut().filter(|_| !self.stopped) else {
                return;
            };
            if packets.waiting.push(|batch| batch.push(way)) {
                self.hand_over_packets();
            }
        }
    }
}

impl Observer for Recorder {
    fn message(&mut self, message: &Message) {
        if self.stopped {
            return;
        }
        if let Some(packets) = &mut self.packets {
            packets.ways.message(message);
        }
        if self.messages.push(|batch| batch.push(message)) {
            self.hand_over_messages();
        }
    }

    /// Hand over rows that have waited; return false if no more can be written.
    fn round_is_over(&mut self) -> bool {
        let ready = self.packets.as_mut().map(|packets| packets.ways.ready());
        self.push_packets(ready.unwrap_or_default());
        if self.messages.is_over(self.patience, self.begun) {
            self.hand_over_messages();
        }
        let packets = self.packets.as_ref();
        if packets.is_some_and(|packets| packets.waiting.is_over(self.patience, self.begun)) {
            self.hand_over_packets();
        }
        let ended = self.writer.as_ref().is_some_and(JoinHandle::is_finished);
        !self.stopped && !ended
    }

    fn wants_containers(&self) -> bool {
        true
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
        pcap::tell_lost(lost);
        if let Some(packets) = &mut self.packets {
            packets.lost = lost;
        }
    }
}

fn write(
    mut place: Place,
    orders: &Receiver<Order>,
    messages: &Sender<Box<Batch>>,
    packets: &Sender<Box<Packets>>,
) -> Result<Vec<Recorded>> {
    for order in orders {
        // At the end, no receiver takes a batch back.
        match order {
            Order::Messages(mut batch) => {
                place.write(&batch)?;
                batch.clear();
                let _ = messages.send(batch);
            }
            Order::Packets(mut batch) => {
                place.write_packets(&batch)?;
                batch.clear();
                let _ = packets.send(batch);
            }
            Order::Lost(messages, packets) => place.note_lost(messages, packets)?,
        }
    }
    place.end()?;
    let messages = Recorded {
        what: "messages",
        written: place.messages,
    };
    let packets = place.packets.map(|written| Recorded {
        what: "packets",
        written,
    });
    Ok([messages].into_iter().chain(packets).collect())
}
