//! Measure reading of records: fill the ring while no task reads it, then empty it against the
//! clock on one CPU. Then check the account: every message is a record that was read, or one known
//! to be lost.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use sockstamp_bpf::{Options, Session, Target};

use crate::effort::Effort;
use crate::load::{Load, Traffic};
use crate::paired::{Spread, in_turn, to_float};
use crate::report::{Budget, Report};

/// The flood that fills the ring.
const FLOOD: Duration = Duration::from_millis(700);
/// More than a flood leaves.
const ROOMY: u32 = 128 << 20;
/// Less than a flood leaves.
const CROWDED: u32 = 1 << 20;
/// Longest time for the acknowledgement of the last messages.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let rates = in_turn(effort.rounds(4), [()], |()| messages_per_second(load))?.concat();
    let millions: Vec<_> = rates.iter().map(|rate| rate / 1e6).collect();
    report.add(
        "ring.decoded",
        "M/s",
        Spread::of(&millions),
        Some(Budget::AtLeast(3.0)),
    );
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

fn start(cgroup: &Path, ring_bytes: u32) -> Result<Session> {
    let options = Options {
        target: Target {
            cgroup: Some(cgroup.to_owned()),
            ..Target::default()
        },
        record: true,
        ring_bytes,
        ..Options::default()
    };
    Ok(Session::start(&options)?)
}

fn messages_per_second(load: &mut Load) -> Result<f64> {
    let mut session = start(load.cgroup(), ROOMY)?;
    load.unattended(Traffic::RequestResponse, FLOOD)?;
    let mut seen = 0_u64;
    let began = Instant::now();
    session.poll(Duration::ZERO, &mut |message| {
        drop(black_box(message));
        seen += 1;
    })?;
    Ok(to_float(seen) / began.elapsed().as_secs_f64())
}

/// The result of a flood that exceeds the ring.
#[derive(Clone)]
struct Account {
    /// Share of the records that found no room.
    lost: f64,
    /// Messages without any account; must be 0.
    uncounted: f64,
}

impl Account {
    fn take(load: &mut Load) -> Result<Self> {
        let mut seen = 0_u64;
        let mut count = |_| seen += 1;
        let mut session = start(load.cgroup(), CROWDED)?;
        load.unattended(Traffic::RequestResponse, FLOOD)?;
        session.settle(PATIENCE, &mut count)?;
        let summary = session.stop(&mut count)?;
        // A connection has a record as well.
        let connections = summary.connections.opened + summary.connections.accepted;
        let records = to_float(summary.tx.messages + summary.rx.messages + connections);
        let lost = to_float(summary.lost.ring);
        Ok(Self {
            lost: lost / records,
            uncounted: records - lost - to_float(seen),
        })
    }
}
