//! Tasks that take turns at the connections of a pool. A task of a pool that has room keeps its
//! connection, or finds one that rests; where a question follows at once on a connection, of
//! another task than the one that has just read its answer, that task had waited for it.

use std::collections::BTreeMap;

use crate::diagnosis::slow::{Key, Role, Slow};
use crate::diagnosis::tally::Tried;
use crate::diagnosis::tree::Node;

/// As few are chance.
const LEAST: u64 = 10;

/// Take back what looks like subscriptions where tasks take turns, and name that.
pub(in crate::diagnosis) fn mark(
    waits: &mut [Slow],
    open: &mut [bool],
    tried: &BTreeMap<Key, Tried>,
) {
    let take_turns = |key: &Key| {
        let is_question = key.root == Node::Answer && key.role == Role::Asks;
        let tried = tried.get(key).filter(|_| is_question);
        tried.is_some_and(|of| of.prompted >= LEAST && of.prompted * 4 >= of.count * 3)
    };
    for (wait, open) in waits.iter_mut().zip(open) {
        if wait.is_failure() || wait.seen.questions > 0 || !take_turns(&wait.key) {
            continue;
        }
        *open = false;
        wait.seen.for_news = false;
        wait.parts
            .give(|node| node == Node::AnswerPeer, Node::AnswerTurn);
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::flow::SocketCookie;
    use sockstamp_model::wait::{Attempts, End, Kind, Waits};

    use crate::diagnosis::tests::{MS, summary, tried as attempts, wait};
    use crate::diagnosis::{Case, Diagnosis, Scope};

    /// Two connections with a question of 50 ms each, with such pauses between; of a hundred, so
    /// many were of tasks that had waited for their turn.
    fn told(pause: u64, prompted: u64) -> Diagnosis {
        let question = |of: u64| {
            let mut one = wait(Kind::Answer, End::Data, of / 2 * (50 + pause), 50);
            one.flow.cookie = SocketCookie(1 + of % 2);
            one
        };
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: (0..100).map(question).collect(),
            attempts: vec![Attempts {
                prompted,
                sum_ns: u128::from(100 * 50 * MS),
                min_ns: Nanos(50 * MS),
                ..attempts(Kind::Answer, "10.0.0.2:6379", 100, 0)
            }],
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    #[test]
    fn tasks_that_wait_for_a_connection_are_told() {
        let told = told(1, 96);
        assert_eq!(
            told.findings[0].sentence,
            "10.0.0.2:6379 takes 50.0 ms to answer app (100 of 100, at most 50.0 ms): its tasks wait for \
             their turn: more of them ask than there are connections (a pool that is full); 2 \
             connections always have a question, each of another task than the one before"
        );
        assert_eq!(told.notes, [""; 0]);
    }

    /// As a loop, or a worker, on each connection; and as tasks that find a connection that rests.
    #[test]
    fn a_task_for_each_connection_takes_no_turns() {
        let own = told(1, 0);
        assert_eq!((own.findings.len(), own.notes.len()), (0, 1));
        for few in [told(1, 40), told(100, 20)] {
            let mut said = few.findings.iter().map(|found| &found.sentence);
            assert!(said.all(|sentence| !sentence.contains("turn")), "{few:?}");
        }
    }
}
