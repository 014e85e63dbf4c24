//! Join messages of two hosts as they are read from recordings.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use sockstamp_model::clock::{Delta, Monotonic, Nanos, Realtime, Timestamp};
use sockstamp_model::flow::{Protocol, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;

use crate::clocks::{Clocks, Estimate, Evidence, Quality, Side, WINDOW};
use crate::life::{End, Host, Life, LifeStage};
use crate::pairs::{Found, Pair, Stream};
use crate::unmatched::{Reason, Unmatched};

/// Nanoseconds between two sweeps over what waits for its other end.
const SWEEP: u64 = 2_000_000_000;

/// Nanoseconds within which a row comes behind one that is later: rows of a row group are ordered
/// by their flow.
const DISORDER: u64 = 4_000_000_000;

/// A direction of a connection: the sender's address, then the reader's.
type Key = (Host, SocketAddr, SocketAddr);

/// Both ends of a message, until the offset of the clocks at its time is known.
#[derive(Debug)]
struct Matched {
    key: Key,
    pair: Pair,
}

/// Where the offset of the clocks comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// From the messages themselves.
    #[default]
    Messages,
    /// CLOCK_REALTIME of both hosts is the same, because PTP or NTP keeps it so.
    Clocks,
}

/// The circumstances of two recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Where the offset of the clocks comes from.
    pub trust: Trust,
    /// Time that CLOCK_REALTIME of the hosts may be apart: others are not joined.
    pub apart: Nanos,
    /// Both hosts measured the same messages, because they chose them by their bytes.
    pub in_step: bool,
}

/// Messages of two hosts, joined.
#[derive(Debug)]
pub struct Join {
    settings: Settings,
    streams: HashMap<Key, Stream>,
    clocks: Clocks,
    matched: VecDeque<Matched>,
    unmatched: Unmatched,
    /// The largest distance of the times of both ends of a message so far.
    seen_apart: u64,
    /// The newest message of each host.
    newest: [u64; 2],
    swept: u64,
    joined: u64,
}

impl Join {
    /// Begin.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            streams: HashMap::new(),
            clocks: Clocks::default(),
            matched: VecDeque::new(),
            unmatched: Unmatched::default(),
            seen_apart: 0,
            newest: [0; 2],
            swept: 0,
            joined: 0,
        }
    }

    /// Return the host whose messages are needed next: the one that is behind.
    #[must_use]
    pub fn needs(&self) -> Host {
        match self.newest[0] <= self.newest[1] {
            true => Host::First,
            false => Host::Second,
        }
    }

    /// Tell that a host has no more messages.
    pub fn ends(&mut self, host: Host) {
        self.newest[host as usize] = u64::MAX;
    }

    /// Take the next message of a host. Call `take` for each life that is complete with it.
    pub fn add(&mut self, host: Host, message: &Message, take: &mut dyn FnMut(&Life)) {
        let newest = &mut self.newest[host as usize];
        *newest = (*newest).max(message.time.as_nanos());
        if !message.is_connection() {
            self.add_message(host, message);
        }
        let complete = self.newest[0].min(self.newest[1]);
        if complete >= self.swept.saturating_add(SWEEP) {
            self.sweep(complete, take);
        }
    }

    /// Complete what is left.
    pub fn finish(&mut self, take: &mut dyn FnMut(&Life)) {
        self.clocks.settle(u64::MAX);
        let end = Timestamp::from_nanos(u64::MAX);
        let unmatched = &mut self.unmatched;
        for stream in self.streams.values_mut() {
            stream.forget(end, |reason| unmatched[reason] += 1);
        }
        self.streams.clear();
        while let Some(matched) = self.matched.pop_front() {
            self.complete(&matched, take);
        }
    }

    /// The offsets of the clocks.
    #[must_use]
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// The messages that were not joined.
    #[must_use]
    pub fn unmatched(&self) -> &Unmatched {
        &self.unmatched
    }

    /// The number of lives.
    #[must_use]
    pub fn joined(&self) -> u64 {
        self.joined
    }

    fn add_message(&mut self, host: Host, message: &Message) {
        if message.flow.protocol == Protocol::Udp {
            self.unmatched[Reason::Udp] += 1;
            return;
        }
        let (local, remote) = (canonical(message.flow.local), canonical(message.flow.remote));
        let (key, is_sent) = match message.direction {
            Direction::Tx => ((host, local, remote), true),
            Direction::Rx => ((host.peer(), remote, local), false),
        };
        let stream = self.streams.entry(key).or_default();
        let found = match is_sent {
            true => stream.sent(message),
            false => stream.read(message),
        };
        match found {
            Found::Nothing => {}
            Found::Refused => self.unmatched[Reason::Refused] += 1,
            Found::Pair(pair) => {
                self.observe(key.0, &pair);
                self.seen_apart = self.seen_apart.max(pair.apart());
                self.matched.push_back(Matched { key, pair });
            }
        }
    }

    /// Bound the offset of the clocks by a message.
    fn observe(&mut self, from: Host, pair: &Pair) {
        let (sent, read) = (&pair.sent, &pair.read);
        let ahead = |reader: Timestamp<Monotonic>, sender: Timestamp<Monotonic>| {
            let (reader, sender) = (reader.as_nanos(), sender.as_nanos());
            i64::try_from(i128::from(reader) - i128::from(sender)).ok()
        };
        // Its last byte left with later bytes, or more than once: the stamps are of another packet.
        if !sent.coalesced && sent.retransmits == 0 {
            let apart = ahead(read.arrived, sent.left);
            self.bound(from, (sent.left, read.arrived), apart, Evidence::Data);
        }
        let apart = ahead(read.arrived, sent.acknowledged);
        let times = (sent.acknowledged, read.arrived);
        self.bound(from, times, apart, Evidence::Acknowledgement);
    }

    /// Bound it by the reader's clock less the sender's. A packet that the second host reads is a
    /// bound from above, its acknowledgement one from below; what the first reads, the other way.
    fn bound(
        &mut self,
        from: Host,
        (sender, reader): (Timestamp<Monotonic>, Timestamp<Monotonic>),
        apart: Option<i64>,
        evidence: Evidence,
    ) {
        let Some(apart) = apart else {
            return;
        };
        let is_data = evidence == Evidence::Data;
        let side = |most| if most { Side::Most } else { Side::Least };
        match from {
            Host::First => self
                .clocks
                .observe(sender.as_nanos(), apart, side(is_data), evidence),
            Host::Second => {
                let apart = apart.saturating_neg();
                self.clocks
                    .observe(reader.as_nanos(), apart, side(!is_data), evidence);
            }
        }
    }

    /// Decide on what is older than anything that can come.
    fn sweep(&mut self, complete: u64, take: &mut dyn FnMut(&Life)) {
        self.swept = complete;
        let since = |apart: u64| {
            let kept = DISORDER.saturating_add(apart);
            Timestamp::<Realtime>::from_nanos(complete.saturating_sub(kept))
        };
        let before = since(self.settings.apart.0);
        let unmatched = &mut self.unmatched;
        self.streams.retain(|_, stream| {
            stream.forget(before, |reason| unmatched[reason] += 1);
            !stream.is_empty()
        });
        // The offset of a window takes part in that of the one before.
        let Some(oldest) = self.settled(since(self.seen_apart)) else {
            return;
        };
        self.clocks.settle(oldest);
        let settled = oldest.saturating_sub(2 * WINDOW);
        let mut waiting = VecDeque::new();
        for matched in std::mem::take(&mut self.matched) {
            match matched.moment() < settled {
                true => self.complete(&matched, take),
                false => waiting.push_back(matched),
            }
        }
        self.matched = waiting;
    }

    /// Return the time of the first host's monotonic clock before which no more bounds come.
    fn settled(&self, before: Timestamp<Realtime>) -> Option<u64> {
        let complete = self.matched.iter().filter(|matched| matched.time() < before);
        complete.map(Matched::moment).max()
    }

    fn complete(&mut self, matched: &Matched, take: &mut dyn FnMut(&Life)) {
        let clocks = match self.settings.trust {
            Trust::Messages => self.clocks.at(matched.moment()),
            Trust::Clocks => matched.trusted(),
        };
        match matched.life(clocks, self.settings.in_step) {
            Ok(life) => {
                self.joined += 1;
                take(&life);
            }
            Err(reason) => self.unmatched[reason] += 1,
        }
    }
}

impl Matched {
    /// Its time by the first host's monotonic clock.
    fn moment(&self) -> u64 {
        match self.key.0 {
            Host::First => self.pair.sent.left.as_nanos(),
            Host::Second => self.pair.read.arrived.as_nanos(),
        }
    }

    /// Its time by the first host's CLOCK_REALTIME.
    fn time(&self) -> Timestamp<Realtime> {
        match self.key.0 {
            Host::First => self.pair.sent.time,
            Host::Second => self.pair.read.time,
        }
    }

    /// Both ends of a message are measured where each of two choices fell on it, or the one.
    fn weight(&self, in_step: bool) -> u64 {
        let sent = u64::from(self.pair.sent.weight);
        match in_step {
            true => sent,
            false => sent * u64::from(self.pair.read.weight),
        }
    }

    /// Return the offset if CLOCK_REALTIME of both hosts is the same.
    fn trusted(&self) -> Estimate {
        let (sent, read) = (&self.pair.sent, &self.pair.read);
        let boot = |time: Timestamp<Realtime>, stamp: Timestamp<Monotonic>| {
            i128::from(time.as_nanos()) - i128::from(stamp.as_nanos())
        };
        let ahead = boot(sent.time, sent.acknowledged) - boot(read.time, read.read);
        let ahead = i64::try_from(ahead).unwrap_or(i64::MAX);
        Estimate {
            offset: match self.key.0 {
                Host::First => Delta(ahead),
                Host::Second => -Delta(ahead),
            },
            error: Nanos::ZERO,
            quality: Quality::Accurate,
        }
    }

    fn life(&self, clocks: Estimate, in_step: bool) -> Result<Life, Reason> {
        if matches!(
            clocks.quality,
            Quality::Absent | Quality::Incomplete | Quality::Failed
        ) {
            return Err(Reason::NoClock);
        }
        let (sent, read) = (&self.pair.sent, &self.pair.read);
        let ahead = match self.key.0 {
            Host::First => clocks.offset,
            Host::Second => -clocks.offset,
        };
        let on_the_way = |later: Timestamp<Monotonic>, earlier: Timestamp<Monotonic>, ahead: Delta| {
            let apart = i128::from(later.as_nanos()) - i128::from(earlier.as_nanos());
            i64::try_from(apart - i128::from(ahead.as_nanos())).unwrap_or(i64::MAX)
        };
        let forward = on_the_way(read.arrived, sent.left, ahead);
        if forward < 0 && forward.unsigned_abs() > clocks.error.0 {
            return Err(Reason::Contradiction);
        }
        let back = on_the_way(sent.acknowledged, read.ready, -ahead);
        let nanos = |time: i64| Nanos(time.max(0).cast_unsigned());
        let (_, sender, reader) = self.key;
        let stages = LifeStage::ALL.map(|stage| match stage {
            LifeStage::Forward => Some(nanos(forward)),
            LifeStage::Of(stage) => LifeStage::SENDING
                .into_iter()
                .zip(sent.stages)
                .chain(LifeStage::RECEIVING.into_iter().zip(read.stages))
                .find_map(|(one, duration)| (one == stage).then_some(duration))
                .flatten(),
        });
        Ok(Life {
            from: self.key.0,
            sender: End {
                address: sender,
                pid: sent.pid,
                comm: sent.comm.clone(),
            },
            reader: End {
                address: reader,
                pid: read.pid,
                comm: read.comm.clone(),
            },
            bytes: sent.bytes,
            weight: self.weight(in_step),
            retransmits: sent.retransmits,
            time: read.time,
            stages,
            back: nanos(back),
            clocks,
        })
    }
}
