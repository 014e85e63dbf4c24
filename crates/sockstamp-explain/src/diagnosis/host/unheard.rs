//! Waits that nothing from the peer has ended, and next hops that do not answer to their addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::NetnsInode;
use sockstamp_model::wait::End;

use crate::diagnosis::evidence::neighbour::Neighbour;
use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// By namespace and peer.
pub(in crate::diagnosis) type Neighbours = BTreeMap<(NetnsInode, IpAddr), Neighbour>;

/// Return true for a wait that nothing from the peer has ended: its way may be at fault.
pub(in crate::diagnosis) const fn is_unheard(wait: &Slow) -> bool {
    let ends = matches!(
        wait.how,
        End::Open | End::GivenUp | End::TimedOut | End::Unreachable | End::AskedAgain
    );
    ends && matches!(
        wait.key.root,
        Node::Connect | Node::Answer | Node::Delivery | Node::Greeting
    )
}

/// Give waits that nothing from the peer has ended to a next hop that does not answer. One whose
/// link address was set is noted where it is the peer's, who has `answered` nothing: the address
/// may be wrong. Others may be reached by that of a gateway.
pub(in crate::diagnosis) fn give(
    waits: &mut [Slow],
    neighbours: &Neighbours,
    answered: impl Fn(IpAddr) -> bool,
) {
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
        if neighbour.is_set {
            let is_peers = neighbour.address == wait.peer();
            let may_be_wrong = is_peers && !wait.seen.heard && !answered(wait.peer());
            wait.seen.set_neighbour = may_be_wrong.then(|| neighbour.clone());
            continue;
        }
        wait.parts.give(|_| true, node);
        wait.seen.neighbour = Some(neighbour.clone());
    }
}
