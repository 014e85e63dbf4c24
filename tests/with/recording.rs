//! Write recordings of made-up messages.

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::fixture;
use sockstamp_model::flow::SocketCookie;
use sockstamp_model::interface::Interface;
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::verdict::Verdict;
use sockstamp_record::{Batch, Reader, Rows, Writer};
use testbed::{Host, Process};

use crate::start;

/// A name that ends a text, a tag and a script, unless it is escaped.
pub const HOSTILE: &str = "</script><b>'\"`";

/// The begin of the population's first second, since 1970.
pub const BEGIN: u64 = 1_790_000_000_000_000_000;

/// Write messages to a file, in several row groups.
pub fn write(path: &Path, messages: &[Message]) {
    let mut writer = Writer::create(path, &[("host", "here".to_owned())]).unwrap();
    let mut batch = Batch::new();
    for some in messages.chunks(messages.len().div_ceil(3).max(1)) {
        some.iter().for_each(|message| batch.push(message));
        writer.write(&batch).unwrap();
        batch.clear();
    }
    writer.finish().unwrap();
}

/// Return this many messages of one minute, from 40 flows of three processes with four peers. Reads
/// from 10.0.0.7 take long at times, because their reader is late (`rx.app`). One in a hundred
/// messages is refused; a few rows are connections.
pub fn population(count: u64) -> Vec<Message> {
    let mut rng = Rng::with_seed(7);
    let mut messages: Vec<Message> = (0..count).map(|_| one(&mut rng)).collect();
    messages.sort_by_key(|message| message.time.as_nanos());
    messages
}

fn one(rng: &mut Rng) -> Message {
    let direction = Direction::ALL[usize::from(rng.bool())];
    let mut message = fixture::message(direction);
    let number = rng.u16(..40);
    message.flow.cookie = SocketCookie(u64::from(number) + 1);
    let [_, peer] = (4 + number % 4).to_be_bytes();
    message.flow.remote = ([10, 0, 0, peer], 50_000 + number).into();
    message.comm = [HOSTILE, "nginx", "worker"][usize::from(number % 3)].into();
    message.pid = 100 + u32::from(number % 3);
    message.bytes = rng.u64(1..20_000);
    message.weight = rng.u32(1..4);
    message.time = Timestamp::from_nanos(BEGIN + rng.u64(..60_000_000_000));
    if rng.u8(..100) == 0 {
        message.verdict = Verdict::Reset;
        return message;
    }
    if rng.u8(..100) == 0 {
        let stage = [Stage::ConnHandshake, Stage::ConnAccept][direction as usize];
        message.stages[stage] = Some(heavy(rng, 90_000.0));
        divide(&mut message, rng);
        return message;
    }
    let medians = match direction {
        Direction::Tx => &[
            (Stage::TxCopy, 2_000.0),
            (Stage::TxQueue, 1_000.0),
            (Stage::TxQdisc, 3_000.0),
            (Stage::TxNetwork, 60_000.0),
            (Stage::AppService, 200_000.0),
        ][..],
        Direction::Rx => &[
            (Stage::RxStack, 8_000.0),
            (Stage::RxWakeup, 4_000.0),
            (Stage::RxApp, 3_000.0),
            (Stage::PeerAnswer, 300_000.0),
        ],
    };
    for &(stage, median) in medians {
        message.stages[stage] = Some(heavy(rng, median));
    }
    if number % 4 == 3 && rng.u8(..10) == 0 && direction == Direction::Rx {
        message.stages[Stage::RxApp] = Some(Nanos(rng.u64(20_000_000..40_000_000)));
    }
    if direction == Direction::Tx {
        message.interfaces.last = Some(Interface {
            name: "eth0".into(),
            index: 2,
            netns: message.flow.netns,
        });
    }
    divide(&mut message, rng);
    message
}

/// Give each stage its parts: some of it to one, and the rest to the last.
fn divide(message: &mut Message, rng: &mut Rng) {
    for (part, rest) in [
        (Part::Sndbuf, Part::Copy),
        (Part::Cwnd, Part::Other),
        (Part::DelayedAck, Part::Path),
        (Part::Network, Part::Peer),
        (Part::SynAgain, Part::RoundTrip),
    ] {
        if let Some(whole) = message.stages[part.stage()] {
            let some = Nanos(rng.u64(..=whole.0));
            message.parts[part] = Some(some);
            message.parts[rest] = Some(Nanos(whole.0 - some.0));
        }
    }
}

/// Return a duration of a Pareto distribution with this median.
fn heavy(rng: &mut Rng, median: f64) -> Nanos {
    let scale = median / 2_f64.powf(0.5);
    let nanos = (scale / (1.0 - rng.f64()).sqrt()).min(2e9);
    Nanos::from(Duration::from_secs_f64(nanos / 1e9))
}

/// Return the messages of a recording.
pub fn messages(path: &Path) -> Vec<Message> {
    let reader = Reader::open(path).unwrap();
    reader.messages().map(Result::unwrap).collect()
}

/// Record what a host measures with these options; return when it measures.
pub fn record(output: &Path, host: &Host, options: &[&str]) -> Process {
    let output = ["-o", output.to_str().unwrap()];
    let target = ["--netns", host.netns_name()];
    start(&[&["record"], options, &output, &target].concat())
}

/// Do the same with `--sample 2^bits`.
pub fn record_in_step(output: &Path, host: &Host, bits: u32) -> Process {
    record(output, host, &["--sample", &format!("2^{bits}")])
}
