//! Reading records: the ring is filled while nobody reads, then emptied against the clock, by one
//! processor. And the account: every message is a record that was read, or one that is known lost.

use std::cell::Cell;
use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use sockstamp_bpf::{Decoder, Options, Record, Session, Target};

use crate::Effort;
use crate::load::{Load, Traffic};
use crate::paired::{Spread, in_turn, to_float};
use crate::report::{Budget, Report};

/// The flood that fills the ring.
const FLOOD: Duration = Duration::from_millis(700);
/// More than a flood leaves.
const ROOMY: u32 = 128 << 20;
/// Less than a flood leaves.
const CROWDED: u32 = 1 << 20;
/// How long the last messages may take to be acknowledged.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
enum Reader {
    /// Looks at each record.
    Plain,
    /// Makes a message of each, as `sockstamp trace` does.
    Decoding,
}

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let rates = in_turn(effort.rounds(4), [Reader::Plain, Reader::Decoding], |reader| {
        records_per_second(load, reader)
    })?;
    let names = ["ring.read", "ring.decoded"];
    for (name, rates) in names.into_iter().zip(rates) {
        let millions: Vec<_> = rates.iter().map(|rate| rate / 1e6).collect();
        report.add(name, "M/s", Spread::of(&millions), Some(Budget::AtLeast(3.0)));
    }
    let account = in_turn(1, [()], |()| Account::take(load))?.concat();
    for Account { lost, uncounted } in account {
        report.add("ring.lost", "share", Spread::of(&[lost]), None);
        report.add(
            "ring.uncounted",
            "count",
            Spread::of(&[uncounted]),
            Some(Budget::Exactly(0.0)),
        );
    }
    Ok(())
}

fn start(cgroup: &Path, ring_bytes: u32, on_record: impl FnMut(&Record) + 'static) -> Result<Session> {
    let options = Options {
        target: Target {
            cgroup: Some(cgroup.to_owned()),
            ..Target::default()
        },
        record: true,
        ring_bytes,
        ..Options::default()
    };
    Ok(Session::start(&options, on_record)?)
}

fn records_per_second(load: &mut Load, reader: Reader) -> Result<f64> {
    let seen = Rc::new(Cell::new(0));
    let decoder = Decoder::new()?;
    let counter = Rc::clone(&seen);
    let mut session = start(load.cgroup(), ROOMY, move |record| {
        match reader {
            Reader::Plain => drop(black_box(record.time)),
            Reader::Decoding => drop(black_box(decoder.message(record))),
        }
        counter.set(counter.get() + 1);
    })?;
    load.unattended(Traffic::RequestResponse, FLOOD)?;
    let began = Instant::now();
    session.poll(Duration::ZERO)?;
    Ok(to_float(seen.get()) / began.elapsed().as_secs_f64())
}

/// Of a flood that the ring could not hold.
#[derive(Clone)]
struct Account {
    /// Share of the messages whose record found no room.
    lost: f64,
    /// Messages of which nothing is known; 0 if the books are right.
    uncounted: f64,
}

impl Account {
    fn take(load: &mut Load) -> Result<Self> {
        let seen = Rc::new(Cell::new(0));
        let counter = Rc::clone(&seen);
        let mut session = start(load.cgroup(), CROWDED, move |_| counter.set(counter.get() + 1))?;
        load.unattended(Traffic::RequestResponse, FLOOD)?;
        session.settle(PATIENCE)?;
        let summary = session.stop()?;
        let messages = to_float(summary.tx.messages + summary.rx.messages);
        let lost = to_float(summary.lost.ring);
        Ok(Self {
            lost: lost / messages,
            uncounted: messages - lost - to_float(seen.get()),
        })
    }
}
