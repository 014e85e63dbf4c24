//! What a single message waited for.

use sockstamp_model::message::Message;

use crate::diagnosis::descent::deepest;
use crate::diagnosis::source::of_message;
use crate::diagnosis::tree::Node;

/// Return the deepest node of the longest wait that a message shows. The evidence is its own alone:
/// [`Case`](crate::diagnosis::Case) knows more of many.
#[must_use]
pub fn of_one(message: &Message) -> Option<Node> {
    let longest = of_message(message)
        .into_iter()
        .max_by_key(|wait| wait.time());
    longest.map(|wait| deepest(&wait.parts, wait.key.root).node)
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::fixture;
    use sockstamp_model::part::Part;
    use sockstamp_model::stage::{Direction, Stage};

    use super::*;
    use crate::diagnosis::tests::at;

    #[test]
    fn a_message_names_what_its_longest_wait_was_for() {
        let mut message = fixture::message(Direction::Rx);
        (message.stamps.ready, message.stamps.read) = (at(100), at(140));
        message.stages[Stage::RxApp] = Some(Nanos::from_millis(40));
        message.parts[Part::Running] = Some(Nanos::from_millis(30));
        assert_eq!(of_one(&message), Some(Node::ReadRunning));
        message.stages[Stage::PeerAnswer] = Some(Nanos::from_millis(90));
        message.parts[Part::Network] = Some(Nanos::from_millis(80));
        assert_eq!(of_one(&message), Some(Node::AnswerPath));
    }
}
