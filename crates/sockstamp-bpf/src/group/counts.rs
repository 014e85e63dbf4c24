//! The counts of a group, as the model has them.

use sockstamp_model::clock::Nanos;
use sockstamp_model::group::{GroupDirection, GroupHistogram, GroupKey, GroupSummary, SLOTS};
use sockstamp_model::message::Message;
use sockstamp_model::part::{Part, PartMap, PartSummary};
use sockstamp_model::stage::{Direction, Stage, StageMap};

use crate::abi;
use crate::abi::raw::{self, group as Group};
use crate::plan::Plan;

const _: () = assert!(raw::GROUP_HISTOGRAM_SLOTS as usize == SLOTS);

pub(super) fn summary(group: &Group, key: GroupKey, plan: &Plan) -> GroupSummary {
    GroupSummary {
        key,
        tx: direction(group, plan, Direction::Tx),
        rx: direction(group, plan, Direction::Rx),
    }
}

fn direction(group: &Group, plan: &Plan, direction: Direction) -> GroupDirection {
    let index = direction as usize;
    let counts = &group.counts[index];
    let stages = StageMap::from_fn(|stage| {
        let measured = stage.direction() == direction && plan.stages[stage].is_measured();
        measured.then(|| distribution(&group.distributions[stage as usize]))
    });
    let mut summary = GroupDirection {
        messages: counts.messages,
        measured: counts.measured,
        refused: counts.refused,
        bytes: counts.bytes,
        retransmits: match direction {
            Direction::Tx => group.retransmits,
            Direction::Rx => 0,
        },
        lossless: match direction {
            Direction::Tx => group.lossless,
            Direction::Rx => 0,
        },
        parts: PartMap::from_fn(|part| {
            let index = part
                .counted_index()
                .filter(|_| stages[part.stage()].is_some())?;
            Some(abi::part_summary(&group.parts[index]))
        }),
        stages,
        sent: match direction {
            Direction::Tx => distribution(&group.distributions[abi::SENT]),
            Direction::Rx => GroupHistogram::default(),
        },
        total: distribution(&group.distributions[abi::total(direction)]),
    };
    summary.complete_parts();
    summary
}

fn distribution(raw: &raw::group_distribution) -> GroupHistogram {
    GroupHistogram::from_counts(&raw.counts, raw.sum_ns.into(), raw.max_ns)
}

/// The stages that lie behind the driver.
pub(crate) const BEHIND_DRIVER: [Stage; 2] = [Stage::TxNic, Stage::TxNetwork];
/// Their parts, without the rest of each stage.
pub(crate) const PARTS_BEHIND_DRIVER: [Part; 2] = [Part::DelayedAck, Part::Excess];

/// Add what the programs have not counted of a message that was held for a NIC's stamp.
pub(super) fn add_held(group: &mut GroupSummary, message: &Message) {
    match message.direction {
        Direction::Tx => add_behind_driver(&mut group.tx, message),
        Direction::Rx => add_before_kernel(&mut group.rx, message),
    }
}

/// Add what lies before the kernel's stamp of a read message, and its total.
fn add_before_kernel(group: &mut GroupDirection, message: &Message) {
    let weight = u64::from(message.weight);
    if let Some(nic) = message.stages[Stage::RxNic] {
        let histogram = group.stages[Stage::RxNic].get_or_insert_default();
        histogram.record(nic, weight);
    }
    group.total.record(message.total(), weight);
}

/// Add what lies behind the driver of a message, and the time until it left.
fn add_behind_driver(group: &mut GroupDirection, message: &Message) {
    let weight = u64::from(message.weight);
    for stage in BEHIND_DRIVER {
        if let Some(duration) = message.stages[stage] {
            let histogram = group.stages[stage].get_or_insert_default();
            histogram.record(duration, weight);
        }
    }
    group.sent.record(message.time(), weight);
    add_parts_behind_driver(&mut group.parts, message);
}

/// Add the parts of what lies behind the driver of a message, as the programs add parts.
pub(crate) fn add_parts_behind_driver(parts: &mut PartMap<Option<PartSummary>>, message: &Message) {
    let weight = u64::from(message.weight);
    for part in PARTS_BEHIND_DRIVER {
        let took = message.parts[part].filter(|took| *took > Nanos::ZERO);
        let Some(took) = took else {
            continue;
        };
        parts[part].get_or_insert_default().merge(&PartSummary {
            count: weight,
            sum_ns: u128::from(took.0) * u128::from(weight),
            max_ns: Some(took),
        });
    }
}

pub(super) fn activity(group: &Group) -> u64 {
    let messages: u64 = group.counts.iter().map(|counts| counts.messages).sum();
    messages + group.retransmits + group.tx_ended
}

pub(super) fn in_flight(group: &Group) -> u64 {
    group.counts[Direction::Tx as usize]
        .measured
        .saturating_sub(group.tx_ended)
}
