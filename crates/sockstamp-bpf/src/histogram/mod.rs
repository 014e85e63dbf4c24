//! From the kernel's banks to the model's summary.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::{Lost, Summary};
use sockstamp_model::verdict::Verdict;

use crate::plan::{Plan, Way};
use crate::record::{Bank, raw};

/// Sums the banks. A stage that the plan does not have stays absent, with its reason.
pub(crate) fn summary(banks: &[Bank], plan: &Plan) -> Summary {
    let mut summary = Summary {
        absent: plan.absent().map(|(stage, why)| (stage, why.to_owned())).collect(),
        verdicts: verdicts(banks),
        lost: lost(banks),
        ..Summary::default()
    };
    for direction in [Direction::Tx, Direction::Rx] {
        let index = direction as usize;
        let result = summary.direction_mut(direction);
        result.messages = sum(banks, |bank| bank.messages[index]);
        result.bytes = sum(banks, |bank| bank.bytes[index]);
        result.total = histogram(banks.iter().map(|bank| &bank.totals[index]));
        for stage in Stage::ALL.into_iter().filter(|stage| stage.direction() == direction) {
            result.stages[stage] = matches!(plan.stages[stage], Way::Hooks(_))
                .then(|| histogram(banks.iter().map(|bank| &bank.stages[stage as usize])));
        }
    }
    summary.tx.retransmits = sum(banks, |bank| bank.retransmits);
    let ended: u64 = summary.verdicts.values().sum();
    summary.in_flight = (summary.tx.messages + summary.rx.messages).saturating_sub(ended);
    summary
}

fn sum(banks: &[Bank], field: impl Fn(&Bank) -> u64) -> u64 {
    banks.iter().map(field).sum()
}

fn histogram<'a>(parts: impl Iterator<Item = &'a raw::histogram>) -> Histogram {
    let mut whole = Histogram::new();
    for part in parts {
        whole.merge(&Histogram::from_parts(
            &part.slots,
            u128::from(part.sum_ns),
            Nanos(part.max_ns),
        ));
    }
    whole
}

fn verdicts(banks: &[Bank]) -> BTreeMap<Verdict, u64> {
    Verdict::ALL
        .into_iter()
        .map(|verdict| (verdict, sum(banks, |bank| bank.verdicts[verdict as usize])))
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
    }
}
