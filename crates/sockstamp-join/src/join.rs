//! Join messages of two hosts as they are read from recordings.

use std::collections::{HashMap, VecDeque};

use sockstamp_model::clock::{ClockOffset, Delta, Nanos, Timestamp};
use sockstamp_model::flow::Protocol;
use sockstamp_model::stage::{Stage, StageMap};

use crate::clocks::{Clocks, Estimate, Evidence, Quality, Side, WINDOW};
use crate::datagrams::Datagrams;
use crate::half::{Half, Stamped};
use crate::life::{End, Life, RECEIVING, SENDING};
use crate::nat::Translations;
use crate::pairs::{Found, Pair, Stream};
use crate::sides::{self, First, Host, Key, Offset, Reader, Sender, Stamp};
use crate::unmatched::{Reason, Unmatched};

/// Nanoseconds between two sweeps over what waits for its other end.
const SWEEP: u64 = 2_000_000_000;

/// Nanoseconds within which a row comes behind one that is later: rows of a row group are ordered
/// by their flow.
const DISORDER: u64 = 4_000_000_000;

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

/// Lives with a time between the hosts that came out below zero, and is given as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clamped {
    /// `net.forward`: by less than the clocks are uncertain, or the message would be refused.
    pub forward: u64,
    /// `net.back`: by that as well, or because TCP acknowledges in order before it tells the
    /// reader (`tcp_rcv_established()`), and the acknowledgement was faster.
    pub back: u64,
}

/// Messages of two hosts, joined.
#[derive(Debug)]
pub struct Join {
    settings: Settings,
    streams: HashMap<Key, Stream>,
    translations: Translations,
    datagrams: Datagrams,
    clocks: Clocks,
    matched: VecDeque<Matched>,
    unmatched: Unmatched,
    /// The largest distance of the times of both ends of a message so far.
    seen_apart: u64,
    /// The newest message of each host.
    newest: [u64; 2],
    swept: u64,
    joined: u64,
    clamped: Clamped,
}

impl Join {
    /// Begin.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            streams: HashMap::new(),
            translations: Translations::default(),
            datagrams: Datagrams::default(),
            clocks: Clocks::default(),
            matched: VecDeque::new(),
            unmatched: Unmatched::default(),
            seen_apart: 0,
            newest: [0; 2],
            swept: 0,
            joined: 0,
            clamped: Clamped::default(),
        }
    }

    /// Take connections for the same whose addresses were changed on the way.
    #[must_use]
    pub fn translated(self, translations: Translations) -> Self {
        Self { translations, ..self }
    }

    /// The connections whose addresses were changed.
    #[must_use]
    pub fn translations(&self) -> &Translations {
        &self.translations
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
    pub fn add(&mut self, host: Host, message: impl Into<Half>, take: &mut dyn FnMut(&Life)) {
        let half = message.into();
        let newest = &mut self.newest[host as usize];
        *newest = (*newest).max(half.extent.time);
        self.add_half(host, half);
        let complete = self.newest[0].min(self.newest[1]);
        if complete >= self.swept.saturating_add(SWEEP) {
            self.sweep(complete, take);
        }
    }

    /// Complete what is left.
    pub fn finish(&mut self, take: &mut dyn FnMut(&Life)) {
        let end = u64::MAX;
        self.decide_on_datagrams(end);
        self.clocks.settle(Timestamp::from_nanos(end));
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

    /// The times between the hosts that are given as zero.
    #[must_use]
    pub fn clamped(&self) -> Clamped {
        self.clamped
    }

    fn add_half(&mut self, host: Host, half: Half) {
        let Some(stamped) = half.stamped else {
            return;
        };
        let key = match stamped {
            Stamped::Sent(_) => (host, half.local, half.remote),
            Stamped::Read(_) => (host.peer(), half.remote, half.local),
        };
        if half.protocol == Protocol::Udp {
            match half.extent.seq_end {
                0 => self.unmatched[Reason::Udp] += 1,
                _ => self.datagrams.add(key, half.extent, stamped),
            }
            return;
        }
        let Some(key) = self.translations.of(key) else {
            self.unmatched[Reason::Ambiguous] += 1;
            return;
        };
        let stream = self.streams.entry(key).or_default();
        let found = match stamped {
            Stamped::Sent(sent) => stream.sent(half.extent, sent),
            Stamped::Read(read) => stream.read(half.extent, read),
        };
        match found {
            Found::Nothing => {}
            Found::Refused => self.unmatched[Reason::Refused] += 1,
            Found::Pair(pair) => self.take_pair(key, pair),
        }
    }

    fn take_pair(&mut self, key: Key, pair: Pair) {
        self.observe(key.0, &pair);
        self.seen_apart = self.seen_apart.max(pair.apart());
        self.matched.push_back(Matched { key, pair });
    }

    /// Decide on datagrams of which nothing came since a moment.
    fn decide_on_datagrams(&mut self, before: u64) {
        let (pairs, unmatched) = self.datagrams.decide(before);
        for (reason, count) in unmatched {
            self.unmatched[reason] += count;
        }
        for (key, pair) in pairs {
            self.take_pair(key, pair);
        }
    }

    /// Bound the offset of the clocks by a message.
    fn observe(&mut self, from: Host, pair: &Pair) {
        let (sent, read) = (&pair.sent, &pair.read);
        // Its last byte left with later bytes, or more than once: the stamps are of another packet.
        if !sent.coalesced && sent.retransmits == 0 {
            self.bound(from, sent.left, read.arrived, Evidence::Data);
        }
        if let Some(acknowledged) = sent.acknowledged {
            self.bound(from, acknowledged, read.arrived, Evidence::Acknowledgement);
        }
    }

    /// Bound it by the reader's clock less the sender's. A packet that the second host reads is a
    /// bound from above, its acknowledgement one from below; what the first reads, the other way.
    fn bound(&mut self, from: Host, sender: Stamp<Sender>, reader: Stamp<Reader>, evidence: Evidence) {
        let ahead = Offset::<Sender, Reader>::between(sender, reader);
        let is_most = (evidence == Evidence::Data) == (from == Host::First);
        let side = if is_most { Side::Most } else { Side::Least };
        self.clocks.observe(
            sides::of_first(from, sender, reader),
            sides::to_second(from, ahead),
            side,
            evidence,
        );
    }

    /// Decide on what is older than anything that can come.
    fn sweep(&mut self, complete: u64, take: &mut dyn FnMut(&Life)) {
        self.swept = complete;
        let since = |apart: u64| {
            let kept = DISORDER.saturating_add(apart);
            complete.saturating_sub(kept)
        };
        let before = since(self.settings.apart.0);
        let unmatched = &mut self.unmatched;
        self.streams.retain(|_, stream| {
            stream.forget(before, |reason| unmatched[reason] += 1);
            !stream.is_empty()
        });
        self.decide_on_datagrams(before);
        // Those wait for longer.
        let decided = match self.datagrams.is_empty() {
            true => since(self.seen_apart),
            false => before,
        };
        // The offset of a window takes part in that of the one before.
        let Some(oldest) = self.settled(decided) else {
            return;
        };
        self.clocks.settle(oldest);
        let settled = Timestamp::from_nanos(oldest.as_nanos().saturating_sub(2 * WINDOW));
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
    fn settled(&self, before: u64) -> Option<Stamp<First>> {
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
                let (forward, back) = matched.between(clocks);
                self.clamped.forward += u64::from(forward < Delta(0));
                self.clamped.back += u64::from(back.is_some_and(|back| back < Delta(0)));
                take(&life);
            }
            Err(reason) => self.unmatched[reason] += 1,
        }
    }
}

impl Matched {
    /// Its time by the first host's monotonic clock.
    fn moment(&self) -> Stamp<First> {
        sides::of_first(self.key.0, self.pair.sent.left, self.pair.read.arrived)
    }

    /// Its time by the first host's CLOCK_REALTIME, in nanoseconds.
    fn time(&self) -> u64 {
        match self.key.0 {
            Host::First => self.pair.sent.time.as_nanos(),
            Host::Second => self.pair.read.time.as_nanos(),
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
        let boot = |time: u64, stamp: u64| i128::from(time) - i128::from(stamp);
        let ahead = boot(sent.time.as_nanos(), sent.last().as_nanos())
            - boot(read.time.as_nanos(), read.read.as_nanos());
        let ahead = ClockOffset::new(Delta(i64::try_from(ahead).unwrap_or(i64::MAX)));
        Estimate {
            offset: sides::to_second(self.key.0, ahead),
            error: Nanos::ZERO,
            quality: Quality::Accurate,
        }
    }

    /// Return the times between the hosts: forward, and back if it was acknowledged.
    fn between(&self, clocks: Estimate) -> (Delta, Option<Delta>) {
        let (sent, read) = (&self.pair.sent, &self.pair.read);
        let to_reader = sides::to_reader(self.key.0, clocks.offset);
        let back = |acknowledged| to_reader.convert(acknowledged) - read.ready;
        (
            read.arrived - to_reader.convert(sent.left),
            sent.acknowledged.map(back),
        )
    }

    fn life(&self, clocks: Estimate, in_step: bool) -> Result<Life, Reason> {
        if matches!(
            clocks.quality,
            Quality::Absent | Quality::Incomplete | Quality::Failed
        ) {
            return Err(Reason::NoClock);
        }
        let (sent, read) = (&self.pair.sent, &self.pair.read);
        let (forward, back) = self.between(clocks);
        if forward < Delta(0) && forward.abs() > clocks.error {
            return Err(Reason::Contradiction);
        }
        let nanos = |time: Delta| time.to_nanos().unwrap_or(Nanos::ZERO);
        let (_, sender, reader) = self.key;
        let mut stages = StageMap::default();
        let of_hosts = SENDING.into_iter().zip(sent.stages);
        for (stage, duration) in of_hosts.chain(RECEIVING.into_iter().zip(read.stages)) {
            stages[stage] = duration;
        }
        stages[Stage::NetForward] = Some(nanos(forward));
        stages[Stage::NetBack] = back.map(nanos);
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
            time: Timestamp::from_nanos(read.time.as_nanos()),
            netns: sent.netns,
            cookie: sent.cookie,
            cgroup: sent.cgroup,
            protocol: sent.protocol,
            seq_end: sent.seq_end,
            stages,
            parts: sent.parts.iter().chain(&read.parts).copied().collect(),
            clocks,
        })
    }
}
