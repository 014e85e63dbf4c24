//! News that a client says it waits for, and that come as more of an answer: the wait is confirmed
//! at once, and the news end it (IDLE of IMAP). Between two of them the client asks for other
//! things, which are answered whole.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;

use super::held;
use crate::diagnosis::slow::{Key, Slow, Socket};
use crate::diagnosis::tally::Tried;
use crate::diagnosis::tree::Node;

/// As few show nothing.
const LEAST: usize = 3;

/// Mark as `open` the rests of answers of services all of whose clients wait for news so: the rests
/// come after times of all lengths, or to all at once.
pub(in crate::diagnosis) fn mark(
    waits: &[Slow],
    open: &mut [bool],
    tried: &BTreeMap<Key, Tried>,
    slow: Nanos,
) {
    let mut keys = BTreeMap::<&Key, BTreeMap<Socket, Vec<usize>>>::new();
    for (of, wait) in waits.iter().enumerate() {
        if wait.key.root == Node::Rest && wait.is_mostly(Node::RestPeer) {
            let connections = keys.entry(&wait.key).or_default();
            connections.entry(wait.socket()).or_default().push(of);
        }
    }
    for (key, mut connections) in keys {
        let all_wait = connections.values_mut().all(|found| {
            found.sort_by_key(|&of| waits[of].begin);
            always_waits(waits, found)
        });
        let found: Vec<_> = connections.into_values().flatten().collect();
        let long = long(waits, &found);
        // A program that reads answers in pieces has as many of these as questions.
        let answers = Key {
            root: Node::Answer,
            ..key.clone()
        };
        let asked = tried.get(&answers).map_or(0, |tried| tried.count);
        let asks_more = asked >= long.len() as u64 * 2;
        let is_news = all_wait && asks_more && may_be_news(waits, &long, slow);
        if is_news && long.len() >= LEAST {
            found.into_iter().for_each(|of| open[of] = true);
        }
    }
}

/// Return those that last a tenth of the longest or more: large answers come in parts on a busy
/// way.
fn long(waits: &[Slow], found: &[usize]) -> Vec<usize> {
    let longest = found.iter().map(|&of| waits[of].time()).max().unwrap_or(0);
    let is_long = |of: &usize| waits[*of].time().saturating_mul(10) >= longest;
    found.iter().copied().filter(is_long).collect()
}

/// Nine tenths of the time from the first to the last of a connection.
fn always_waits(waits: &[Slow], found: &[usize]) -> bool {
    let (Some(&first), Some(&last)) = (found.first(), found.last()) else {
        return false;
    };
    let waited: u64 = found.iter().map(|&of| waits[of].time()).sum();
    let whole = waits[last].end.saturating_sub(waits[first].begin);
    waited.saturating_mul(10) >= whole.saturating_mul(9)
}

fn may_be_news(waits: &[Slow], found: &[usize], slow: Nanos) -> bool {
    let times = || found.iter().map(|&of| waits[of].time());
    let (least, most) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let varies = most.saturating_mul(2) >= least.saturating_mul(3);
    varies || (least >= held::LONG && held::end_as_one(waits, found, slow))
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::flow::Opened;
    use sockstamp_model::stage::Stage;
    use sockstamp_model::wait::{Attempts, Kind, Waits};

    use crate::diagnosis::tests::{MS, answer, flow, summary, tried};
    use crate::diagnosis::{Case, Scope};

    /// Rests of answers that last so long, one after the other, on each of two connections; they
    /// begin so much later on the second one. The clients got so many answers.
    fn findings(times: &[u64], later: u64, answers: u64) -> usize {
        let mut case = Case::new(Scope::default());
        let mut older = Vec::new();
        for of in 0..2 {
            let to = flow(&format!("10.0.0.1:4000{of}"), "10.0.0.2:143");
            let mut now = 100 + of * later;
            for time in times {
                now += time;
                let mut rest = answer(to, "mail", now, 0);
                rest.opened = Some(Opened::Connected);
                rest.stages[Stage::PeerAnswer] = None;
                rest.stages[Stage::PeerRest] = Some(Nanos(time * MS));
                case.message(&rest);
                now += 15;
            }
            older.push(to.cookie);
        }
        let answers = Attempts {
            comm: "mail".into(),
            ..tried(Kind::Answer, "10.0.0.2:143", answers, 0)
        };
        case.waits(&Waits {
            attempts: vec![answers],
            older,
            ..Waits::default()
        });
        case.diagnose(&summary()).findings.len()
    }

    /// As mail that comes to a program that waits for it (IDLE), and then fetches it.
    #[test]
    fn mail_that_comes_is_no_answer_in_pieces() {
        assert_eq!(findings(&[2_000, 2_000, 2_000], 3, 18), 0);
        assert_eq!(findings(&[700, 2_900, 1_400], 300, 18), 0);
        // A client that reads pages one after the other, each in pieces.
        assert_eq!(findings(&[700, 2_900, 1_400], 300, 6), 1);
        assert_eq!(findings(&[2_000, 2_000, 2_000], 300, 18), 1);
    }
}
