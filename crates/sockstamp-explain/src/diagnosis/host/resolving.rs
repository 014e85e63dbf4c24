//! Waits for the link address of a next hop, and whose address that is.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::NetnsInode;

use crate::diagnosis::evidence::neighbour::NextHop;
use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// By namespace and peer.
pub(in crate::diagnosis) type NextHops = BTreeMap<(NetnsInode, IpAddr), NextHop>;

/// Return true for a wait that a packet has spent in the queue of its next hop.
pub(in crate::diagnosis) fn has_waited(wait: &Slow) -> bool {
    wait.parts.of(Node::ConnectResolving) > 0 || wait.parts.of(Node::DeliveryResolving) > 0
}

/// Note the next hops of such waits.
pub(in crate::diagnosis) fn note(waits: &mut [Slow], next_hops: &NextHops) {
    for wait in waits.iter_mut().filter(|wait| has_waited(wait)) {
        let next_hop = next_hops.get(&(wait.flow.netns, wait.peer()));
        wait.seen.next_hop = next_hop.cloned();
    }
}
