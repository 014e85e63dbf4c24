//! Find news that a service sends unasked: lines of a chat, signs of life. Some of them look like a
//! late answer: they come to programs that have sent something since, at a time of their own or as
//! a reply to the last of them.
//!
//! Pieces of an answer look alike on a connection. They fill segments, or have a pace, or their
//! program asks again at once when it has the last of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::name::Name;
use sockstamp_model::wait::End;

use super::pushes::are_alike;
use crate::diagnosis::slow::{Moment, Role, Slow, Socket};
use crate::diagnosis::tree::Node;

/// As few show nothing.
const LEAST: usize = 3;
/// A sign of life comes after a pause of so many times what is slow.
const LONG: u64 = 10;
/// A segment's bytes, where nothing is said of them: what is more is no line and no sign of life.
const SEGMENT: u64 = 1448;

/// Waits of a program for a service, by their places.
#[derive(Default)]
struct Talk {
    /// Waits for data that came unasked, or as a piece of an answer.
    more: Vec<usize>,
    /// Waits for data that looks like answers.
    answers: Vec<usize>,
}

/// Note what programs wait for at services that send at a pace of their own, and what comes after
/// their replies to that. `waits`: before the pauses of an answer are joined.
pub(in crate::diagnosis) fn note(waits: &mut [Slow], slow: Nanos) {
    let mut talks = BTreeMap::<(&Name, SocketAddr), Talk>::new();
    for (of, wait) in waits.iter().enumerate().filter(|(_, wait)| may_be(wait)) {
        let talk = talks.entry((&wait.key.program, wait.key.service));
        let talk = talk.or_default();
        match wait.key.root {
            Node::Answer => talk.answers.push(of),
            _ => talk.more.push(of),
        }
    }
    let mut news = Vec::new();
    for mut talk in talks.into_values() {
        let replies = replies(waits, &talk, slow);
        talk.answers.retain(|of| !replies.contains(of));
        if keeps_its_pace(waits, &talk) {
            news.extend(talk.more);
            news.extend(talk.answers);
        }
        news.extend(replies);
    }
    for of in news {
        waits[of].seen.for_news = true;
    }
}

/// Mark these as `open`.
pub(in crate::diagnosis) fn mark(waits: &[Slow], open: &mut [bool]) {
    for (wait, open) in waits.iter().zip(open) {
        *open |= wait.seen.for_news;
    }
}

fn may_be(wait: &Slow) -> bool {
    let comes = match wait.key.root {
        Node::Answer => !wait.asks_name(),
        Node::Rest => wait.is_mostly(Node::RestPeer),
        Node::Greeting => true,
        _ => false,
    };
    comes && wait.key.role == Role::Asks && !wait.is_failure() && !wait.is_unacknowledged()
}

/// Return when waits ended, by connection.
fn ends<'a>(waits: impl Iterator<Item = &'a Slow>) -> BTreeMap<Socket, Vec<Moment>> {
    let mut ends = BTreeMap::<_, Vec<_>>::new();
    for wait in waits {
        ends.entry(wait.socket()).or_default().push(wait.end);
    }
    ends.values_mut().for_each(|ends| ends.sort_unstable());
    ends
}

/// Return the time between the last of these ends on a connection and a wait that begins later.
fn pause(wait: &Slow, ends: &BTreeMap<Socket, Vec<Moment>>) -> Option<u64> {
    let ends = ends.get(&wait.socket())?;
    let before = ends.partition_point(|end| *end <= wait.begin);
    let last = ends[..before].last()?;
    Some(wait.begin - last)
}

/// Return what was asked at once after something small had come on its connection, which had been
/// silent for a while.
fn replies(waits: &[Slow], talk: &Talk, slow: Nanos) -> BTreeSet<usize> {
    let is_sign = |wait: &&Slow| {
        wait.how == End::Data
            && wait.seen.bytes <= SEGMENT
            && wait.time().max(wait.seen.age) >= slow.0.saturating_mul(LONG)
    };
    let signs = ends(talk.more.iter().map(|&of| &waits[of]).filter(is_sign));
    let is_reply = |of: &usize| pause(&waits[*of], &signs).is_some_and(|pause| pause <= slow.0);
    talk.answers.iter().copied().filter(is_reply).collect()
}

/// Return true if what comes unasked is half as much as what looks like answers, has a third of the
/// time, and both come in small parts at times of all lengths.
fn keeps_its_pace(waits: &[Slow], talk: &Talk) -> bool {
    let times = |of: &[usize]| {
        let ended = of.iter().map(|&of| &waits[of]);
        let ended = ended.filter(|wait| wait.how == End::Data);
        ended.map(Slow::time).collect::<Vec<_>>()
    };
    let (more, answers) = (times(&talk.more), times(&talk.answers));
    let unasked: u64 = more.iter().sum();
    let are_small = |of: &[usize]| of.iter().all(|&of| waits[of].seen.bytes <= SEGMENT);
    more.len() >= LEAST
        && more.len() * 2 >= answers.len()
        && unasked.saturating_mul(3) >= answers.iter().sum()
        && are_of_all_lengths(more)
        && (answers.len() < LEAST || are_of_all_lengths(answers))
        && are_small(&talk.more)
        && are_small(&talk.answers)
        && asks_when_it_likes(waits, talk)
}

/// Return true if a program asks a while after what came last on a connection, three times in four.
fn asks_when_it_likes(waits: &[Slow], talk: &Talk) -> bool {
    const PAUSE: u64 = 20_000_000;
    let came = talk.more.iter().chain(&talk.answers);
    let came = ends(came.map(|&of| &waits[of]));
    let answers = talk.answers.iter().map(|&of| &waits[of]);
    let pauses: Vec<_> = answers.filter_map(|wait| pause(wait, &came)).collect();
    let long = pauses.iter().filter(|pause| **pause >= PAUSE).count();
    long > 0 && long * 4 >= pauses.len() * 3
}

/// One is twice as long as another at least, and they have no pace.
fn are_of_all_lengths(mut times: Vec<u64>) -> bool {
    times.sort_unstable();
    let (least, most) = (times.first(), times.last());
    let are_apart = least
        .zip(most)
        .is_some_and(|(least, most)| least * 2 <= *most);
    are_apart && !are_alike(times)
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::flow::Opened;
    use sockstamp_model::stage::Stage;
    use sockstamp_model::wait::Waits;

    use crate::diagnosis::tests::{MS, answer, flow, summary};
    use crate::diagnosis::{Case, Diagnosis, Scope};

    /// Send six clients of a proxy three things of so many bytes, after such times, which differ
    /// from client to client. The first and the last look like answers, as a client sent something
    /// so long before.
    fn told(times: [u64; 3], asked: [u64; 2], bytes: u64) -> Diagnosis {
        let mut case = Case::new(Scope::default());
        let mut older = Vec::new();
        for client in 0..6 {
            let to = flow(&format!("10.0.0.1:{}", 40_000 + client), "10.0.0.1:8000");
            let mut now = 100;
            for (of, time) in times.into_iter().enumerate() {
                let time = time * (2 + client % 3) / 2;
                now += time;
                let mut line = answer(to, "people", now, asked[of / 2] * time / 10);
                line.opened = Some(Opened::Connected);
                line.bytes = bytes;
                if of == 1 {
                    line.stages[Stage::PeerAnswer] = None;
                    line.stages[Stage::PeerRest] = Some(Nanos(time * MS));
                }
                case.message(&line);
            }
            older.push(to.cookie);
        }
        case.waits(&Waits {
            older,
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    /// As a chat of few words behind a proxy.
    #[test]
    fn what_comes_at_its_own_pace_is_no_answer() {
        let chat = told([700, 1_500, 900], [4, 7], 60);
        assert_eq!(chat.findings, []);
        assert!(chat.notes.iter().any(|note| note.contains("news")));
        // Pieces of answers fill segments.
        assert!(!told([700, 1_500, 900], [4, 7], 20_000).findings.is_empty());
    }

    /// Two signs of life come to each of six clients, after so long a silence each; a client sends
    /// something so long after, and gets a line later. Return what is said of answers.
    fn replied(after: u64, silent: u64) -> usize {
        let mut case = Case::new(Scope::default());
        let mut older = Vec::new();
        for client in 0..6 {
            let to = flow(&format!("10.0.0.1:{}", 40_000 + client), "10.0.0.2:8000");
            let mut now = 100;
            for _ in 0..2 {
                now += silent;
                let mut sign = answer(to, "people", now, 0);
                sign.opened = Some(Opened::Connected);
                sign.stages[Stage::PeerAnswer] = None;
                sign.stages[Stage::PeerRest] = Some(Nanos(silent * MS));
                case.message(&sign);
                now += after + 1_180;
                let mut line = answer(to, "people", now, 1_180);
                line.opened = Some(Opened::Connected);
                case.message(&line);
            }
            older.push(to.cookie);
        }
        case.waits(&Waits {
            older,
            ..Waits::default()
        });
        let findings = case.diagnose(&summary()).findings;
        let said = findings.iter().map(|finding| &finding.sentence);
        said.filter(|said| said.contains("to answer")).count()
    }

    #[test]
    fn a_reply_to_a_sign_of_life_waits_for_nothing() {
        assert_eq!(replied(1, 1_400), 0);
        // A program that sends something a while later asks for it.
        assert_eq!(replied(300, 1_400), 1);
    }
}
