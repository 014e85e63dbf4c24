//! Pauses within one answer: they are one wait, for the peer, or for the recovery from losses.

use sockstamp_model::clock::Nanos;

use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// Make the pauses within one answer one wait; return the places of those after the first. `found`:
/// the waits of one connection in their order; `gap`: the most between two pauses, until what came
/// is read; `rtt`: the least round trip.
pub(super) fn join(waits: &mut [Slow], found: &[usize], gap: Nanos, rtt: u64) -> Vec<usize> {
    let rests = found.iter().copied();
    let rests: Vec<_> = rests
        .filter(|&of| waits[of].key.root == Node::Rest)
        .collect();
    let recovery = recovery(waits, &rests, rtt);
    for of in recovery {
        let parts = &mut waits[of].parts;
        parts.give(|node| node == Node::RestPeer, Node::RestHeld);
    }
    let mut joined = Vec::new();
    let mut first: Option<usize> = None;
    for of in rests {
        let goes_on = |&first: &usize| waits[of].begin <= waits[first].end.saturating_add(gap.0);
        let Some(to) = first.filter(goes_on) else {
            first = Some(of);
            continue;
        };
        let piece = waits[of].clone();
        let whole = &mut waits[to];
        whole.end = whole.end.max(piece.end);
        whole.parts.merge(&piece.parts);
        whole.seen.members += 1;
        joined.push(of);
    }
    joined
}

/// Return the pauses of two round trips at most beside missing segments: a sender that has lost
/// some sends them again, and few others, in a round trip each.
fn recovery(waits: &[Slow], rests: &[usize], rtt: u64) -> Vec<usize> {
    let is_held = |place: usize| {
        let wait = rests.get(place).map(|&of| &waits[of]);
        wait.is_some_and(|wait| wait.parts.of(Node::RestHeld) > 0)
    };
    let is_short = |&of: &usize| waits[of].parts.of(Node::RestPeer) <= rtt.saturating_mul(2);
    let places = rests.iter().copied().enumerate();
    let beside = places.filter(|&(place, _)| (place.saturating_sub(1)..=place + 1).any(is_held));
    beside.map(|(_, of)| of).filter(is_short).collect()
}
