//! Sum the kernel's banks into the model's summary.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::{Bucket, Histogram, ZERO_SLOT};
use sockstamp_model::part::{PartMap, PartSummary};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::summary::{
    Connections, Cumulative, DirectionSummary, Lost, NicReads, NicStamps, Reads, Resent, Summary,
    Tags,
};
use sockstamp_model::unpaired::UnpairedCounts;
use sockstamp_model::verdict::Verdict;

use crate::abi::{self, Bank, SENT, part_summary, raw};
use crate::plan::Plan;

/// Sum the banks. A stage that the plan lacks remains absent, with its reason.
pub(crate) fn summary(banks: &[Bank], plan: &Plan) -> Summary {
    let tx = direction_summary(banks, plan, Direction::Tx);
    let rx = direction_summary(banks, plan, Direction::Rx);
    let (failed, mut verdicts): (BTreeMap<_, _>, _) = refusals(banks)
        .into_iter()
        .partition(|(verdict, _)| verdict.is_of_connection());
    let valid = tx.total.count() + rx.total.count();
    verdicts.insert(Verdict::Valid, valid);
    let ended: u64 = verdicts.values().sum();
    let measured = sum(banks, |bank| bank.measured_weight.iter().sum());
    Summary {
        in_flight: measured.saturating_sub(ended),
        absent: plan
            .absent()
            .map(|(stage, reason)| (stage, reason.to_string()))
            .collect(),
        verdicts,
        connections: connections(banks, failed),
        lost: lost(banks),
        tx,
        rx,
        duration: Nanos::ZERO,
        adopted: 0,
        interfaces: Vec::new(),
        groups: None,
        nic_stamps: None,
        nic_reads: None,
        coalescing: Vec::new(),
        tags: None,
        windows: None,
        cost: None,
        throttled: None,
        listeners: Vec::new(),
    }
}

fn connections(banks: &[Bank], mut failed: BTreeMap<Verdict, u64>) -> Connections {
    failed.retain(|_, count| *count > 0);
    let of = |direction: Direction| sum(banks, |bank| bank.connections[direction as usize]);
    Connections {
        opened: of(Direction::Tx),
        accepted: of(Direction::Rx),
        syns_again: sum(banks, |bank| bank.syns_again),
        failed,
    }
}

/// Sum the requests for stamps of NICs.
pub(crate) fn nic_stamps(banks: &[Bank]) -> NicStamps {
    NicStamps {
        asked: sum(banks, |bank| bank.nic_asked),
        spared: sum(banks, |bank| bank.nic_spared),
        ..NicStamps::default()
    }
}

/// Sum the reads whose packets a NIC may have stamped.
pub(crate) fn nic_reads(banks: &[Bank]) -> NicReads {
    NicReads {
        spared: sum(banks, |bank| bank.nic_reads_spared),
        unstamped: sum(banks, |bank| bank.nic_reads_unstamped),
        ..NicReads::default()
    }
}

/// Sum the tags that were written and read.
pub(crate) fn tags(banks: &[Bank]) -> Tags {
    let of = |kind: raw::tags::Type| sum(banks, |bank| bank.tags[kind as usize]);
    Tags {
        written: of(raw::tags::TAGS_WRITTEN),
        read: of(raw::tags::TAGS_READ),
        changed: of(raw::tags::TAGS_CHANGED),
        no_room: of(raw::tags::TAGS_NO_ROOM),
        resent: of(raw::tags::TAGS_RESENT),
        withheld: of(raw::tags::TAGS_WITHHELD),
        unheard: of(raw::tags::TAGS_UNHEARD),
    }
}

fn direction_summary(banks: &[Bank], plan: &Plan, direction: Direction) -> DirectionSummary {
    let index = direction as usize;
    let mut stages = StageMap::from_fn(|stage| {
        let measured = stage.direction() == direction && plan.stages[stage].is_measured();
        measured.then(|| distribution(banks, stage as usize))
    });
    let mut total = distribution(banks, abi::total(direction));
    let mut cumulative = Cumulative::default();
    if let (Direction::Rx, Some(stack)) = (direction, &mut stages[Stage::RxStack]) {
        cumulative.tcp = Some(Reads {
            enqueued: stack.clone(),
            read: total.clone(),
        });
        if plan.measures_udp() {
            let udp = Reads {
                enqueued: distribution(
                    banks,
                    raw::bank_distribution::DISTRIBUTION_UDP_STACK as usize,
                ),
                read: distribution(
                    banks,
                    raw::bank_distribution::DISTRIBUTION_UDP_TOTAL as usize,
                ),
            };
            stack.merge(&udp.enqueued);
            total.merge(&udp.read);
            cumulative.udp = Some(udp);
        }
    }
    let sent = match direction {
        Direction::Tx => distribution(banks, SENT),
        Direction::Rx => Histogram::new(),
    };
    let only = |of: Direction, value: u64| if direction == of { value } else { 0 };
    let mut summary = DirectionSummary {
        messages: sum(banks, |bank| bank.messages[index]),
        measured: sum(banks, |bank| bank.measured[index]),
        bytes: sum(banks, |bank| bank.bytes[index]),
        estimate: None,
        retransmits: only(Direction::Tx, sum(banks, |bank| bank.retransmits)),
        resent: (direction == Direction::Tx).then(|| resent(banks)),
        segments: None,
        out_of_order: only(Direction::Rx, sum(banks, |bank| bank.out_of_order)),
        unpaired: UnpairedCounts::from_fn(|reason| {
            sum(banks, |bank| bank.unpaired[index][reason as usize])
        }),
        drops: only(Direction::Rx, sum(banks, |bank| bank.drops)),
        drop_reasons: BTreeMap::new(),
        parts: parts(banks, &stages),
        stages,
        begins_unseen: 0,
        sent,
        total,
        cumulative,
    };
    summary.complete_parts();
    summary
}

/// Return the valid sends whose begin no hook has shown, once all are counted.
pub(crate) fn begins_unseen(tx: &DirectionSummary) -> u64 {
    // Where hooks show the begin of sends at all, they do of each one of TCP.
    let begun = tx.stages[Stage::TxCopy].as_ref().map(Histogram::count);
    begun.map_or(0, |begun| tx.sent.count().saturating_sub(begun))
}

/// Return the segments that were sent again, by why.
fn resent(banks: &[Bank]) -> Resent {
    let of = |why: raw::resent::Type| sum(banks, |bank| bank.resent[why as usize]);
    Resent {
        syns: of(raw::resent::RESENT_SYN),
        probes: of(raw::resent::RESENT_PROBE),
        window: of(raw::resent::RESENT_WINDOW),
        fast: of(raw::resent::RESENT_FAST),
        timeouts: of(raw::resent::RESENT_TIMEOUT),
        needless: sum(banks, |bank| bank.needless),
    }
}

/// Return the parts of measured stages.
fn parts(banks: &[Bank], stages: &StageMap<Option<Histogram>>) -> PartMap<Option<PartSummary>> {
    PartMap::from_fn(|part| {
        let index = part
            .counted_index()
            .filter(|_| stages[part.stage()].is_some())?;
        let mut whole = PartSummary::default();
        for bank in banks {
            whole.merge(&part_summary(&bank.parts[index]));
        }
        Some(whole)
    })
}

fn sum(banks: &[Bank], field: impl Fn(&Bank) -> u64) -> u64 {
    banks.iter().map(field).sum()
}

fn distribution(banks: &[Bank], index: usize) -> Histogram {
    let mut whole = Histogram::new();
    for bank in banks {
        let slots = &bank.distributions[index].slots;
        let counted = Histogram::from_buckets(|slot| bucket(slot, &slots[slot]));
        whole.merge(&counted.without_zero_min());
    }
    whole
}

fn bucket(slot: usize, raw: &raw::bucket) -> Bucket {
    Bucket {
        count: raw.count,
        sum_ns: u128::from(raw.sum_ns),
        // The programs keep none there: 0 cannot be distinguished from "none yet".
        min_ns: if slot == ZERO_SLOT { 0 } else { raw.min_ns },
        max_ns: raw.max_ns,
    }
}

fn refusals(banks: &[Bank]) -> BTreeMap<Verdict, u64> {
    Verdict::ALL
        .into_iter()
        .map(|verdict| {
            let both = |bank: &Bank| {
                bank.refusals
                    .iter()
                    .map(|refused| refused[verdict as usize])
                    .sum()
            };
            (verdict, sum(banks, both))
        })
        .collect()
}

fn lost(banks: &[Bank]) -> Lost {
    let of = |loss: raw::loss::Type| sum(banks, |bank| bank.losses[loss as usize]);
    Lost {
        ring: of(raw::loss::LOSS_RING),
        evicted: of(raw::loss::LOSS_EVICTED),
        unmatched: of(raw::loss::LOSS_UNMATCHED),
        flows: of(raw::loss::LOSS_FLOW),
        mptcp: of(raw::loss::LOSS_MPTCP),
        host_path: of(raw::loss::LOSS_HOST_PATH),
        neighbours: of(raw::loss::LOSS_NEIGHBOUR),
        turned_away: of(raw::loss::LOSS_TURNED_AWAY),
        groups: of(raw::loss::LOSS_GROUP),
        datagrams: of(raw::loss::LOSS_DATAGRAM),
        // The kernel counts these, and the session those.
        skipped: 0,
        not_adopted: 0,
    }
}
