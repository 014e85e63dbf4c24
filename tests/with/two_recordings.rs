//! Write the recordings of two made-up hosts.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::fixture;
use sockstamp_model::flow::SocketCookie;
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};

use super::recording::{self, BEGIN};

/// Connections between the hosts.
const FLOWS: u16 = 40;
const SECONDS: u64 = 30;
const MICROSECOND: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;
/// The monotonic clocks of the hosts at [`BEGIN`].
const BOOTED: [u64; 2] = [100 * SECOND, 7_000 * SECOND];

/// Questions of the first host and answers of the second. One in fifty questions takes `slow` more
/// on the way.
pub fn rows(slow: Nanos) -> [Vec<Message>; 2] {
    let mut rng = Rng::with_seed(17);
    let mut rows = [Vec::new(), Vec::new()];
    for number in 0..FLOWS {
        let mut sequences = [u32::MAX - 9_000, 1_000];
        for second in 0..SECONDS {
            let mut time = second * SECOND + rng.u64(..SECOND / 2);
            for from in [0, 1] {
                let bytes = rng.u32(1..1_400);
                sequences[from] = sequences[from].wrapping_add(bytes);
                let is_slow = from == 0 && rng.u8(..50) == 0;
                let forward =
                    60 * MICROSECOND + rng.u64(..9_000) + if is_slow { slow.0 } else { 0 };
                let life = Life {
                    from,
                    number,
                    bytes,
                    sequence: sequences[from],
                    begin: time,
                    queue: rng.u64(1_000..9_000),
                    forward,
                    app: rng.u64(2_000..20_000),
                    back: 60 * MICROSECOND + rng.u64(..9_000),
                };
                rows[from].push(life.sent());
                rows[1 - from].push(life.read());
                time = life.readable() + life.app + MICROSECOND;
            }
        }
    }
    rows.iter_mut()
        .for_each(|rows| rows.sort_by_key(|message| message.time.as_nanos()));
    rows
}

/// Write them to `first.parquet` and `second.parquet`; return their paths.
pub fn write(directory: &Path, rows: &[Vec<Message>; 2]) -> [PathBuf; 2] {
    let paths = ["first", "second"].map(|name| directory.join(format!("{name}.parquet")));
    for (path, rows) in paths.iter().zip(rows) {
        recording::write(path, rows);
    }
    paths
}

/// A message and its times.
struct Life {
    from: usize,
    number: u16,
    bytes: u32,
    sequence: u32,
    begin: u64,
    queue: u64,
    forward: u64,
    app: u64,
    back: u64,
}

const COPY: u64 = 2_000;
const QDISC: u64 = 3_000;
const STACK: u64 = 4_000;

impl Life {
    fn left(&self) -> u64 {
        self.begin + COPY + self.queue + QDISC
    }

    fn readable(&self) -> u64 {
        self.left() + self.forward + STACK
    }

    fn message(&self, direction: Direction, host: usize, time: u64) -> Message {
        let mut message = fixture::message(direction);
        let addresses = [
            ([10, 0, 0, 1], 40_000 + self.number).into(),
            ([10, 0, 0, 2], 80).into(),
        ];
        message.flow.local = addresses[host];
        message.flow.remote = addresses[1 - host];
        message.flow.cookie = SocketCookie(u64::from(self.number) + 1);
        message.bytes = self.bytes.into();
        message.seq_end = self.sequence;
        message.time = Timestamp::from_nanos(BEGIN + time);
        message
    }

    fn sent(&self) -> Message {
        let acknowledged = self.readable() + self.back;
        let mut sent = self.message(Direction::Tx, self.from, acknowledged);
        sent.stamps.ack = Some(Timestamp::from_nanos(BOOTED[self.from] + acknowledged));
        for (stage, nanos) in [
            (Stage::TxCopy, COPY),
            (Stage::TxQueue, self.queue),
            (Stage::TxQdisc, QDISC),
            (Stage::TxNetwork, acknowledged - self.left()),
        ] {
            sent.stages[stage] = Some(Nanos(nanos));
        }
        sent.parts[Part::Cwnd] = Some(Nanos(self.queue / 2));
        sent
    }

    fn read(&self) -> Message {
        let time = self.readable() + self.app;
        let mut read = self.message(Direction::Rx, 1 - self.from, time);
        read.stamps.read = Some(Timestamp::from_nanos(BOOTED[1 - self.from] + time));
        read.stages[Stage::RxStack] = Some(Nanos(STACK));
        read.stages[Stage::RxApp] = Some(Nanos(self.app));
        read
    }
}
