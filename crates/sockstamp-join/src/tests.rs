//! Two hosts whose clocks and delays are known.

use std::collections::HashMap;

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::fixture;
use sockstamp_model::flow::Protocol;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::verdict::Verdict;

use crate::{Clamped, Host, Join, Life, Nat, Quality, Reason, Settings, Translations, Trust};

const SECOND: u64 = 1_000_000_000;
/// CLOCK_REALTIME of both hosts at the begin.
const EPOCH: u64 = 1_790_000_000 * SECOND;

/// The second host's monotonic clock by the first one's.
#[derive(Clone, Copy)]
struct Skew {
    offset: i64,
    /// Nanoseconds per second.
    drift: i64,
    /// A step, and when.
    step: (i64, u64),
}

impl Skew {
    fn at(self, time: u64) -> i64 {
        let drifted = i128::from(self.drift) * i128::from(time) / i128::from(SECOND);
        let step = if time >= self.step.1 { self.step.0 } else { 0 };
        self.offset + i64::try_from(drifted).unwrap() + step
    }

    /// The reading of a host's clock at a true time.
    fn reads(self, host: Host, time: u64) -> u64 {
        match host {
            Host::First => time,
            Host::Second => time.checked_add_signed(self.at(time)).unwrap(),
        }
    }
}

const NO_STEP: (i64, u64) = (0, u64::MAX);

fn message(direction: Direction, host: Host, seq_end: u32, bytes: u64) -> Message {
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
struct Truth {
    from: Host,
    seq_end: u32,
    bytes: u64,
    begin: u64,
    sending: u64,
    forward: u64,
    stack: u64,
    app: u64,
    back: u64,
}

impl Truth {
    fn arrived(self) -> u64 {
        self.begin + self.sending + self.forward
    }

    fn sent(self, skew: Skew) -> Message {
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

    fn read(self, skew: Skew) -> Message {
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
fn exchange(random: &mut fastrand::Rng, seconds: u64, least: [u64; 2]) -> Vec<Truth> {
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
fn joined(rows: [Vec<Message>; 2], trust: Trust) -> (Vec<Life>, Join) {
    joined_through(rows, trust, Translations::default())
}

fn joined_through(
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

/// A row may claim the end of time: the host that has ended is asked for no more.
#[test]
fn a_host_that_has_ended_is_not_asked_again() {
    let settings = Settings {
        trust: Trust::Messages,
        apart: Nanos::from_secs(10),
        in_step: false,
    };
    for ended in Host::ALL {
        let mut join = Join::new(settings);
        let mut last = message(Direction::Tx, ended.peer(), 1, 1);
        last.time = Timestamp::from_nanos(u64::MAX);
        join.add(ended.peer(), &last, &mut |_| {});
        join.ends(ended);
        assert_eq!(join.needs(), ended.peer());
    }
}

fn rows(truths: &[Truth], skew: Skew) -> [Vec<Message>; 2] {
    let mut rows = [Vec::new(), Vec::new()];
    for truth in truths {
        rows[truth.from as usize].push(truth.sent(skew));
        rows[truth.from.peer() as usize].push(truth.read(skew));
    }
    rows
}

fn forward(life: &Life) -> u64 {
    let (_, duration) = life
        .present()
        .find(|(stage, _)| *stage == Stage::NetForward)
        .unwrap();
    duration.0
}

/// Lives by their sender and the time when they were read, which no other shares.
struct Lives<'a>(HashMap<(Host, u64), &'a Life>);

impl<'a> Lives<'a> {
    fn new(lives: &'a [Life]) -> Self {
        let key = |life: &Life| (life.from, life.time.as_nanos());
        Self(lives.iter().map(|life| (key(life), life)).collect())
    }

    fn of(&self, truth: Truth) -> Option<&'a Life> {
        let read = EPOCH + truth.arrived() + truth.stack + truth.app;
        self.0.get(&(truth.from, read)).copied()
    }
}

/// Join, and check each life against its truth. Return the errors of `net.forward`, in order.
fn errors(truths: &[Truth], skew: Skew, margin: u64) -> Vec<u64> {
    let (lives, _) = joined(rows(truths, skew), Trust::Messages);
    assert_eq!(lives.len(), truths.len());
    let mut errors = Vec::new();
    let lives = Lives::new(&lives);
    for &truth in truths {
        let life = lives.of(truth).unwrap();
        assert_eq!(life.clocks.quality, Quality::Accurate);
        let error = forward(life).abs_diff(truth.forward);
        assert!(
            error <= life.clocks.error.0 + margin,
            "{} ± {}, not {}",
            forward(life),
            life.clocks.error,
            truth.forward
        );
        errors.push(error);
    }
    errors.sort_unstable();
    errors
}

#[test]
fn the_offset_is_found_within_its_interval_for_any_clocks() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let truths = exchange(&mut random, 30, [60_000, 60_000]);
        let skew = Skew {
            offset: random.i64(-1_000_000_000..1_000_000_000_000_000),
            drift: random.i64(-80_000..80_000),
            step: NO_STEP,
        };
        let errors = errors(&truths, skew, 100);
        // At the begin and the end of recordings, a window has few messages.
        let (most, largest) = (errors[errors.len() * 99 / 100], errors[errors.len() - 1]);
        assert!(
            most < 10_000 && largest < 25_000,
            "seed {seed}: {most} and {largest} ns off on a symmetric link"
        );
    }
}

#[test]
fn an_asymmetric_link_errs_by_less_than_its_interval() {
    let mut random = fastrand::Rng::with_seed(3);
    let truths = exchange(&mut random, 20, [50_000, 900_000]);
    let skew = Skew {
        offset: 5 * SECOND.cast_signed(),
        drift: -20_000,
        step: NO_STEP,
    };
    let errors = errors(&truths, skew, 100);
    let middle = errors[errors.len() / 2];
    assert!((400_000..450_000).contains(&middle), "{middle}");
}

#[test]
fn a_step_of_a_clock_splits_its_offset() {
    let mut random = fastrand::Rng::with_seed(5);
    let truths = exchange(&mut random, 30, [60_000, 60_000]);
    for step in [-40_000_000, 3_000_000] {
        let skew = Skew {
            offset: 1_000_000,
            drift: 5_000,
            step: (step, 18 * SECOND + 300_000_000),
        };
        let (lives, join) = joined(rows(&truths, skew), Trust::Messages);
        assert_eq!(join.clocks().steps(), 1);
        let missing = truths.len() - lives.len();
        assert_eq!(
            join.unmatched()[Reason::NoClock] + join.unmatched()[Reason::Contradiction],
            missing as u64
        );
        assert!(missing < truths.len() / 50, "{missing} of {}", truths.len());
        let lives = Lives::new(&lives);
        let wrong = truths.iter().filter(|truth| {
            lives.of(**truth).is_some_and(|life| {
                forward(life).abs_diff(truth.forward) > life.clocks.error.0 + 100
            })
        });
        // A message that is under way while the clock steps has times of both sides of the step.
        assert!(wrong.count() <= 1);
    }
}

#[test]
fn clocks_are_trusted_on_request() {
    let mut random = fastrand::Rng::with_seed(7);
    let truths = exchange(&mut random, 5, [50_000, 900_000]);
    let skew = Skew {
        offset: 123_456_789,
        drift: 0,
        step: NO_STEP,
    };
    let (lives, _) = joined(rows(&truths, skew), Trust::Clocks);
    let lives = Lives::new(&lives);
    for &truth in &truths {
        let life = lives.of(truth).unwrap();
        assert_eq!(forward(life), truth.forward);
        assert_eq!(life.back().unwrap().0, truth.back);
        assert_eq!(
            life.total().0,
            truth.sending + truth.forward + truth.stack + truth.app
        );
    }
}

#[test]
fn times_between_the_hosts_below_zero_are_counted() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut truths = exchange(&mut random, 2, [50_000, 50_000]);
    let skew = Skew {
        offset: 0,
        drift: 0,
        step: NO_STEP,
    };
    let (lives, join) = joined(rows(&truths, skew), Trust::Clocks);
    assert_eq!(
        (lives.len(), join.clamped()),
        (truths.len(), Clamped::default())
    );
    // The acknowledgement comes before the socket is readable.
    let early = &mut truths[4];
    early.stack += 3_000_000;
    let mut rows = rows(&truths, skew);
    let (from, end) = (truths[4].from, truths[4].seq_end);
    let mut sends = rows[from as usize].iter_mut();
    let is_early = |row: &&mut Message| row.seq_end == end && row.stamps.ack.is_some();
    let sent = sends.find(is_early).unwrap();
    let ack = sent.stamps.ack.as_mut().unwrap();
    *ack = Timestamp::from_nanos(ack.as_nanos() - truths[4].back - 1_000);
    let network = sent.stages[Stage::TxNetwork].as_mut().unwrap();
    *network = Nanos(network.0 - truths[4].back - 1_000);
    sent.time = Timestamp::from_nanos(sent.time.as_nanos() - truths[4].back - 1_000);
    let (lives, join) = joined(rows, Trust::Clocks);
    assert_eq!(lives.len(), truths.len());
    assert_eq!(
        join.clamped(),
        Clamped {
            forward: 0,
            back: 1
        }
    );
    let zero = lives.iter().filter(|life| life.back() == Some(Nanos::ZERO));
    assert_eq!(zero.count(), 1);
}

#[test]
fn a_life_is_a_message_with_the_stages_of_both_hosts() {
    let mut random = fastrand::Rng::with_seed(13);
    let truths = exchange(&mut random, 2, [50_000, 70_000]);
    let skew = Skew {
        offset: 7_000,
        drift: 0,
        step: NO_STEP,
    };
    let (lives, _) = joined(rows(&truths, skew), Trust::Messages);
    for life in &lives {
        let message = life.to_message().unwrap();
        assert!(message.is_life());
        assert_eq!(
            (message.time(), message.total()),
            (life.total(), life.total())
        );
        assert_eq!(message.clock_error, Some(life.clocks.error));
        assert_eq!(message.stages, life.stages);
    }
    let mut many = lives[0].clone();
    many.weight = 1 << 32;
    assert_eq!(many.to_message(), None);
}

#[test]
fn one_direction_is_bounded_by_its_acknowledgements() {
    let mut random = fastrand::Rng::with_seed(9);
    let mut truths = exchange(&mut random, 10, [60_000, 60_000]);
    truths.retain(|truth| truth.from == Host::Second);
    let skew = Skew {
        offset: -77_000,
        drift: 1_000,
        step: NO_STEP,
    };
    let (lives, _) = joined(rows(&truths, skew), Trust::Messages);
    assert_eq!(lives.len(), truths.len());
    let lives = Lives::new(&lives);
    for &truth in &truths {
        let life = lives.of(truth).unwrap();
        assert_eq!(life.clocks.quality, Quality::Approximate);
        assert!(forward(life).abs_diff(truth.forward) <= life.clocks.error.0 + 100);
    }
}

#[test]
fn what_has_no_life_is_counted_by_its_reason() {
    let truth = |seq_end: u32, bytes, begin: u64| Truth {
        from: Host::First,
        seq_end,
        bytes,
        begin: begin * 1_000_000,
        sending: 1_000,
        forward: 50_000,
        stack: 2_000,
        app: 1_000,
        back: 50_000,
    };
    let skew = Skew {
        offset: 0,
        drift: 0,
        step: NO_STEP,
    };
    let single = truth(1_000, 100, 10);
    let early = truth(1_100, 100, 11);
    let late = truth(1_200, 100, 12);
    let large = truth(2_200, 1_000, 13);
    let half = truth(1_700, 500, 13);
    let unseen = truth(2_300, 100, 14);
    let refused = truth(2_400, 100, 15);
    let unsent = truth(2_500, 100, 16);
    let mut both = late.read(skew);
    both.bytes = 200;
    let mut invalid = refused.read(skew);
    invalid.verdict = Verdict::ClockStep;
    let mut datagram = single.sent(skew);
    datagram.flow.protocol = Protocol::Udp;
    datagram.seq_end = 0;
    let mut elsewhere = single.sent(skew);
    elsewhere.flow.remote = "10.0.0.9:80".parse().unwrap();
    let sends = [single, early, late, large, unseen, refused].map(|truth| truth.sent(skew));
    let sends = sends.into_iter().chain([datagram, elsewhere]).collect();
    let reads = [single, half, large, unsent].map(|truth| truth.read(skew));
    let reads = reads.into_iter().chain([both, invalid]).collect();
    let (lives, join) = joined([sends, reads], Trust::Messages);
    assert_eq!(lives.len(), 3);
    let counted = Reason::ALL.map(|reason| (reason, join.unmatched()[reason]));
    let expected = [
        (Reason::OneSided, 1),
        (Reason::NotRead, 1),
        (Reason::ReadWithLater, 1),
        (Reason::NotSent, 1),
        (Reason::ReadInParts, 1),
        (Reason::Refused, 1),
        (Reason::NoClock, 0),
        (Reason::Contradiction, 0),
        (Reason::Ambiguous, 0),
        (Reason::Udp, 1),
    ];
    assert_eq!(counted, expected);
}

/// Return both ends of datagrams: the numbers that `--sample 2^K` gives them are made up.
fn datagrams(truths: &[Truth], skew: Skew) -> [Vec<Message>; 2] {
    let mut rows = rows(truths, skew);
    for row in rows.iter_mut().flatten() {
        row.flow.protocol = Protocol::Udp;
        let Some(acknowledged) = row.stamps.ack.take() else {
            continue;
        };
        // They are over when the driver has them.
        let network = row.stages[Stage::TxNetwork].take().unwrap();
        row.stamps.snd_last = acknowledged.before(network);
        row.time = row.time.before(network).unwrap();
    }
    rows
}

/// Datagrams of one direction bound the clocks to one side alone.
#[test]
fn messages_without_an_offset_of_the_clocks_are_counted() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut truths = exchange(&mut random, 5, [60_000, 60_000]);
    truths.retain(|truth| truth.from == Host::First);
    let skew = Skew {
        offset: 1_000,
        drift: 0,
        step: NO_STEP,
    };
    let (lives, join) = joined(datagrams(&truths, skew), Trust::Messages);
    assert_eq!(lives.len(), 0);
    assert_eq!(join.unmatched()[Reason::NoClock], truths.len() as u64);
}

/// Clocks that are trusted, and are a millisecond apart.
#[test]
fn messages_that_arrive_before_they_leave_are_counted() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut truths = exchange(&mut random, 5, [60_000, 60_000]);
    truths.retain(|truth| truth.from == Host::First && truth.forward < 900_000);
    let skew = Skew {
        offset: 0,
        drift: 0,
        step: NO_STEP,
    };
    let mut rows = rows(&truths, skew);
    for row in rows
        .iter_mut()
        .flatten()
        .filter(|row| row.direction == Direction::Rx)
    {
        row.time = row.time.before(Nanos(1_000_000)).unwrap();
    }
    let (lives, join) = joined(rows, Trust::Clocks);
    assert_eq!(lives.len(), 0);
    assert_eq!(join.unmatched()[Reason::Contradiction], truths.len() as u64);
}

#[test]
fn datagrams_are_joined_by_their_numbers() {
    let mut random = fastrand::Rng::with_seed(15);
    let truths = exchange(&mut random, 40, [60_000, 60_000]);
    let skew = Skew {
        offset: -5_000_000,
        drift: 3_000,
        step: NO_STEP,
    };
    let mut rows = datagrams(&truths, skew);
    // An end that is not bound to an address, as that of a server mostly is.
    for row in &mut rows[1] {
        row.flow.local.set_ip("0.0.0.0".parse().unwrap());
    }
    let (lives, join) = joined(rows, Trust::Messages);
    assert_eq!(lives.len(), truths.len());
    assert_eq!(join.clocks().late(), 0);
    let lives = Lives::new(&lives);
    for &truth in &truths {
        let life = lives.of(truth).unwrap();
        assert_eq!((life.back(), life.protocol), (None, Protocol::Udp));
        assert!(
            !life.sender.address.ip().is_unspecified()
                && !life.reader.address.ip().is_unspecified()
        );
        assert_eq!(life.clocks.quality, Quality::Accurate);
        assert!(forward(life).abs_diff(truth.forward) <= life.clocks.error.0 + 100);
    }
}

#[test]
fn datagrams_that_are_alike_or_lost_are_counted() {
    let mut random = fastrand::Rng::with_seed(17);
    let truths = exchange(&mut random, 4, [60_000, 60_000]);
    let skew = Skew {
        offset: 0,
        drift: 0,
        step: NO_STEP,
    };
    let mut rows = datagrams(&truths, skew);
    let mut of_first = truths.iter().filter(|truth| truth.from == Host::First);
    let [lost, unseen, alike, other, refused] = [(); 5].map(|()| *of_first.next().unwrap());
    rows[1].retain(|row| row.seq_end != lost.seq_end);
    rows[0].retain(|row| row.seq_end != unseen.seq_end);
    // The same bytes twice, of which the first was lost.
    rows[1].retain(|row| row.seq_end != alike.seq_end);
    for row in rows.iter_mut().flatten() {
        if row.seq_end == other.seq_end {
            (row.seq_end, row.bytes) = (alike.seq_end, alike.bytes);
        }
        if row.seq_end == refused.seq_end && row.direction == Direction::Rx {
            row.verdict = Verdict::ClockStep;
        }
    }
    let (lives, join) = joined(rows, Trust::Messages);
    assert_eq!(lives.len(), truths.len() - 5);
    let counted = Reason::ALL.map(|reason| join.unmatched()[reason]);
    let expected = Reason::ALL.map(|reason| match reason {
        Reason::NotRead | Reason::NotSent | Reason::Refused => 1,
        Reason::Ambiguous => 3,
        _ => 0,
    });
    assert_eq!(counted, expected);
}

/// Let the second host see another address and port of the first one.
fn behind_nat(rows: &mut [Vec<Message>; 2], port: u16) {
    for row in &mut rows[1] {
        row.flow.remote = ([192, 0, 2, 7], port).into();
    }
}

fn learned(rows: &[Vec<Message>; 2]) -> Translations {
    let mut nat = Nat::default();
    for (host, rows) in Host::ALL.into_iter().zip(rows) {
        rows.iter().for_each(|row| nat.add(host, row));
    }
    nat.translations()
}

const STILL: Skew = Skew {
    offset: 0,
    drift: 0,
    step: NO_STEP,
};

#[test]
fn connections_behind_nat_are_found_by_their_numbers() {
    let mut random = fastrand::Rng::with_seed(19);
    let truths = exchange(&mut random, 5, [60_000, 60_000]);
    let mut rows = rows(&truths, STILL);
    assert!(learned(&rows).is_empty());
    behind_nat(&mut rows, 61_000);
    let (lives, join) = joined(rows.clone(), Trust::Clocks);
    assert_eq!(lives.len(), 0);
    assert_eq!(join.unmatched()[Reason::OneSided], 2 * truths.len() as u64);
    let translations = learned(&rows);
    assert_eq!(translations.len(), 2);
    let (lives, _) = joined_through(rows, Trust::Clocks, translations);
    assert_eq!(lives.len(), truths.len());
    let lives = Lives::new(&lives);
    assert!(truths.iter().all(|truth| lives.of(*truth).is_some()));
}

#[test]
fn connections_behind_nat_that_look_alike_are_refused() {
    let mut random = fastrand::Rng::with_seed(21);
    let truths = exchange(&mut random, 2, [60_000, 60_000]);
    let mut rows = rows(&truths, STILL);
    behind_nat(&mut rows, 61_000);
    // Another connection, with the same bytes and numbers.
    let mut twin = rows.clone();
    behind_nat(&mut twin, 62_000);
    for row in &mut twin[0] {
        row.flow.local.set_port(50_000);
    }
    for (rows, twin) in rows.iter_mut().zip(twin) {
        rows.extend(twin);
    }
    let (lives, join) = joined_through(rows.clone(), Trust::Clocks, learned(&rows));
    assert_eq!(lives.len(), 0);
    assert_eq!(join.unmatched()[Reason::Ambiguous], 4 * truths.len() as u64);
}

#[test]
fn a_few_numbers_that_agree_are_no_evidence_of_nat() {
    let mut random = fastrand::Rng::with_seed(25);
    let truths = exchange(&mut random, 2, [60_000, 60_000]);
    let of_one = truths.iter().filter(|truth| truth.from == Host::First);
    let few: Vec<Truth> = of_one.take(3).copied().collect();
    let mut rows = rows(&few, STILL);
    behind_nat(&mut rows, 61_000);
    assert!(learned(&rows).is_empty());
}
