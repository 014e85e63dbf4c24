//! Transfers in steps: exchanges that follow each other at once on a connection, of which each
//! takes the smallest round trip and moves more than a question and a short answer. A window of the
//! programs' own is full, or each piece is asked for.
//!
//! Steps that move less are questions one after the other, of which messages tell (`trips`).

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::{End, Kind, Wait};

use crate::diagnosis::slow::{Slow, Socket};
use crate::diagnosis::source::of_wait;
use crate::diagnosis::tree::Node;

/// TCP's own first window, in segments (TCP_INIT_CWND, include/net/tcp.h, v6.18): who moves less in
/// a round trip has no more to move.
const SEGMENTS: u64 = 10;

/// A segment where its size is not known.
const SEGMENT: u64 = 1448;

/// Return true for a series of exchanges.
pub(in crate::diagnosis) const fn is_series(wait: &Wait) -> bool {
    matches!(wait.kind, Kind::Answer) && matches!(wait.end, End::Data) && wait.members > 1
}

/// Return a series as one wait, if it is a transfer.
pub(in crate::diagnosis) fn of(wait: &Wait) -> Option<Slow> {
    let mut slow = of_wait(wait);
    let segment = match slow.seen.segment {
        0 => SEGMENT,
        segment => segment.into(),
    };
    let steps = u64::from(wait.members);
    slow.parts
        .give(|node| node == Node::AnswerPeer, Node::AnswerSteps);
    slow.seen.questions = wait.members;
    slow.seen.members = 1;
    (wait.bytes >= steps.saturating_mul(segment * SEGMENTS)).then_some(slow)
}

/// Join series of a connection that follow each other at once.
pub(in crate::diagnosis) fn joined(series: &[Slow], slow: Nanos) -> Vec<Slow> {
    let mut sockets = BTreeMap::<Socket, Vec<&Slow>>::new();
    for one in series {
        sockets.entry(one.socket()).or_default().push(one);
    }
    let mut joined: Vec<Slow> = Vec::new();
    for mut series in sockets.into_values() {
        series.sort_unstable_by_key(|one| one.begin);
        let begin = joined.len();
        for one in series {
            match joined[begin..].last_mut() {
                Some(last) if one.begin <= last.end.saturating_add(slow.0) => add(last, one),
                _ => joined.push(one.clone()),
            }
        }
    }
    joined
}

fn add(whole: &mut Slow, next: &Slow) {
    let gap = next.begin.saturating_sub(whole.end);
    whole.parts.add(Node::AnswerSteps, gap);
    whole.parts.merge(&next.parts);
    whole.end = whole.end.max(next.end);
    whole.seen.questions = whole.seen.questions.saturating_add(next.seen.questions);
    whole.seen.bytes = whole.seen.bytes.saturating_add(next.seen.bytes);
}

/// Leave out waits that are parts of transfers.
pub(in crate::diagnosis) fn replace(waits: &mut Vec<Slow>, transfers: &[Slow]) {
    let is_of = |wait: &Slow, whole: &Slow| {
        wait.socket() == whole.socket() && wait.overlap(whole) * 2 > wait.time()
    };
    waits.retain(|wait| {
        let is_part = matches!(wait.key.root, Node::Answer | Node::Rest | Node::Request);
        let is_part = is_part && !wait.is_failure();
        !(is_part && transfers.iter().any(|whole| is_of(wait, whole)))
    });
}

#[cfg(test)]
mod tests {
    use sockstamp_model::wait::{Connection, Evidence, Waits};

    use super::*;
    use crate::diagnosis::tests::{MS, summary, wait};
    use crate::diagnosis::{Case, Scope};

    /// Series that begin then and last so long, of steps of 60 ms that move so much.
    fn told(series: &[(u64, u64)], bytes: u64) -> Vec<String> {
        let series = series.iter().map(|&(begin, lasted)| {
            let mut one = wait(Kind::Answer, End::Data, begin, lasted);
            one.members = u32::try_from(lasted / 60).unwrap();
            one.bytes = u64::from(one.members) * bytes;
            one.evidence = Evidence {
                connection: Some(Connection {
                    min_rtt: Some(Nanos(60 * MS)),
                    segment: 1448,
                    ..Connection::default()
                }),
                ..Evidence::default()
            };
            one
        });
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: series.collect(),
            ..Waits::default()
        });
        let found = case.diagnose(&summary()).findings;
        found.into_iter().map(|found| found.sentence).collect()
    }

    /// As a download by HTTP/2 over a long path.
    #[test]
    fn a_window_that_is_full_once_in_a_round_trip_is_the_limit() {
        let said = told(&[(1_000, 1_020), (2_021, 1_020), (3_500, 600)], 32_768);
        assert_eq!(
            said,
            [
                "transfers between app and 10.0.0.2:6379 take 2.04 s step by step (2 waits, at most \
                 2.04 s): each step of a transfer waits for a message of the other end, once in a round \
                 trip: a window of the programs' own (HTTP/2, SSH), or a question for each piece: 32 kB \
                 in each round trip, which takes 60.0 ms at least, 545 kB a second"
            ]
        );
    }

    /// As small questions, of which messages tell, and a short page.
    #[test]
    fn small_steps_and_one_short_series_are_none() {
        assert_eq!(told(&[(1_000, 1_020), (2_021, 1_020)], 2_000), [""; 0]);
        assert_eq!(told(&[(1_000, 660)], 32_768), [""; 0]);
    }
}
