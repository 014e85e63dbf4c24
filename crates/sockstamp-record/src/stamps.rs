//! Stamps as distances from where the stages put them.
//!
//! Stages are differences of stamps, so that almost every stamp follows from the last one and the
//! stages. A file has that one, by its clock's offset from the time of the message, and of the
//! others the distance from there: mostly none.

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::message::{Message, Stamps};
use sockstamp_model::stage::{Stage, StageMap};

use crate::schema::STAMPS;

/// The places of stamps in [`Stamps::NAMES`], from the last of a message's path to its first, each
/// with the stages between it and the one before it in this list.
const BACKWARDS: [(usize, &[Stage]); STAMPS] = [
    (10, &[]),
    (9, &[Stage::RxApp, Stage::RxWakeup]),
    (8, &[]),
    (7, &[Stage::RxStack, Stage::RxHol]),
    (6, &[]),
    (5, &[Stage::TxNetwork]),
    (4, &[]),
    (3, &[Stage::TxQdisc]),
    (2, &[]),
    (1, &[Stage::TxQueue]),
    (0, &[Stage::TxCopy]),
];

/// The stamps of a message as a file has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    /// A bit for each stamp that came, in the order of [`Stamps::NAMES`].
    pub(crate) came: i64,
    /// The time of the message less the last stamp.
    pub(crate) clock_offset: Option<i64>,
    /// The distances from where the stages put them, 0 if none.
    pub(crate) moved: [i64; STAMPS],
}

/// Walk from the last stamp that came to the first. `place` gets the place of each and where the
/// stages put it, and returns where it is.
fn walk(
    came: i64,
    last: i64,
    stages: &StageMap<Option<Nanos>>,
    mut place: impl FnMut(usize, i64) -> i64,
) {
    let mut at = last;
    let mut first = true;
    for (index, between) in BACKWARDS {
        if !first {
            let stages = between.iter().filter_map(|&stage| stages[stage]);
            at = stages.fold(at, |at, stage| at.wrapping_sub(stage.0.cast_signed()));
        }
        if came >> index & 1 == 1 {
            at = place(index, at);
            first = false;
        }
    }
}

pub(crate) fn store(message: &Message) -> Stored {
    let times = message.stamps.times();
    let nanos = times.map(|stamp| stamp.map(|stamp| stamp.as_nanos().cast_signed()));
    let came = (0..STAMPS).fold(0, |came, index| {
        came | i64::from(nanos[index].is_some()) << index
    });
    let mut stored = Stored {
        came,
        clock_offset: None,
        moved: [0; STAMPS],
    };
    let Some(last) = BACKWARDS.into_iter().find_map(|(index, _)| nanos[index]) else {
        return stored;
    };
    stored.clock_offset = Some(message.time.as_nanos().cast_signed().wrapping_sub(last));
    walk(came, last, &message.stages, |index, at| {
        let is = nanos[index].unwrap_or(at);
        stored.moved[index] = is.wrapping_sub(at);
        is
    });
    stored
}

/// Return the stamps of a row; `time` is that of its message.
pub(crate) fn load(stored: &Stored, time: i64, stages: &StageMap<Option<Nanos>>) -> Stamps {
    let mut stamps = [None; STAMPS];
    if let Some(offset) = stored.clock_offset {
        walk(
            stored.came,
            time.wrapping_sub(offset),
            stages,
            |index, at| {
                let is = at.wrapping_add(stored.moved[index]);
                stamps[index] = Some(Timestamp::<Monotonic>::from_nanos(is.cast_unsigned()));
                is
            },
        );
    }
    let [
        entry,
        queued,
        sched,
        sched_last,
        snd,
        snd_last,
        ack,
        rx_software,
        filled,
        ready,
        read,
    ] = stamps;
    Stamps {
        entry,
        queued,
        sched,
        sched_last,
        snd,
        snd_last,
        snd_hw: None,
        ack,
        rx_software,
        filled,
        ready,
        read,
    }
}
