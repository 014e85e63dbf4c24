//! Writing of recordings; time and memory of subcommands that read one of ten million messages.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::time::{ClockId, clock_gettime};
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::fixture::{self, Traffic};
use sockstamp_model::flow::{Opened, SocketCookie};
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_record::batch::ROWS;
use sockstamp_record::{Batch, Rows, Writer};

use crate::command::sockstamp;
use crate::effort::Effort;
use crate::paired::{Spread, in_turn, to_float, values};
use crate::processor;
use crate::report::{Budget, Report};

pub(crate) const MESSAGES: u64 = 10_000_000;
/// Enough to see that it works.
pub(crate) const FEW: u64 = 50_000;
/// The number that a busy service has.
pub(crate) const FLOWS: u64 = 400;
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Row groups that are written in a round: enough that the room that the first takes counts little.
const WRITTEN: usize = 16;

/// Messages that are taken at once: they stay in the cache of a CPU, as those that a recorder takes
/// from the ring.
const AT_ONCE: usize = 64;

/// The subcommands, with the seconds that they may take.
const READERS: [(&str, f64); 2] = [("report", 5.0), ("explain", 10.0)];

pub(crate) fn run(effort: Effort, report: &mut Report) -> Result<()> {
    writing(effort, report)?;
    reading(effort, report)
}

/// Measure how fast messages like those of redis are written, on one CPU, and their bytes.
fn writing(effort: Effort, report: &mut Report) -> Result<()> {
    let groups = if effort == Effort::Smoke { 1 } else { WRITTEN };
    let path =
        std::env::temp_dir().join(format!("sockstamp-bench-{}-w.parquet", std::process::id()));
    let rounds: Result<Vec<_>> = (0..effort.rounds(3))
        .map(|_| written(&path, groups))
        .collect();
    fs::remove_file(&path).context("cannot remove the recording")?;
    let rounds = rounds?;
    let rate = Spread::of(&values(&rounds, |round| round.0));
    report.add(
        "recordings.write.rate",
        "M/s",
        rate,
        Some(Budget::AtLeast(1.0)),
    );
    let bytes = Spread::of(&values(&rounds, |round| round.1));
    report.add(
        "recordings.write.bytes",
        "B",
        bytes,
        Some(Budget::AtMost(24.0)),
    );
    Ok(())
}

/// Write these row groups; return the millions of messages per second of CPU time, and the bytes of
/// one.
fn written(path: &Path, groups: usize) -> Result<(f64, f64)> {
    let mut traffic = Traffic::default();
    let mut writer = Writer::create(path, &[])?;
    let mut batch = Batch::new();
    let mut spent = Duration::ZERO;
    for _ in 0..groups {
        for _ in 0..ROWS / AT_ONCE {
            // Making them up takes longer than writing them.
            let messages: Vec<Message> = traffic.by_ref().take(AT_ONCE).collect();
            let began = cpu_time()?;
            messages.iter().for_each(|message| batch.push(message));
            spent += cpu_time()? - began;
        }
        let began = cpu_time()?;
        writer.write(&batch)?;
        batch.clear();
        spent += cpu_time()? - began;
    }
    let (rows, bytes) = writer.finish()?;
    let rate = to_float(rows) / spent.as_secs_f64() / 1e6;
    Ok((rate, to_float(bytes) / to_float(rows)))
}

/// Return the time that this thread has been on a CPU.
fn cpu_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

fn reading(effort: Effort, report: &mut Report) -> Result<()> {
    let messages = if effort == Effort::Smoke {
        FEW
    } else {
        MESSAGES
    };
    let path = std::env::temp_dir().join(format!("sockstamp-bench-{}.parquet", std::process::id()));
    let measured = write(&path, messages).and_then(|()| {
        let readers = READERS.map(|(reader, _)| reader);
        in_turn(effort.rounds(1), readers, |reader| timed(reader, &[&path]))
    });
    fs::remove_file(&path).context("cannot remove the recording")?;
    for ((reader, seconds), rounds) in READERS.into_iter().zip(measured?) {
        let figure = |what: &str| format!("recordings.{reader}.{what}");
        let time = Spread::of(&values(&rounds, |round| round.0));
        report.add(figure("time"), "s", time, Some(Budget::AtMost(seconds)));
        let memory = Spread::of(&values(&rounds, |round| round.1));
        report.add(figure("memory"), "MB", memory, Some(Budget::AtMost(500.0)));
    }
    Ok(())
}

/// Run a subcommand with recordings, on all processors; return its seconds and its megabytes.
pub(crate) fn timed(reader: &str, paths: &[&Path]) -> Result<(f64, f64)> {
    let began = Instant::now();
    let mut process = processor::on_all(|| {
        let mut command = sockstamp()?;
        command.arg(reader);
        if reader == "explain" {
            command.arg("-r");
        }
        command.args(paths).stdout(Stdio::null());
        command.spawn().context("cannot start sockstamp")
    })?;
    let status = format!("/proc/{}/status", process.id());
    let mut kilobytes = 0;
    let ended = loop {
        if let Some(ended) = process.try_wait()? {
            break ended;
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok());
        kilobytes = peak.unwrap_or(kilobytes);
        thread::sleep(LOOK_AGAIN);
    };
    if !ended.success() {
        bail!("sockstamp {reader} ended with {ended}");
    }
    Ok((began.elapsed().as_secs_f64(), to_float(kilobytes) / 1024.0))
}

fn write(path: &Path, messages: u64) -> Result<()> {
    let mut writer = Writer::create(path, &[])?;
    let mut batch = Batch::new();
    let services = ["web.service", "database.service"].map(|name| name.parse().ok().map(Arc::new));
    for number in 0..messages {
        let mut message = message(number);
        message.container = services[usize::from(number % 8 == 0)].clone();
        batch.push(&message);
        if batch.is_full() {
            writer.write(&batch)?;
            batch.clear();
        }
    }
    writer.write(&batch)?;
    writer.finish()?;
    Ok(())
}

/// Return requests and answers of flows in turn; one in fifty reads is late in ten of the flows.
fn message(number: u64) -> Message {
    let direction = Direction::ALL[usize::from(number % 2 == 1)];
    let mut message = fixture::message(direction);
    let random = mixed(number);
    let flow = random % FLOWS;
    message.flow.cookie = SocketCookie(flow + 1);
    message
        .flow
        .remote
        .set_port(10_000 + u16::try_from(flow).unwrap_or(0));
    message.bytes = 64 + random % 1000;
    message.cpu = Some(u16::try_from(random >> 32 & 15).unwrap_or(0));
    message.opened = Some(Opened::ALL[usize::from(flow.is_multiple_of(4))]);
    message.time = message.time + Nanos(number * 10_000);
    let nanos = |shift: u32, about: u64| Some(Nanos(about / 2 + (random >> shift) % about));
    let stages: &[(Stage, u64)] = match direction {
        Direction::Tx => &[
            (Stage::TxCopy, 2_000),
            (Stage::TxQueue, 1_000),
            (Stage::TxQdisc, 3_000),
            (Stage::TxNetwork, 60_000),
        ],
        Direction::Rx => &[
            (Stage::RxStack, 8_000),
            (Stage::RxWakeup, 4_000),
            (Stage::RxApp, 3_000),
            (Stage::PeerAnswer, 300_000),
        ],
    };
    for ((stage, about), shift) in stages.iter().zip([8, 18, 28, 38]) {
        message.stages[*stage] = nanos(shift, *about);
    }
    if direction == Direction::Rx && flow < 10 && random >> 40 & 63 == 0 {
        message.stages[Stage::RxApp] = nanos(8, 20_000_000);
    }
    let end = Timestamp::from_nanos(number * 10_000 + 1_000_000);
    match direction {
        Direction::Tx => message.stamps.ack = Some(end),
        Direction::Rx => message.stamps.read = Some(end),
    }
    message
}

/// Return the same numbers in every run (SplitMix64: Steele et al., OOPSLA 2014).
pub(crate) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
