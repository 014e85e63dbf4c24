//! Join messages of two hosts as they are read from recordings.

use std::collections::HashMap;

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
use crate::waiting::Waiting;

/// Nanoseconds between two sweeps over the waiting ends.
const SWEEP: u64 = 2_000_000_000;

/// Nanoseconds by which a message may follow a later one: a message is in a row group when it is
/// complete, and not earlier than one that was measured before it.
const DISORDER: u64 = 4_000_000_000;

/// The source of the offset of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// The messages themselves.
    #[default]
    Messages,
    /// CLOCK_REALTIME of both hosts is the same, because PTP or NTP keeps it so.
    Clocks,
}

/// The circumstances of two recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The source of the offset of the clocks.
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
    /// `net.back`: for the same reason, or because TCP acknowledges in order before it wakes the
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
    waiting: Waiting,
    unmatched: Unmatched,
    /// The largest distance of the times of both ends of a message so far.
    seen_apart: u64,
    /// The newest message of each host.
    newest: [u64; 2],
    ended: [bool; 2],
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
            waiting: Waiting::default(),
            unmatched: Unmatched::default(),
            seen_apart: 0,
            newest: [0; 2],
            ended: [false; 2],
            swept: 0,
            joined: 0,
            clamped: Clamped::default(),
        }
    }

    /// Take connections for the same whose addresses were changed on the way.
    #[must_use]
    pub fn translated(self, translations: Translations) -> Self {
        Self {
            translations,
            ..self
        }
    }

    /// The connections whose addresses were changed.
    #[must_use]
    pub fn translations(&self) -> &Translations {
        &self.translations
    }

    /// Return the host whose messages are needed next: the one whose messages are older.
    #[must_use]
    pub fn needs(&self) -> Host {
        // A message may be as new as any: an end has no time of its own.
        let is_first = match self.ended {
            [false, false] => self.newest[0] <= self.newest[1],
            [first, _] => !first,
        };
        if is_first { Host::First } else { Host::Second }
    }

    /// Note that a host has no more messages.
    pub fn ends(&mut self, host: Host) {
        self.newest[host as usize] = u64::MAX;
        self.ended[host as usize] = true;
    }

    /// Take the next message of a host, in the order of their time. Call `take` for each life that
    /// is complete with it.
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

    /// Complete the rest.
    pub fn finish(&mut self, take: &mut dyn FnMut(&Life)) {
        let end = u64::MAX;
        self.decide_on_datagrams(end);
        self.clocks.settle(Timestamp::from_nanos(end));
        let unmatched = &mut self.unmatched;
        for stream in self.streams.values_mut() {
            stream.forget(end, |reason| unmatched[reason] += 1);
        }
        self.streams.clear();
        self.complete(Timestamp::from_nanos(end), take);
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
        let Half {
            owner,
            extent,
            stamped,
        } = half;
        let Some(stamped) = stamped else {
            return;
        };
        let key = match stamped {
            Stamped::Sent(_) => (host, owner.local, owner.remote),
            Stamped::Read(_) => (host.peer(), owner.remote, owner.local),
        };
        if owner.protocol == Protocol::Udp {
            match extent.seq_end {
                0 => self.unmatched[Reason::Udp] += 1,
                _ => self.datagrams.add(key, extent, owner, stamped),
            }
            return;
        }
        let Some(key) = self.translations.of(key) else {
            self.unmatched[Reason::Ambiguous] += 1;
            return;
        };
        let stream = self
            .streams
            .entry(key)
            .or_insert_with(|| Stream::new(key.0));
        let found = match stamped {
            Stamped::Sent(sent) => stream.sent(extent, owner, sent),
            Stamped::Read(read) => stream.read(extent, owner, read),
        };
        match found {
            Found::Nothing => {}
            Found::Refused => self.unmatched[Reason::Refused] += 1,
            Found::Pair(pair) => self.take_pair(&pair),
        }
    }

    fn take_pair(&mut self, pair: &Pair) {
        self.observe(pair);
        self.seen_apart = self.seen_apart.max(pair.apart());
        self.waiting.add(pair);
    }

    /// Decide on datagrams without news since a moment.
    fn decide_on_datagrams(&mut self, before: u64) {
        let (pairs, unmatched) = self.datagrams.decide(before);
        for (reason, count) in unmatched {
            self.unmatched[reason] += count;
        }
        for pair in &pairs {
            self.take_pair(pair);
        }
    }

    /// Bound the offset of the clocks by a message.
    fn observe(&mut self, pair: &Pair) {
        let (from, sent, read) = (pair.from, &pair.sent, &pair.read);
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
    fn bound(
        &mut self,
        from: Host,
        sender: Stamp<Sender>,
        reader: Stamp<Reader>,
        evidence: Evidence,
    ) {
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

    /// Decide on ends that are older than anything that can come.
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
        // Messages of these wait for longer.
        let decided = match self.datagrams.is_empty() {
            true => since(self.seen_apart),
            false => before,
        };
        // The offset of a window takes part in that of the one before.
        let Some(oldest) = self.waiting.newest(decided) else {
            return;
        };
        self.clocks.settle(oldest);
        let settled = oldest.as_nanos().saturating_sub(2 * WINDOW);
        self.complete(Timestamp::from_nanos(settled), take);
    }

    /// Make the lives before a moment.
    fn complete(&mut self, before: Stamp<First>, take: &mut dyn FnMut(&Life)) {
        while let Some(pairs) = self.waiting.next(before) {
            pairs.for_each(|pair| self.complete_pair(&pair, take));
        }
    }

    fn complete_pair(&mut self, pair: &Pair, take: &mut dyn FnMut(&Life)) {
        let clocks = match self.settings.trust {
            Trust::Messages => self.clocks.at(pair.moment()),
            Trust::Clocks => pair.trusted(),
        };
        match pair.life(clocks, self.settings.in_step) {
            Ok(life) => {
                self.joined += 1;
                let (forward, back) = pair.between(clocks);
                self.clamped.forward += u64::from(forward < Delta(0));
                self.clamped.back += u64::from(back.is_some_and(|back| back < Delta(0)));
                take(&life);
            }
            Err(reason) => self.unmatched[reason] += 1,
        }
    }
}

impl Pair {
    /// Both ends of a message are measured where each of two choices fell on it, or the one.
    fn weight(&self, in_step: bool) -> u64 {
        let sent = u64::from(self.sent.weight);
        match in_step {
            true => sent,
            false => sent * u64::from(self.read.weight),
        }
    }

    /// Return the offset if CLOCK_REALTIME of both hosts is the same.
    fn trusted(&self) -> Estimate {
        let (sent, read) = (&self.sent, &self.read);
        let boot = |time: u64, stamp: u64| i128::from(time) - i128::from(stamp);
        let ahead = boot(self.sent_at.as_nanos(), sent.last().as_nanos())
            - boot(self.read_at.as_nanos(), read.read.as_nanos());
        let ahead = ClockOffset::new(Delta(i64::try_from(ahead).unwrap_or(i64::MAX)));
        Estimate {
            offset: sides::to_second(self.from, ahead),
            error: Nanos::ZERO,
            quality: Quality::Accurate,
        }
    }

    /// Return the times between the hosts: forward, and back if it was acknowledged.
    fn between(&self, clocks: Estimate) -> (Delta, Option<Delta>) {
        let (sent, read) = (&self.sent, &self.read);
        let to_reader = sides::to_reader(self.from, clocks.offset);
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
        let (sent, read) = (&self.sent, &self.read);
        let (forward, back) = self.between(clocks);
        if forward < Delta(0) && forward.abs() > clocks.error {
            return Err(Reason::Contradiction);
        }
        let nanos = |time: Delta| time.to_nanos().unwrap_or(Nanos::ZERO);
        let [sender, reader] = self.addresses();
        let mut stages = StageMap::default();
        let of_hosts = SENDING.into_iter().zip(sent.stages);
        for (stage, duration) in of_hosts.chain(RECEIVING.into_iter().zip(read.stages)) {
            stages[stage] = duration;
        }
        stages[Stage::NetForward] = Some(nanos(forward));
        stages[Stage::NetBack] = back.map(nanos);
        Ok(Life {
            from: self.from,
            sender: End {
                address: sender,
                pid: self.sender.pid,
                comm: self.sender.comm.clone(),
            },
            reader: End {
                address: reader,
                pid: self.reader.pid,
                comm: self.reader.comm.clone(),
            },
            bytes: sent.bytes,
            weight: self.weight(in_step),
            retransmits: sent.retransmits,
            time: Timestamp::from_nanos(self.read_at.as_nanos()),
            netns: self.sender.netns,
            cookie: self.sender.cookie,
            cgroup: self.sender.cgroup,
            protocol: self.sender.protocol,
            seq_end: sent.seq_end,
            stages,
            parts: sent.parts.iter().chain(&read.parts).copied().collect(),
            clocks,
        })
    }
}
