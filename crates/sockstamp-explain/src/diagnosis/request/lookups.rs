//! Look-ups that take several questions to a name server, one after the other: who asked waits for
//! the whole, however fast each of them is answered.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::End;

use crate::diagnosis::slow::{Parts, Slow};
use crate::diagnosis::tree::Node;

/// Two are the address of either family; as many are a list of domains, or of names.
const LEAST: usize = 3;
/// A list of domains has six at most (`MAXDNSRCH`, glibc), for two families. Of more questions
/// nobody waits for the whole: they are asked in a loop.
const MOST: usize = 16;

/// Join the questions of each process to a name server of which the next was asked at once.
pub(in crate::diagnosis) fn join(waits: &mut Vec<Slow>, slow: Nanos) {
    let mut askers = BTreeMap::<(u32, SocketAddr), Vec<usize>>::new();
    for (of, wait) in waits.iter().enumerate() {
        let is_answered = wait.key.root == Node::Answer && wait.how == End::Data;
        if is_answered && wait.asks_name() {
            let asker = (wait.pid, wait.key.service);
            askers.entry(asker).or_default().push(of);
        }
    }
    let mut joined = Vec::new();
    for mut asked in askers.into_values() {
        asked.sort_by_key(|&of| waits[of].begin);
        let chains = chains(waits, &asked, slow);
        for chain in chains
            .iter()
            .filter(|chain| (LEAST..=MOST).contains(&chain.len()))
        {
            waits[chain[0]] = whole(waits, chain);
            joined.extend_from_slice(&chain[1..]);
        }
    }
    joined.sort_unstable();
    for of in joined.into_iter().rev() {
        waits.swap_remove(of);
    }
}

/// Each question goes to the chain that ended last before it: threads may ask at once.
fn chains(waits: &[Slow], asked: &[usize], slow: Nanos) -> Vec<Vec<usize>> {
    let mut chains: Vec<Vec<usize>> = Vec::new();
    for &of in asked {
        let begin = waits[of].begin;
        let ends = |chain: &Vec<usize>| chain.last().map(|&last| waits[last].end);
        let goes_on = |end: u64| end <= begin && begin - end <= slow.0;
        let near = chains
            .iter_mut()
            .filter(|chain| ends(chain).is_some_and(goes_on));
        match near.max_by_key(|chain| ends(chain)) {
            Some(chain) => chain.push(of),
            None => chains.push(vec![of]),
        }
    }
    chains
}

fn whole(waits: &[Slow], chain: &[usize]) -> Slow {
    let (first, last) = (&waits[chain[0]], &waits[chain[chain.len() - 1]]);
    let mut whole = first.clone();
    whole.end = last.end;
    let own = first.parts.iter();
    whole.parts = Parts::divide(whole.time(), own, Node::AnswerChain);
    whole.seen.questions = u32::try_from(chain.len()).unwrap_or(u32::MAX);
    whole
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::flow::{Opened, Protocol, SocketCookie};
    use sockstamp_model::message::Message;
    use sockstamp_model::part::Part;

    use crate::diagnosis::tests::{MS, answer, flow, sentence};

    /// Look-ups of so many questions, which take 30 ms each.
    fn looked_up(questions: u64, pause: u64) -> Vec<Message> {
        let question = |of: u64| {
            let mut asks = flow("10.0.0.1:40000", "10.0.0.2:53");
            asks.cookie = SocketCookie(of + 1);
            asks.protocol = Protocol::Udp;
            let (lookup, place) = (of / questions, of % questions);
            let begin = lookup * (questions * 31 + pause) + place * 31;
            let mut question = answer(asks, "curl", begin + 30, 30);
            question.parts[Part::Network] = None;
            question.opened = Some(Opened::Connected);
            question
        };
        (0..questions * 4).map(question).collect()
    }

    #[test]
    fn questions_of_one_look_up_are_one_wait_with_their_count() {
        assert_eq!(
            sentence(&looked_up(5, 500)),
            "curl waits 154 ms for each name from 10.0.0.2:53 (DNS) (4 waits, at most 154 ms): it asks \
             several questions one after the other: 5 questions, of 30.8 ms each; 81 % of what is lost"
        );
        // Names that are found at once, before any domain is added, are no part of the figures.
        let single = looked_up(1, 470).into_iter().map(|mut question| {
            question.flow.cookie = SocketCookie(question.flow.cookie.0 + 100);
            let later = |time| Timestamp::from_nanos(Timestamp::as_nanos(time) + 3_000 * MS);
            question.stamps.ready = question.stamps.ready.map(later);
            question.stamps.read = question.stamps.read.map(later);
            question
        });
        let mixed: Vec<_> = looked_up(5, 500).into_iter().chain(single).collect();
        assert_eq!(sentence(&mixed), sentence(&looked_up(5, 500)));
        for others in [looked_up(2, 500), looked_up(5, 0)] {
            assert!(!sentence(&others).contains("one after the other"));
        }
    }
}
