//! Connections that are opened for one request each: the connect, a handshake such as TLS's, and
//! the request are one wait.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::End;

use crate::diagnosis::slow::{Key, Slow, Socket};
use crate::diagnosis::tally::most_at_once;
use crate::diagnosis::tree::Node;

/// More questions on a connection are no handshake.
const MOST: usize = 8;
/// As many connections of a service show that each request opens one, and asks so often.
const LEAST: usize = 3;

/// A connect and the questions after it, by their places.
struct Opening {
    connect: usize,
    questions: Vec<usize>,
}

/// Join what belongs together in each connection; return the places that another has now. `flows`:
/// the waits of each connection, in order.
pub(in crate::diagnosis) fn join<'a>(
    waits: &mut [Slow],
    flows: impl Iterator<Item = &'a Vec<usize>>,
    slow: Nanos,
) -> Vec<usize> {
    let openings = flows.filter_map(|found| opening(waits, found, slow));
    let openings: Vec<_> = openings.collect();
    let mut long = BTreeMap::<Key, usize>::new();
    let asks_several = |opening: &&Opening| opening.questions.len() > 1;
    for opening in openings.iter().filter(asks_several) {
        *long.entry(waits[opening.connect].key.clone()).or_default() += 1;
    }
    let is_one = |opening: &Opening| {
        let alike = long.get(&waits[opening.connect].key);
        opening.questions.len() == 1 || alike.is_some_and(|alike| *alike >= LEAST)
    };
    let openings: Vec<_> = openings.into_iter().filter(is_one).collect();
    let mut joined = Vec::new();
    for opening in openings {
        joined.extend(merge(waits, &opening, slow));
    }
    joined
}

/// Services for which programs open connections one after the other: none of these is kept for what
/// may come.
pub(in crate::diagnosis) fn on_demand(waits: &[Slow]) -> BTreeSet<Key> {
    let asks = |wait: &&Slow| matches!(wait.key.root, Node::Connect | Node::Answer | Node::Service);
    let mut spans = BTreeMap::<Key, BTreeMap<Socket, (u64, u64)>>::new();
    for wait in waits.iter().filter(asks).filter(|wait| wait.is_new) {
        let sockets = spans.entry(of_question(&wait.key)).or_default();
        let span = sockets
            .entry(wait.socket())
            .or_insert((wait.begin, wait.end));
        *span = (span.0.min(wait.begin), span.1.max(wait.end));
    }
    let follows = |spans: &BTreeMap<Socket, (u64, u64)>| {
        let most = most_at_once(spans.values().copied());
        spans.len() >= LEAST && most * 2 <= spans.len()
    };
    let spans = spans.into_iter().filter(|(_, spans)| follows(spans));
    spans.map(|(key, _)| key).collect()
}

/// Connects are made for answers.
fn of_question(key: &Key) -> Key {
    match key.root {
        Node::Connect => Key {
            root: Node::Answer,
            ..key.clone()
        },
        _ => key.clone(),
    }
}

/// Return what a connection was opened for: one question, or several one after the other, which
/// mostly wait for the path. What waits for the peer may be a program that polls for news.
fn opening(waits: &[Slow], found: &[usize], slow: Nanos) -> Option<Opening> {
    let of_root = |root: Node| {
        let all = found.iter().copied();
        all.filter(move |&of| waits[of].key.root == root)
    };
    let mut connects = of_root(Node::Connect);
    let (connect, None) = (connects.next()?, connects.next()) else {
        return None;
    };
    let questions: Vec<_> = of_root(Node::Answer).collect();
    if waits[connect].how.is_failure() || questions.is_empty() || questions.len() > MOST {
        return None;
    }
    let rtt = waits[connect].parts.of(Node::ConnectPath);
    let mut last = waits[connect].end;
    for &of in &questions {
        let gap = waits[of].begin.saturating_sub(last);
        if gap > slow.0 && !is_round_trip(gap, rtt) {
            return None;
        }
        last = waits[of].end;
    }
    let is_for_one = questions.len() == 1 || is_path(waits, connect, &questions);
    is_for_one.then_some(Opening { connect, questions })
}

/// A question between may not have been measured, where messages are sampled.
const fn is_round_trip(gap: u64, rtt: u64) -> bool {
    gap >= rtt && gap <= rtt + rtt / 4
}

/// Return true if all were answered, and half of their time is the path.
fn is_path(waits: &[Slow], connect: usize, questions: &[usize]) -> bool {
    let all = || questions.iter().chain([&connect]).map(|&of| &waits[of]);
    let of = |node| all().map(|wait| wait.parts.of(node)).sum::<u64>();
    let path = of(Node::AnswerPath) + of(Node::ConnectPath);
    let whole: u64 = all().map(Slow::time).sum();
    all().all(|wait| wait.how == End::Data) && path.saturating_mul(2) >= whole
}

/// Make it one wait, of the node that lost more; return the places of the others.
fn merge(waits: &mut [Slow], opening: &Opening, slow: Nanos) -> Vec<usize> {
    let [first, others @ ..] = &opening.questions[..] else {
        return Vec::new();
    };
    let mut whole = waits[*first].clone();
    for &of in others {
        let next = &waits[of];
        whole
            .parts
            .add(Node::AnswerPath, next.begin.saturating_sub(whole.end));
        whole.parts.merge(&next.parts);
        whole.end = next.end;
        whole.how = next.how;
        whole.seen.members += 1;
    }
    let connect = &waits[opening.connect];
    whole.seen.rtt = whole.seen.rtt.or(connect.seen.rtt);
    // Round trips before that of the last answer are those of the opening.
    let path = whole.parts.of(Node::AnswerPath);
    let before = path - path / opening.questions.len() as u64;
    // The answer's own round trip stays the first that is not lost.
    whole
        .parts
        .shift(Node::AnswerPath, Node::ConnectPath, before);
    whole.parts.merge(&connect.parts);
    let gap = whole.begin.saturating_sub(connect.end);
    whole.parts.add(Node::ConnectPath, gap);
    whole.begin = connect.begin;
    whole.seen.members += 1;
    let rtt = whole.seen.rtt.unwrap_or(0);
    let lost = whole.lost(slow, rtt);
    if lost.of(Node::Connect) >= lost.of(Node::Answer) {
        whole.key.root = Node::Connect;
    }
    waits[*first] = whole;
    others.iter().copied().chain([opening.connect]).collect()
}
