//! Time and memory of `join` with two recordings of ten million messages: all that two hosts
//! exchanged over 400 connections, each host's sends and reads.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::fixture;
use sockstamp_model::flow::SocketCookie;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_record::{Batch, Rows, Writer};

use crate::effort::Effort;
use crate::paired::{Spread, in_turn, values};
use crate::recordings::{FEW, FLOWS, MESSAGES, mixed, timed};
use crate::report::{Budget, Report};

/// Seconds and megabytes that it may take.
const SECONDS: f64 = 30.0;
const MEGABYTES: f64 = 500.0;
/// Nanoseconds between messages.
const APART: u64 = 10_000;
/// The monotonic clocks of the hosts when the first message is sent.
const BOOTED: [u64; 2] = [100_000_000_000, 7_000_000_000_000];
const STACK: u64 = 4_000;

pub(crate) fn run(effort: Effort, report: &mut Report) -> Result<()> {
    let messages = if effort == Effort::Smoke {
        FEW
    } else {
        MESSAGES
    };
    let directory = std::env::temp_dir();
    let paths = ["first", "second"].map(|name| {
        directory.join(format!(
            "sockstamp-bench-{}-{name}.parquet",
            std::process::id()
        ))
    });
    let measured = write(&paths, messages).and_then(|()| {
        let [first, second] = paths.each_ref().map(PathBuf::as_path);
        in_turn(effort.rounds(1), [()], |()| timed("join", &[first, second]))
    });
    for path in &paths {
        fs::remove_file(path).context("cannot remove a recording")?;
    }
    let [rounds] = measured?;
    let time = Spread::of(&values(&rounds, |round| round.0));
    report.add(
        "recordings.join.time",
        "s",
        time,
        Some(Budget::AtMost(SECONDS)),
    );
    let memory = Spread::of(&values(&rounds, |round| round.1));
    report.add(
        "recordings.join.memory",
        "MB",
        memory,
        Some(Budget::AtMost(MEGABYTES)),
    );
    Ok(())
}

/// A host's recording while it is written.
struct Recording {
    writer: Writer,
    batch: Batch,
}

impl Recording {
    fn create(path: &Path) -> Result<Self> {
        Ok(Self {
            writer: Writer::create(path, &[])?,
            batch: Batch::new(),
        })
    }

    fn push(&mut self, message: &Message) -> Result<()> {
        self.batch.push(message);
        if self.batch.is_full() {
            self.writer.write(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.writer.write(&self.batch)?;
        self.writer.finish()?;
        Ok(())
    }
}

fn write(paths: &[PathBuf; 2], messages: u64) -> Result<()> {
    let mut recordings = [Recording::create(&paths[0])?, Recording::create(&paths[1])?];
    let mut sequences = vec![[0_u32; 2]; usize::try_from(FLOWS)?];
    for number in 0..messages {
        let random = mixed(number);
        let flow = random % FLOWS;
        let from = usize::from(number % 2 == 1);
        let sequence = &mut sequences[usize::try_from(flow)?][from];
        *sequence = sequence.wrapping_add(64 + u32::try_from(random % 1000)?);
        let life = Life {
            from,
            random,
            sequence: *sequence,
            begin: number * APART,
        };
        recordings[from].push(&life.sent())?;
        recordings[1 - from].push(&life.read())?;
    }
    let [first, second] = recordings;
    first.finish()?;
    second.finish()
}

/// A message and its times.
struct Life {
    from: usize,
    random: u64,
    sequence: u32,
    begin: u64,
}

impl Life {
    /// Return a time of about this many nanoseconds.
    fn about(&self, nanos: u64, shift: u32) -> u64 {
        nanos / 2 + (self.random >> shift) % nanos
    }

    fn sending(&self) -> [(Stage, u64); 3] {
        [
            (Stage::TxCopy, self.about(2_000, 8)),
            (Stage::TxQueue, self.about(1_000, 14)),
            (Stage::TxQdisc, self.about(3_000, 20)),
        ]
    }

    fn left(&self) -> u64 {
        self.begin + self.sending().iter().map(|(_, nanos)| nanos).sum::<u64>()
    }

    fn readable(&self) -> u64 {
        self.left() + self.about(60_000, 26) + STACK
    }

    fn message(&self, direction: Direction, host: usize, time: u64) -> Message {
        let mut message = fixture::message(direction);
        let flow = self.random % FLOWS;
        let port = 10_000 + u16::try_from(flow).unwrap_or(0);
        let addresses = [([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into()];
        message.flow.local = addresses[host];
        message.flow.remote = addresses[1 - host];
        message.flow.cookie = SocketCookie(flow + 1);
        message.bytes = 64 + self.random % 1000;
        message.seq_end = self.sequence;
        message.time = message.time + Nanos(time);
        message
    }

    fn sent(&self) -> Message {
        let acknowledged = self.readable() + self.about(60_000, 32);
        let mut sent = self.message(Direction::Tx, self.from, acknowledged);
        sent.stamps.ack = Some(Timestamp::from_nanos(BOOTED[self.from] + acknowledged));
        let network = (Stage::TxNetwork, acknowledged - self.left());
        for (stage, nanos) in self.sending().into_iter().chain([network]) {
            sent.stages[stage] = Some(Nanos(nanos));
        }
        sent
    }

    fn read(&self) -> Message {
        let app = self.about(3_000, 38);
        let time = self.readable() + app;
        let host = 1 - self.from;
        let mut read = self.message(Direction::Rx, host, time);
        read.stamps.read = Some(Timestamp::from_nanos(BOOTED[host] + time));
        read.stages[Stage::RxStack] = Some(Nanos(STACK));
        read.stages[Stage::RxApp] = Some(Nanos(app));
        read
    }
}
