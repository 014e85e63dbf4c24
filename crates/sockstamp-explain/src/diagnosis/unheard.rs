//! Waits that nothing from the peer has ended, and next hops that do not answer to their addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::NetnsInode;
use sockstamp_model::wait::End;

use super::neighbour::Neighbour;
use super::slow::Slow;
use super::tree::Node;

/// By namespace and peer.
pub(super) type Neighbours = BTreeMap<(NetnsInode, IpAddr), Neighbour>;

/// Return true for a wait that nothing from the peer has ended: its way may be at fault.
pub(super) const fn is_unheard(wait: &Slow) -> bool {
    let ends = matches!(
        wait.how,
        End::Open | End::GivenUp | End::TimedOut | End::Unreachable | End::AskedAgain
    );
    ends && matches!(
        wait.key.root,
        Node::Connect | Node::Answer | Node::Delivery | Node::Greeting
    )
}

/// Give waits that nothing from the peer has ended to a next hop that does not answer.
pub(super) fn give(waits: &mut [Slow], neighbours: &Neighbours) {
    for wait in waits.iter_mut().filter(|wait| is_unheard(wait)) {
        let Some(neighbour) = neighbours.get(&(wait.flow.netns, wait.peer())) else {
            continue;
        };
        let node = match wait.key.root {
            Node::Connect => Node::ConnectNeighbour,
            Node::Delivery => Node::DeliveryNeighbour,
            Node::Answer => Node::AnswerNeighbour,
            _ => continue,
        };
        wait.parts.give(|_| true, node);
        wait.seen.neighbour = Some(neighbour.clone());
    }
}
