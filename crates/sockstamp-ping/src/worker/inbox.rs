//! Take packets and error-queue entries from a socket in a few system calls, for later processing.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use sockstamp::error_queue::{ErrorQueue, NetworkError, Original, Originals, Report};
use sockstamp::timestamping::{self, ReceiveBatch, Received, TxStamp};

use crate::clocks::Reading;

/// Bytes of a packet that are examined: the longest header of IPv4 (60), one of TCP (20), or one of
/// ICMP and the cookie (16).
const HEAD: usize = 96;
/// The largest datagram.
const LARGEST: usize = 1 << 16;
/// Limit of system calls that return a pending socket error, which the error queue has as well.
const PENDING_ERRORS: usize = 64;

/// The beginning of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    bytes: [u8; HEAD],
    length: usize,
}

impl Head {
    fn of(packet: &[u8]) -> Self {
        let length = packet.len().min(HEAD);
        let mut bytes = [0; HEAD];
        bytes[..length].copy_from_slice(&packet[..length]);
        Self { bytes, length }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A packet that came.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) received: Received,
    pub(super) head: Head,
    /// After it was read.
    pub(super) read: Reading,
}

/// An entry of the error queue.
#[derive(Debug)]
pub(super) enum QueueEntry {
    Stamp(TxStamp),
    Error(Box<Trouble>),
}

/// An ICMP error.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) error: NetworkError,
    /// The destination of the packet that the error is about.
    pub(super) destination: Option<SocketAddr>,
    pub(super) quoted: Head,
    pub(super) read: Reading,
}

#[derive(Debug)]
pub(super) struct Inbox {
    packet: Vec<u8>,
    batch: ReceiveBatch,
    queue: ErrorQueue,
    originals: Originals,
    pub(super) incoming: Vec<Incoming>,
    pub(super) entries: Vec<QueueEntry>,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            packet: vec![0; LARGEST],
            batch: ReceiveBatch::new(LARGEST),
            queue: ErrorQueue::new(),
            originals: Originals::new(),
            incoming: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Entries of error queues that were not understood, so far.
    pub(super) fn malformed(&self) -> u64 {
        self.queue.counters().lost()
    }

    /// Take everything available. Packets come first: stamps of the probes that they answer are
    /// then in the queue already.
    pub(super) fn collect(&mut self, socket: impl AsFd) -> io::Result<()> {
        self.incoming.clear();
        self.entries.clear();
        self.receive(&socket)?;
        self.drain(&socket)
    }

    /// Take one packet, if there is any.
    pub(super) fn receive_one(&mut self, socket: impl AsFd) -> Option<Incoming> {
        // An error is in the error queue, too.
        let received = timestamping::receive(socket, &mut self.packet).ok()?;
        Some(Incoming {
            head: Head::of(&self.packet[..received.length]),
            received,
            read: Reading::take(),
        })
    }

    fn receive(&mut self, socket: impl AsFd) -> io::Result<()> {
        let mut pending_errors = 0;
        loop {
            let before = self.incoming.len();
            let incoming = &mut self.incoming;
            let nobody_knows_yet = Reading::NEVER;
            let taken = self.batch.receive(&socket, |received, payload| {
                incoming.push(Incoming {
                    received,
                    head: Head::of(payload),
                    read: nobody_knows_yet,
                });
            });
            let read = Reading::take();
            self.incoming[before..]
                .iter_mut()
                .for_each(|incoming| incoming.read = read);
            match taken {
                Ok(ReceiveBatch::MESSAGES) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if pending_errors == PENDING_ERRORS => return Err(error),
                Err(_) => pending_errors += 1,
            }
        }
    }

    fn drain(&mut self, socket: impl AsFd) -> io::Result<()> {
        let entries = &mut self.entries;
        self.queue
            .drain_with_originals(&mut self.originals, socket, |report, original| {
                entries.extend(QueueEntry::of(report, original))
            })?;
        Ok(())
    }
}

impl QueueEntry {
    fn of(report: Report<'_>, original: Original<'_>) -> Option<Self> {
        match report {
            Report::Stamp { stamp, .. } => Some(Self::Stamp(stamp)),
            Report::Network(error) => Some(Self::Error(Box::new(Trouble {
                error,
                destination: original.destination,
                quoted: Head::of(original.packet),
                read: Reading::take(),
            }))),
            // These sockets send neither without a copy nor at a requested time.
            _ => None,
        }
    }
}
