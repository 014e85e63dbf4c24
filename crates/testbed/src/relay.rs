//! Run one direction of a link: read packets from one TUN device and write them to the other when
//! they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;

use crate::link_config::LinkConfig;
use crate::middlebox::{Experiments, Segment};
use crate::nat::Nat;
use crate::statistics::{Counters, add};
use crate::sys::{self, VNET_HEADER_LEN};

/// Above ordinary threads, below whatever a machine's owner gave a priority on purpose.
const REAL_TIME_PRIORITY: i32 = 5;

/// The end of a wait is spun through, because waking from an idle CPU takes tens of µs.
const SPIN: Duration = Duration::from_micros(50);

/// Packets read before those that have become due are written, and the other way round: under load
/// each waits for the other, and a packet of 64 KB takes some 20 µs.
const BATCH: usize = 8;

/// Larger than any packet that a TUN device hands over (64 KB and its header).
const BUFFER_LEN: usize = 1 << 17;

/// Bytes that wait at most, so that a wrong configuration cannot eat the machine.
const PENDING_LIMIT: usize = 256 << 20;

/// The data that a direction's thread shares with its [`Link`](crate::Link).
#[derive(Debug, Default)]
pub(crate) struct Shared {
    config: Mutex<LinkConfig>,
    /// Raised after each change of `config`, so that the thread takes the lock only then.
    generation: AtomicU64,
    /// Data packets still to be lost on request.
    lose_next: AtomicU64,
    /// Set once, if the first host's address must be translated.
    pub(crate) nat: OnceLock<Nat>,
    /// Added to the first host's sequence numbers of TCP.
    pub(crate) shift: AtomicU32,
    /// An [`Experiments`].
    pub(crate) experiments: AtomicU8,
    pub(crate) counters: Counters,
}

impl Shared {
    pub(crate) fn set_config(&self, config: LinkConfig) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn lose_next_data(&self, packets: u64) {
        self.lose_next.fetch_add(packets, Ordering::Relaxed);
    }

    /// Change a packet. Return true if it must be dropped.
    fn interfere(&self, leaves: bool, frame: &mut [u8]) -> bool {
        let Some(mut segment) = Segment::in_frame(frame) else {
            return false;
        };
        segment.shift(leaves, self.shift.load(Ordering::Relaxed));
        let experiments = self.experiments.load(Ordering::Relaxed);
        if experiments == Experiments::Alter as u8 {
            segment.alter();
        }
        if experiments == Experiments::Strip as u8 {
            segment.strip();
        }
        experiments == Experiments::Drop as u8 && segment.is_experimental()
    }

    /// Take one of the requested losses, if one is left.
    fn take_loss(&self) -> bool {
        self.lose_next.load(Ordering::Relaxed) > 0
            && self
                .lose_next
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                })
                .is_ok()
    }
}

/// A packet that waits. Ordered by the time it is due, then by arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    due: Instant,
    /// The position in the order of arrival.
    number: u64,
    /// The virtio header and the packet.
    bytes: Box<[u8]>,
}

/// The time when a packet leaves, or the reason why it does not.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Deliver {
        due: Instant,
        duplicate: Option<Instant>,
    },
    Lost,
    QueueFull,
}

/// The rules of one direction: no I/O, so that they can be tested by themselves.
#[derive(Debug)]
struct Schedule {
    config: LinkConfig,
    rng: Rng,
    /// The latest due time, which later packets may not precede.
    last_due: Option<Instant>,
    /// The time when the line has sent everything before.
    line_free: Option<Instant>,
}

impl Schedule {
    /// `stream` distinguishes the directions: they draw from different sequences of one seed.
    fn new(config: LinkConfig, stream: u64) -> Schedule {
        // The golden ratio's bits spread neighbouring seeds; equal seeds must not make equal
        // directions.
        let seed = config.seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Schedule {
            config,
            rng: Rng::with_seed(seed),
            last_due: None,
            line_free: None,
        }
    }

    /// Take a new configuration for the packets to come. Earlier ones stay ahead of them.
    fn reconfigure(&mut self, config: LinkConfig, stream: u64) {
        let (last_due, line_free) = (self.last_due, self.line_free);
        *self = Schedule {
            last_due,
            line_free,
            ..Schedule::new(config, stream)
        };
    }

    /// Return the fate of a packet of `len` bytes that arrived at `now`, and whether it is delayed.
    fn decide(&mut self, now: Instant, len: usize, lose: bool) -> (Fate, bool) {
        // Always four draws, so that the fate of a packet depends on its number and the seed only.
        let [loss, duplicate, reorder, jitter] = std::array::from_fn(|_| self.rng.f64());
        if lose || loss < self.config.loss {
            return (Fate::Lost, false);
        }
        let Some(sent) = self.transmit(now, len) else {
            return (Fate::QueueFull, false);
        };
        let due = sent + self.config.delay + self.config.jitter.mul_f64(jitter);
        if reorder < self.config.reorder {
            return (
                Fate::Deliver {
                    due: due + self.config.reorder_hold,
                    duplicate: None,
                },
                true,
            );
        }
        let due = self.in_order(due);
        let duplicate = if duplicate < self.config.duplicate {
            self.transmit(now, len)
                .map(|sent| self.in_order(due.max(sent + self.config.delay)))
        } else {
            None
        };
        (Fate::Deliver { due, duplicate }, false)
    }

    fn in_order(&mut self, due: Instant) -> Instant {
        let due = self.last_due.map_or(due, |last| due.max(last));
        self.last_due = Some(due);
        due
    }

    /// Return the time when the last bit is on the line, or `None` if the queue before it is full.
    fn transmit(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Some(rate) = self.config.rate_bits_per_second else {
            return Some(now);
        };
        let start = self.line_free.map_or(now, |free| free.max(now));
        let queued_bits = (start - now).as_nanos() * u128::from(rate) / 1_000_000_000;
        if queued_bits / 8 + len as u128 > self.config.queue_bytes as u128 {
            return None;
        }
        let nanoseconds = len as u128 * 8 * 1_000_000_000 / u128::from(rate);
        let free = start + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.line_free = Some(free);
        Some(free)
    }
}

/// A direction's thread.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) from: Arc<File>,
    pub(crate) to: Arc<File>,
    pub(crate) shared: Arc<Shared>,
    /// Ends the thread when the other end is closed.
    pub(crate) stop: Arc<PipeReader>,
    pub(crate) stream: u64,
}

impl Relay {
    /// Run until the link is dropped.
    pub(crate) fn run(self) -> io::Result<()> {
        let real_time = sys::become_real_time(REAL_TIME_PRIORITY).is_ok();
        if !real_time {
            // The default lets the kernel wake an ordinary thread 50 µs late: prctl(2),
            // PR_SET_TIMERSLACK.
            prctl::set_timerslack(1)?;
        }
        self.shared
            .counters
            .real_time
            .store(real_time, Ordering::Relaxed);

        let mut schedule = Schedule::new(LinkConfig::default(), self.stream);
        let mut generation = 0;
        let mut queue = Queue::default();
        let mut buffer = vec![0; BUFFER_LEN].into_boxed_slice();
        loop {
            for _ in 0..BATCH {
                let Some(len) = self.read(&mut buffer)? else {
                    break;
                };
                let latest = self.shared.generation.load(Ordering::Acquire);
                if latest != generation {
                    let config = self
                        .shared
                        .config
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .clone();
                    schedule.reconfigure(config, self.stream);
                    generation = latest;
                }
                if let Some(nat) = self.shared.nat.get() {
                    nat.translate(self.stream == 0, &mut buffer[..len]);
                }
                if self.shared.interfere(self.stream == 0, &mut buffer[..len]) {
                    add(&self.shared.counters.lost, 1);
                    continue;
                }
                self.take(&buffer[..len], &mut schedule, &mut queue);
            }
            for _ in 0..BATCH {
                let Some(packet) = queue.pop_due(Instant::now()) else {
                    break;
                };
                self.write(&packet.bytes, packet.due, packet.number, &mut queue);
            }
            // Return at once if there is more to do, but notice the end even if traffic never
            // pauses.
            if !self.wait(queue.next_due())? {
                return Ok(());
            }
        }
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match (&*self.from).read(buffer) {
                Ok(len) => return Ok(Some(len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Decides about one packet and delivers it at once if nothing speaks against that.
    fn take(&self, bytes: &[u8], schedule: &mut Schedule, queue: &mut Queue) {
        let now = Instant::now();
        let counters = &self.shared.counters;
        let Some(packet) = bytes
            .get(VNET_HEADER_LEN..)
            .filter(|packet| !is_multicast(packet))
        else {
            add(&counters.ignored, 1);
            return;
        };
        add(&counters.received, 1);
        let lose = has_tcp_payload(packet) && self.shared.take_loss();
        let (fate, held_back) = schedule.decide(now, packet.len(), lose);
        if held_back {
            add(&counters.held_back, 1);
        }
        match fate {
            Fate::Lost => add(&counters.lost, 1),
            Fate::QueueFull => add(&counters.queue_drops, 1),
            Fate::Deliver { .. } if queue.bytes + 2 * bytes.len() > PENDING_LIMIT => {
                add(&counters.queue_drops, 1);
            }
            Fate::Deliver { due, duplicate } => {
                let number = queue.number();
                if due <= now && queue.is_empty() {
                    self.write(bytes, due, number, queue);
                } else {
                    queue.push(due, number, bytes);
                }
                if let Some(due) = duplicate {
                    add(&counters.duplicated, 1);
                    let number = queue.number();
                    queue.push(due, number, bytes);
                }
            }
        }
    }

    fn write(&self, bytes: &[u8], due: Instant, number: u64, queue: &mut Queue) {
        let counters = &self.shared.counters;
        let lateness = Instant::now().saturating_duration_since(due);
        match (&*self.to).write(bytes) {
            // A device takes a packet as a whole or not at all.
            Ok(_whole) => {
                counters.record_lateness(lateness);
                add(&counters.packets, 1);
                add(&counters.bytes, (bytes.len() - VNET_HEADER_LEN) as u64);
                if queue.delivered(number) {
                    add(&counters.reordered, 1);
                }
            }
            Err(_) => add(&counters.write_errors, 1),
        }
    }

    /// Wait for a packet or for the time `due`. False: the link has been dropped.
    fn wait(&self, due: Option<Instant>) -> io::Result<bool> {
        let remaining = due.map(|due| due.saturating_duration_since(Instant::now()));
        let timeout =
            remaining.map(|remaining| TimeSpec::from_duration(remaining.saturating_sub(SPIN)));
        let mut descriptors = [
            PollFd::new(self.from.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.stop.as_fd(), PollFlags::empty()),
        ];
        match ppoll(&mut descriptors, timeout, None) {
            Ok(_) => Ok(descriptors[1]
                .revents()
                .is_none_or(|events| events.is_empty())),
            Err(Errno::EINTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// The packets that wait, and the order in which packets went by.
#[derive(Debug, Default)]
struct Queue {
    pending: BinaryHeap<Reverse<Pending>>,
    bytes: usize,
    next_number: u64,
    /// One more than the highest delivered number.
    delivered: u64,
}

impl Queue {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    fn push(&mut self, due: Instant, number: u64, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.pending.push(Reverse(Pending {
            due,
            number,
            bytes: bytes.into(),
        }));
    }

    fn next_due(&self) -> Option<Instant> {
        self.pending.peek().map(|Reverse(packet)| packet.due)
    }

    fn pop_due(&mut self, now: Instant) -> Option<Pending> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse(packet) = self.pending.pop()?;
        self.bytes -= packet.bytes.len();
        Some(packet)
    }

    /// Note a delivery; true if a later packet was delivered before.
    fn delivered(&mut self, number: u64) -> bool {
        let overtaken = number < self.delivered;
        self.delivered = self.delivered.max(number + 1);
        overtaken
    }
}

/// The version field of an IPv4 and an IPv6 header.
const IPV4: u8 = 4;
const IPV6: u8 = 6;
const IPV6_HEADER_LEN: usize = 40;

fn version(packet: &[u8]) -> Option<u8> {
    packet.first().map(|byte| byte >> 4)
}

fn is_multicast(packet: &[u8]) -> bool {
    match (version(packet), packet) {
        // 224.0.0.0/4 and the broadcast address.
        (Some(IPV4), packet) => packet.get(16).is_some_and(|&byte| byte >= 224),
        // ff00::/8
        (Some(IPV6), packet) => packet.get(24) == Some(&0xff),
        _ => true,
    }
}

/// Return true for a TCP segment with at least one byte of data. IPv6 extension headers are not
/// parsed.
fn has_tcp_payload(packet: &[u8]) -> bool {
    const TCP: u8 = 6;
    let (protocol, ip_len) = match version(packet) {
        Some(IPV4) => (packet.get(9), usize::from(packet[0] & 0xf) * 4),
        _ => (packet.get(6), IPV6_HEADER_LEN),
    };
    let Some(&data_offset) = packet.get(ip_len + 12) else {
        return false;
    };
    protocol == Some(&TCP) && packet.len() > ip_len + usize::from(data_offset >> 4) * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(
        config: LinkConfig,
        stream: u64,
        spacing: Duration,
        count: u32,
    ) -> Vec<(Option<Duration>, bool)> {
        let mut schedule = Schedule::new(config, stream);
        let start = Instant::now();
        (0..count)
            .map(
                |n| match schedule.decide(start + spacing * n, 1000, false) {
                    (Fate::Deliver { due, .. }, held) => (Some(due - start), held),
                    (_, held) => (None, held),
                },
            )
            .collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_fates_and_the_directions_differ() {
        let config = LinkConfig::default()
            .loss(0.3)
            .seed(7)
            .jitter(Duration::from_millis(1))
            .reorder(0.1);
        let run = |config: &LinkConfig, stream| {
            fates(config.clone(), stream, Duration::from_millis(2), 200)
        };
        assert_eq!(run(&config, 0), run(&config, 0));
        assert_ne!(run(&config, 0), run(&config, 1));
        assert_ne!(run(&config, 0), run(&config.clone().seed(8), 0));
    }

    #[test]
    fn loss_of_one_packet_does_not_depend_on_other_settings() {
        let config = LinkConfig::default().loss(0.3).seed(7);
        let lost = |config| -> Vec<bool> {
            fates(config, 0, Duration::from_millis(2), 200)
                .iter()
                .map(|(due, _)| due.is_none())
                .collect()
        };
        assert_eq!(
            lost(config.clone()),
            lost(
                config
                    .jitter(Duration::from_millis(1))
                    .duplicate(0.5)
                    .reorder(0.5)
            )
        );
    }

    #[test]
    fn jitter_keeps_the_order() {
        let config = LinkConfig::default()
            .delay(Duration::from_millis(1))
            .jitter(Duration::from_millis(5));
        let dues: Vec<_> = fates(config, 0, Duration::from_micros(100), 500)
            .iter()
            .map(|(due, _)| *due)
            .collect();
        assert!(dues.is_sorted());
        assert!(dues[0] >= Some(Duration::from_millis(1)));
    }

    #[test]
    fn a_line_rate_spaces_packets_and_a_full_queue_drops() {
        // 1000 bytes at 8 Mbit/s last 1 ms. Ten fit the queue.
        let config = LinkConfig::default()
            .rate_bits_per_second(8_000_000)
            .queue_bytes(10_000);
        let dues: Vec<_> = fates(config, 0, Duration::ZERO, 12)
            .iter()
            .map(|(due, _)| *due)
            .collect();
        let expected: Vec<_> = (1..=10)
            .map(|n| Some(Duration::from_millis(n)))
            .chain([None, None])
            .collect();
        assert_eq!(dues, expected);
    }

    #[test]
    fn waiting_packets_precede_those_with_a_shorter_delay() {
        let mut schedule = Schedule::new(LinkConfig::default().delay(Duration::from_millis(50)), 0);
        let now = Instant::now();
        let (Fate::Deliver { due: first, .. }, _) = schedule.decide(now, 100, false) else {
            panic!("lost")
        };
        schedule.reconfigure(LinkConfig::default(), 0);
        let (Fate::Deliver { due: second, .. }, _) = schedule.decide(now, 100, false) else {
            panic!("lost")
        };
        assert!(second >= first);
    }

    #[test]
    fn multicast_and_tcp_payload_are_recognised() {
        let mut v4 = [0u8; 41];
        v4[0] = 0x45;
        v4[9] = 6;
        v4[16] = 10;
        v4[32] = 5 << 4;
        assert!(has_tcp_payload(&v4));
        assert!(!has_tcp_payload(&v4[..40]));
        assert!(!is_multicast(&v4));
        v4[16] = 224;
        assert!(is_multicast(&v4));

        let mut v6 = [0u8; 73];
        v6[0] = 0x60;
        v6[6] = 6;
        v6[24] = 0xfd;
        v6[52] = 8 << 4;
        assert!(has_tcp_payload(&v6));
        assert!(!has_tcp_payload(&v6[..72]));
        assert!(!is_multicast(&v6));
        v6[24] = 0xff;
        assert!(is_multicast(&v6));
        assert!(is_multicast(&[]));
    }
}
