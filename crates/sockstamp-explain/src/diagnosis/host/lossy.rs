//! Waits that lost packets, and links of this host that went down meanwhile.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::NetnsInode;

use crate::diagnosis::evidence::link::Link;
use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// By namespace and peer.
pub(in crate::diagnosis) type Links = BTreeMap<(NetnsInode, IpAddr), Link>;

/// A link that is down loses what goes either way.
const LOST: [(Node, Node); 5] = [
    (Node::ConnectAgain, Node::ConnectLink),
    (Node::AnswerLoss, Node::AnswerLink),
    (Node::AnswerBack, Node::AnswerLink),
    (Node::DeliveryLoss, Node::DeliveryLink),
    (Node::DeliveryBack, Node::DeliveryLink),
];

/// Return true for a wait in which something was sent again.
pub(in crate::diagnosis) fn is_lossy(wait: &Slow) -> bool {
    LOST.iter().any(|(lost, _)| wait.parts.of(*lost) > 0)
}

/// The least timeout after which TCP sends again (TCP_RTO_MIN, include/net/tcp.h, v6.18).
pub(in crate::diagnosis) const TIMEOUT: u64 = 200_000_000;

/// Return true for an answer that is late by a timeout or more: a message does not show whether its
/// question was sent again.
fn may_be_lossy(wait: &Slow) -> bool {
    wait.parts.of(Node::AnswerPeer) >= TIMEOUT
}

/// Give the time of losses to a link that was down meanwhile.
pub(in crate::diagnosis) fn give(waits: &mut [Slow], links: &Links) {
    for wait in waits {
        let Some(link) = links.get(&(wait.flow.netns, wait.peer())) else {
            continue;
        };
        let was_down = || link.times.iter().any(|time| wait.meets(*time));
        if !is_lossy(wait) && !may_be_lossy(wait) || !was_down() {
            continue;
        }
        for (lost, down) in LOST {
            wait.parts.give(|node| node == lost, down);
        }
        if may_be_lossy(wait) {
            wait.parts
                .give(|node| node == Node::AnswerPeer, Node::AnswerLink);
        }
        wait.seen.link = Some(link.clone());
    }
}
