//! Queues of this host's devices on the way to a peer: what no event of the socket shows.

use sockstamp_model::clock::Nanos;
use sockstamp_model::name::Name;

use super::slow::Slow;
use super::tree::Node;

/// The queue of a device through which the way to a peer leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// The device, with its namespace.
    pub device: Name,
    /// The bytes that waited there at most looks.
    pub bytes: u64,
    /// The time that the device needs for them.
    pub time: Nanos,
}

/// Give the time of the queue to its device. The smallest round trip has it, too, if the queue
/// never was empty.
pub(super) fn give(wait: &mut Slow, backlog: &Backlog) {
    let mut left = backlog.time.0;
    for from in [Node::AnswerPeer, Node::AnswerPath] {
        let part = wait.parts.of(from).min(left);
        wait.parts.shift(from, Node::AnswerDevice, part);
        left -= part;
    }
    if wait.parts.of(Node::AnswerDevice) > 0 {
        wait.seen.backlog = Some(backlog.clone());
    }
}
