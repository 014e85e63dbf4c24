//! Answers over UDP that come in fragments, of which some are lost: what came of them waits in this
//! host for the rest.

use std::collections::BTreeMap;

use sockstamp_model::flow::{NetnsInode, Protocol};
use sockstamp_model::wait::End;

use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// As many questions without an answer show something.
const LEAST: u64 = 3;

/// Return true for a question over UDP whose answer may have been lost in part.
pub(in crate::diagnosis) fn may_be(wait: &Slow) -> bool {
    let is_unanswered = matches!(wait.how, End::GivenUp | End::AskedAgain | End::TimedOut);
    is_unanswered && wait.flow.protocol == Protocol::Udp && wait.key.root == Node::Answer
}

/// Give such questions of a namespace to its datagrams that lack a fragment, if there are half as
/// many. `missing`: their number at the end, by namespace.
pub(in crate::diagnosis) fn give(waits: &mut [Slow], missing: &BTreeMap<NetnsInode, u64>) {
    let mut unanswered = BTreeMap::<NetnsInode, u64>::new();
    for wait in waits.iter().filter(|wait| may_be(wait)) {
        *unanswered.entry(wait.flow.netns).or_default() += 1;
    }
    for wait in waits.iter_mut().filter(|wait| may_be(wait)) {
        let (netns, peer) = (wait.flow.netns, Node::AnswerPeer);
        let missing = missing.get(&netns).copied().unwrap_or(0);
        let unanswered = unanswered[&netns];
        if missing > 0 && unanswered >= LEAST && missing.saturating_mul(2) >= unanswered {
            wait.parts.give(|node| node == peer, Node::AnswerFragments);
            wait.seen.fragments = missing;
        }
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::wait::{Kind, Waits};

    use super::*;
    use crate::diagnosis::tests::{flow, summary, tried, wait};
    use crate::diagnosis::{Case, Scope};

    /// Six look-ups that were given up, while so many datagrams lack a fragment.
    fn told(missing: u64) -> String {
        let look_up = |of: u64| {
            let mut one = wait(Kind::Answer, End::GivenUp, of * 1_100, 1_000);
            one.flow = flow("10.0.0.1:40000", "10.0.0.2:53");
            one.flow.protocol = Protocol::Udp;
            one
        };
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: (0..6).map(look_up).collect(),
            attempts: vec![tried(Kind::Answer, "10.0.0.2:53", 12, 6)],
            ..Waits::default()
        });
        assert_eq!(case.unanswered(), [7].into());
        case.fragments(NetnsInode(1), missing);
        case.diagnose(&summary()).findings[0].sentence.clone()
    }

    #[test]
    fn fragments_that_are_missing_tell_why_no_answer_came() {
        let said = told(6);
        assert!(
            said.contains("answers come in fragments")
                && said.contains("those of 6 datagrams of which some are missing"),
            "{said}"
        );
    }

    /// As of another program whose fragments were lost once, or of none.
    #[test]
    fn few_fragments_tell_nothing_of_many_questions() {
        for few in [0, 2] {
            let said = told(few);
            assert!(!said.contains("fragments"), "{said}");
        }
    }
}
