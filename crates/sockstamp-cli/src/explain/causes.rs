//! Look for a cause, and for another one without the messages of the first.

use anyhow::Result;
use sockstamp_explain::{
    Addition, Border, Cause, Claim, Comparison, Excess, Explanation, Kind, Least, Lives, Slices,
    Times,
};
use sockstamp_model::message::Message;
use sockstamp_record::Detail;

use super::failed::Failed;

/// Causes that are looked for in each kind of messages.
const CAUSES: usize = 3;

/// Pass all messages, with at least these columns.
pub(super) trait Each: Fn(Detail, &mut dyn FnMut(&Message)) -> Result<()> {}

impl<T: Fn(Detail, &mut dyn FnMut(&Message)) -> Result<()>> Each for T {}

/// The reasons of slow messages of a kind: the first slice, and slices that cannot be distinguished
/// from it.
pub(super) struct Explained {
    pub(super) explanation: Explanation,
    pub(super) leaders: Vec<Addition>,
    /// Slow messages of the cause, the fastest first.
    pub(super) lives: Vec<Message>,
    /// Messages of causes that are reported before are left out.
    pub(super) rest: bool,
}

impl Explained {
    fn cause(&self) -> Option<Cause> {
        cause(&self.explanation, &self.leaders)
    }
}

/// Return the cause that is concluded. A slice that chance may have made is none of it.
fn cause(explanation: &Explanation, leaders: &[Addition]) -> Option<Cause> {
    let leader = leaders.first().filter(|leader| leader.is_beyond_chance());
    Cause::new(explanation, leader)
}

/// Explain each kind of messages; `each` passes all messages, with the given columns, several
/// times. Further causes follow the first of their kind. Connections that failed are counted.
pub(super) fn of(
    border: Border,
    least: Least,
    each: impl Each,
) -> Result<(Vec<Explained>, Failed)> {
    let (mut all, failed) = explain(border, least, &Kind::ALL, &[], &each)?;
    let mut causes: Vec<Cause> = all.iter().filter_map(Explained::cause).collect();
    let mut kinds: Vec<Kind> = causes.iter().map(Cause::kind).collect();
    for _ in 1..CAUSES {
        if kinds.is_empty() {
            break;
        }
        let (found, _) = explain(border, least, &kinds, &causes, &each)?;
        let found = found.into_iter().map(|explained| Explained {
            rest: true,
            ..explained
        });
        let found: Vec<_> = found
            .filter(|explained| explained.cause().is_some())
            .collect();
        let next = found.iter().filter_map(Explained::cause);
        kinds = found
            .iter()
            .map(|explained| explained.explanation.kind)
            .collect();
        causes.extend(next);
        all.extend(found);
    }
    // Stable: the first cause comes first.
    all.sort_by_key(|explained| explained.explanation.kind);
    Ok((all, failed))
}

/// Explain messages of these kinds that none of these causes covers.
fn explain(
    border: Border,
    least: Least,
    kinds: &[Kind],
    causes: &[Cause],
    each: &impl Each,
) -> Result<(Vec<Explained>, Failed)> {
    // Other causes may cover messages of one peer only.
    let durations = match causes {
        [] => Detail::Durations,
        _ => Detail::Dimensions,
    };
    let is_left = |kind: Kind, message: &Message| {
        let mut causes = causes.iter().filter(|cause| cause.kind() == kind);
        !causes.any(|cause| cause.covers(message))
    };
    let mut times: Vec<(Kind, Times)> =
        kinds.iter().map(|&kind| (kind, Times::new(kind))).collect();
    let mut failed = Failed::default();
    each(durations, &mut |message| {
        failed.add(message);
        let left = times.iter_mut().filter(|(kind, _)| is_left(*kind, message));
        left.for_each(|(_, times)| times.add(message));
    })?;
    let mut excesses: Vec<(Kind, Excess)> = times
        .into_iter()
        .filter_map(|(kind, times)| Some((kind, Excess::new(kind, times.limits(border)?))))
        .collect();
    each(durations, &mut |message| {
        let left = excesses
            .iter_mut()
            .filter(|(kind, _)| is_left(*kind, message));
        left.for_each(|(_, excess)| excess.add(message));
    })?;
    let explanations =
        (excesses.into_iter()).map(|(_, excess)| excess.of_at_least(least).explanation());
    let explanations: Vec<_> = explanations.collect();
    let found = slices(&explanations, |detail, take| {
        each(detail, &mut |message| {
            take(message, &|kind| is_left(kind, message))
        })
    })?;
    let explained = explanations.into_iter().zip(found);
    let explained = explained.map(|(explanation, (leaders, lives))| {
        let cause = cause(&explanation, &leaders);
        Explained {
            explanation,
            leaders,
            lives: cause.map_or_else(Vec::new, |cause| cause.typical(lives)),
            rest: false,
        }
    });
    Ok((explained.collect(), failed))
}

/// Take a message, and whether it belongs to a kind.
type Take<'a> = &'a mut dyn FnMut(&Message, &dyn Fn(Kind) -> bool);

/// Find the slices of messages that the first components make slow, and slow messages.
fn slices(
    explanations: &[Explanation],
    each: impl Fn(Detail, Take<'_>) -> Result<()>,
) -> Result<Vec<(Vec<Addition>, Lives)>> {
    let slices_of = |explanation: &Explanation| {
        let is_seen = !matches!(explanation.claim, Claim::Small | Claim::NoneSlow);
        let first = explanation.carried.first().filter(|_| is_seen)?;
        Some(Slices::new(explanation, *first))
    };
    let mut slices: Vec<Option<Slices>> = explanations.iter().map(slices_of).collect();
    if slices.iter().flatten().next().is_none() {
        return Ok(explanations.iter().map(|_| Default::default()).collect());
    }
    each(Detail::Dimensions, &mut |message, is_left| {
        let left = slices
            .iter_mut()
            .flatten()
            .filter(|slices| is_left(slices.kind()));
        left.for_each(|slices| slices.add(message));
    })?;
    let mut comparisons: Vec<Option<Comparison>> = slices
        .into_iter()
        .map(|slices| slices.map(Slices::compare))
        .collect();
    each(Detail::All, &mut |message, is_left| {
        let left = comparisons.iter_mut().flatten();
        let left = left.filter(|comparison| is_left(comparison.kind()));
        left.for_each(|comparison| comparison.add(message));
    })?;
    let found = comparisons.into_iter();
    Ok(found
        .map(|comparison| comparison.map(Comparison::finish).unwrap_or_default())
        .collect())
}
