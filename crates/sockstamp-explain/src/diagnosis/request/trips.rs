//! Questions on one connection, each sent at once after the answer to the one before, and each of
//! which takes a round trip: who asks waits for the whole, and the way there takes the time.
//!
//! A consumer that fetches from a broker, or a worker, always has a question open: a series of
//! questions ends by a pause in which nobody waits for anything.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::End;

use crate::diagnosis::slow::{Key, Parts, Slow, Socket};
use crate::diagnosis::tree::Node;

/// A dialogue of a protocol has fewer (SMTP, the start of a session of a database).
const LEAST: usize = 10;

/// As many series show that a program asks so.
const OFTEN: usize = 3;

/// Join series of such questions, if a service is asked so for most of the time.
pub(in crate::diagnosis) fn join(waits: &mut Vec<Slow>, slow: Nanos) {
    let mut connections = BTreeMap::<(Key, Socket), Vec<usize>>::new();
    for (of, wait) in waits.iter().enumerate() {
        if wait.key.root == Node::Answer && !wait.asks_name() {
            let connection = (wait.key.clone(), wait.socket());
            connections.entry(connection).or_default().push(of);
        }
    }
    let mut services = BTreeMap::<Key, Vec<Vec<usize>>>::new();
    for ((key, _), mut asked) in connections {
        asked.sort_by_key(|&of| waits[of].begin);
        services
            .entry(key)
            .or_default()
            .extend(series(waits, &asked, slow));
    }
    let mut joined = Vec::new();
    for found in services.into_values() {
        if found.len() < OFTEN || !are_most(waits, &found) {
            continue;
        }
        for one in found {
            waits[one[0]] = whole(waits, &one);
            joined.extend_from_slice(&one[1..]);
        }
    }
    joined.sort_unstable();
    for of in joined.into_iter().rev() {
        waits.swap_remove(of);
    }
}

/// Return the series of a connection's questions that a pause ends, or the measurement.
fn series(waits: &[Slow], asked: &[usize], slow: Nanos) -> Vec<Vec<usize>> {
    let is_next = |one: &usize, next: &usize| {
        let pause = waits[*next].begin.saturating_sub(waits[*one].end);
        pause <= slow.0.max(waits[*one].time())
    };
    let found = asked.chunk_by(is_next);
    let is_at_once = |pair: &[usize]| match *pair {
        [one, next] => waits[next].begin.saturating_sub(waits[one].end) <= slow.0,
        _ => true,
    };
    let is_series = |one: &&[usize]| {
        one.len() >= LEAST
            && are_trips(waits, one)
            && one.windows(2).all(is_at_once)
            && !are_ticks(waits, one)
    };
    found.filter(is_series).map(<[usize]>::to_vec).collect()
}

/// Return true for questions at the ticks of a usual rate: their program sends whenever one is due,
/// and what comes back is no answer. Who asks again at once drifts away from any rate.
fn are_ticks(waits: &[Slow], series: &[usize]) -> bool {
    const RATES: [u64; 8] = [20, 25, 30, 50, 60, 64, 100, 128];
    let steps = series.windows(2).filter_map(|pair| match *pair {
        [one, next] => Some(waits[next].begin.saturating_sub(waits[one].begin)),
        _ => None,
    });
    let mut steps: Vec<_> = steps.collect();
    steps.sort_unstable();
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(0);
    let is_at = |rate: &u64| {
        let tick = 1_000_000_000 / rate;
        let mut phases: Vec<_> = series.iter().map(|&of| waits[of].begin % tick).collect();
        phases.sort_unstable();
        let near = |begin: &u64| {
            let is_near = |phase: &&u64| (**phase + tick - begin) % tick <= tick / 10;
            phases.iter().filter(is_near).count()
        };
        let most = phases.iter().map(near).max().unwrap_or(0);
        usual.abs_diff(tick) <= tick / 50 && most * 5 >= phases.len() * 4
    };
    RATES.iter().any(is_at)
}

/// Return true for answers that take little more than the smallest round trip each.
fn are_trips(waits: &[Slow], series: &[usize]) -> bool {
    let all = || series.iter().map(|&of| &waits[of]);
    let path: u64 = all().map(|wait| wait.parts.of(Node::AnswerPath)).sum();
    let whole: u64 = all().map(Slow::time).sum();
    all().all(|wait| wait.how == End::Data) && path.saturating_mul(4) >= whole.saturating_mul(3)
}

/// Return true if these go on for half of the time from the first to the last.
fn are_most(waits: &[Slow], found: &[Vec<usize>]) -> bool {
    let spans = || {
        let ends = |one: &Vec<usize>| {
            let last = one.last()?;
            Some((waits[*one.first()?].begin, waits[*last].end))
        };
        found.iter().filter_map(ends)
    };
    let begin = spans().map(|(begin, _)| begin).min().unwrap_or(0);
    let end = spans().map(|(_, end)| end).max().unwrap_or(0);
    let asking: u64 = spans().map(|(begin, end)| end - begin).sum();
    asking.saturating_mul(2) >= end - begin
}

fn whole(waits: &[Slow], series: &[usize]) -> Slow {
    let all = || series.iter().map(|&of| &waits[of]);
    let mut whole = waits[series[0]].clone();
    whole.end = all().map(|wait| wait.end).max().unwrap_or(whole.end);
    // The first round trip is due.
    let own = whole.parts.iter();
    whole.parts = Parts::divide(whole.time(), own, Node::AnswerTrips);
    whole.weight = all().fold(0, |sum, wait| sum.saturating_add(wait.weight));
    whole.seen.questions = u32::try_from(series.len()).unwrap_or(u32::MAX);
    whole.seen.rtt = all().filter_map(|wait| wait.seen.rtt).min();
    whole
}

#[cfg(test)]
mod tests {
    use sockstamp_model::message::Message;
    use sockstamp_model::part::Part;

    use super::*;
    use crate::diagnosis::tests::{MS, answer, flow, sentence};

    /// Pages of so many questions, with a pause after each; an answer takes so long, and the path
    /// 40 ms of that.
    fn pages(questions: u64, pause: u64, time: u64) -> Vec<Message> {
        let to = flow("10.0.0.1:40000", "10.0.0.2:6379");
        let question = |of: u64| {
            let (page, place) = (of / questions, of % questions);
            let begin = page * (questions * (time + 1) + pause) + place * (time + 1);
            let mut question = answer(to, "shop", begin + time, time);
            question.parts[Part::Network] = Some(Nanos(40 * MS));
            question
        };
        (0..questions * 4).map(question).collect()
    }

    #[test]
    fn questions_one_after_the_other_are_one_wait_with_their_round_trip() {
        assert_eq!(
            sentence(&pages(40, 300, 42)),
            "shop waits 1.72 s for each series of questions to 10.0.0.2:6379 (4 waits, at most 1.72 s): \
             it asks one question after the other, and each takes a round trip: 40 questions, of 43.0 \
             ms each; a round trip takes 40.0 ms at least: fewer questions, or several at once, save \
             them"
        );
    }

    /// As a game's players, who send at the ticks of a clock, and miss one now and then.
    #[test]
    fn questions_at_ticks_are_none() {
        let told = |tick: u64| sentence(&pages(20, 140, tick - 1));
        assert!(!told(50).contains("one question after the other"));
        assert!(told(47).contains("one question after the other"));
    }

    /// Work, a dialogue, a slow service, and a program that mostly does other things.
    #[test]
    fn a_loop_without_pauses_and_short_dialogues_are_none() {
        for others in [
            pages(40, 0, 42),
            pages(40, 30, 42),
            pages(6, 100, 42),
            pages(40, 300, 80),
            pages(12, 2_000, 42),
        ] {
            let said = sentence(&others);
            assert!(!said.contains("one question after the other"), "{said}");
        }
    }
}
