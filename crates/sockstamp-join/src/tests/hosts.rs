//! Two hosts whose clocks and delays are known, and what they record of their messages.

use std::collections::HashMap;

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::fixture;
use sockstamp_model::flow::Protocol;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};

use crate::{Host, Join, Life, Settings, Translations, Trust};

pub(super) const SECOND: u64 = 1_000_000_000;

/// CLOCK_REALTIME of both hosts at the begin.
pub(super) const EPOCH: u64 = 1_790_000_000 * SECOND;

/// The second host's monotonic clock by the first one's.
#[derive(Clone, Copy)]
pub(super) struct Skew {
    pub(super) offset: i64,
    /// Nanoseconds per second.
    pub(super) drift: i64,
    /// A step, and when.
    pub(super) step: (i64, u64),
}

impl Skew {
    pub(super) fn at(self, time: u64) -> i64 {
        let drifted = i128::from(self.drift) * i128::from(time) / i128::from(SECOND);
        let step = if time >= self.step.1 { self.step.0 } else { 0 };
        self.offset + i64::try_from(drifted).unwrap() + step
    }

    /// The reading of a host's clock at a true time.
    pub(super) fn reads(self, host: Host, time: u64) -> u64 {
        match host {
            Host::First => time,
            Host::Second => time.checked_add_signed(self.at(time)).unwrap(),
        }
    }
}

pub(super) const NO_STEP: (i64, u64) = (0, u64::MAX);

pub(super) const STILL: Skew = Skew {
    offset: 0,
    drift: 0,
    step: NO_STEP,
};

pub(super) fn message(direction: Direction, host: Host, seq_end: u32, bytes: u64) -> Message {
    let addresses = [
        "10.0.0.1:40000".parse().unwrap(),
        "10.0.0.2:80".parse().unwrap(),
    ];
    let mut message = fixture::message(direction);
    message.flow.local = addresses[host as usize];
    message.flow.remote = addresses[host.peer() as usize];
    message.bytes = bytes;
    message.seq_end = seq_end;
    message
}

/// A message and its truth: the delays of its way.
#[derive(Clone, Copy)]
pub(super) struct Truth {
    pub(super) from: Host,
    pub(super) seq_end: u32,
    pub(super) bytes: u64,
    pub(super) begin: u64,
    pub(super) sending: u64,
    pub(super) forward: u64,
    pub(super) stack: u64,
    pub(super) app: u64,
    pub(super) back: u64,
}

impl Truth {
    pub(super) fn arrived(self) -> u64 {
        self.begin + self.sending + self.forward
    }

    pub(super) fn sent(self, skew: Skew) -> Message {
        let mut sent = message(Direction::Tx, self.from, self.seq_end, self.bytes);
        let left = skew.reads(self.from, self.begin + self.sending);
        let acknowledged = self.arrived() + self.stack + self.back;
        let by_clock = skew.reads(self.from, acknowledged);
        sent.stages[Stage::TxQueue] = Some(Nanos(self.sending));
        sent.stages[Stage::TxNetwork] = Some(Nanos(by_clock - left));
        sent.stamps.ack = Some(Timestamp::from_nanos(by_clock));
        sent.time = Timestamp::from_nanos(EPOCH + acknowledged);
        sent
    }

    pub(super) fn read(self, skew: Skew) -> Message {
        let host = self.from.peer();
        let mut read = message(Direction::Rx, host, self.seq_end, self.bytes);
        read.stages[Stage::RxStack] = Some(Nanos(self.stack));
        read.stages[Stage::RxApp] = Some(Nanos(self.app));
        let by_clock = skew.reads(host, self.arrived()) + self.stack + self.app;
        read.stamps.read = Some(Timestamp::from_nanos(by_clock));
        read.time = Timestamp::from_nanos(EPOCH + self.arrived() + self.stack + self.app);
        read
    }
}

/// Requests and answers for some seconds, whose delays have a heavy tail above the least ones.
pub(super) fn exchange(random: &mut fastrand::Rng, seconds: u64, least: [u64; 2]) -> Vec<Truth> {
    let mut truths = Vec::new();
    let mut sequence = [u32::MAX - 5_000, 77];
    let mut time = 3 * SECOND;
    while time < (3 + seconds) * SECOND {
        for from in Host::ALL {
            let bytes = random.u64(1..1_000);
            let sequence = &mut sequence[from as usize];
            *sequence = sequence.wrapping_add(u32::try_from(bytes).unwrap());
            let mut tail = |scale: f64| {
                let waited = scale * (random.f64().max(1e-6).powf(-0.7) - 1.0);
                Nanos::from(std::time::Duration::from_secs_f64(waited)).0
            };
            let truth = Truth {
                from,
                seq_end: *sequence,
                bytes,
                begin: time,
                sending: 2_000 + tail(10e-6),
                forward: least[from as usize] + tail(50e-6),
                stack: 3_000,
                app: tail(20e-6),
                back: least[from.peer() as usize] + tail(50e-6),
            };
            time = truth.arrived() + truth.stack + truth.app + random.u64(0..3_000_000);
            truths.push(truth);
        }
    }
    truths
}

/// Join the rows of both hosts, each in the order of their time.
pub(super) fn joined(rows: [Vec<Message>; 2], trust: Trust) -> (Vec<Life>, Join) {
    joined_through(rows, trust, Translations::default())
}

pub(super) fn joined_through(
    rows: [Vec<Message>; 2],
    trust: Trust,
    translations: Translations,
) -> (Vec<Life>, Join) {
    let settings = Settings {
        trust,
        apart: Nanos::from_secs(10),
        in_step: false,
    };
    let mut join = Join::new(settings).translated(translations);
    let mut rows = rows.map(|mut rows| {
        rows.sort_by_key(|row| row.time);
        rows.into_iter()
    });
    let mut lives = Vec::new();
    let mut ended = 0;
    while ended < 2 {
        let host = join.needs();
        match rows[host as usize].next() {
            Some(row) => join.add(host, &row, &mut |life| lives.push(life.clone())),
            None => {
                join.ends(host);
                ended += 1;
            }
        }
    }
    join.finish(&mut |life| lives.push(life.clone()));
    (lives, join)
}

pub(super) fn rows(truths: &[Truth], skew: Skew) -> [Vec<Message>; 2] {
    let mut rows = [Vec::new(), Vec::new()];
    for truth in truths {
        rows[truth.from as usize].push(truth.sent(skew));
        rows[truth.from.peer() as usize].push(truth.read(skew));
    }
    rows
}

pub(super) fn forward(life: &Life) -> u64 {
    let (_, duration) = life
        .present()
        .find(|(stage, _)| *stage == Stage::NetForward)
        .unwrap();
    duration.0
}

/// Lives by their sender and the time when they were read, which no other shares.
pub(super) struct Lives<'a>(HashMap<(Host, u64), &'a Life>);

impl<'a> Lives<'a> {
    pub(super) fn new(lives: &'a [Life]) -> Self {
        let key = |life: &Life| (life.from, life.time.as_nanos());
        Self(lives.iter().map(|life| (key(life), life)).collect())
    }

    pub(super) fn of(&self, truth: Truth) -> Option<&'a Life> {
        let read = EPOCH + truth.arrived() + truth.stack + truth.app;
        self.0.get(&(truth.from, read)).copied()
    }
}

/// Return both ends of datagrams: the numbers that `--sample 2^K` gives them are made up.
pub(super) fn datagrams(truths: &[Truth], skew: Skew) -> [Vec<Message>; 2] {
    let mut rows = rows(truths, skew);
    for row in rows.iter_mut().flatten() {
        row.flow.protocol = Protocol::Udp;
        let Some(acknowledged) = row.stamps.ack.take() else {
            continue;
        };
        // Messages of UDP are over when the driver has them.
        let network = row.stages[Stage::TxNetwork].take().unwrap();
        row.stamps.snd_last = acknowledged.before(network);
        row.time = row.time.before(network).unwrap();
    }
    rows
}
