//! Connects to services of this host whose accept queues are full: their kernel drops the SYNs.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::flow::NetnsInode;

use crate::diagnosis::evidence::full_queue::FullQueue;
use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// Looks at full queues, by the namespace that asks, and the service.
pub(in crate::diagnosis) type Queues = BTreeMap<(NetnsInode, SocketAddr), Vec<FullQueue>>;

/// Return true for a connect whose SYN was sent again: the peer's queue may be full.
pub(in crate::diagnosis) fn may_be(wait: &Slow) -> bool {
    wait.parts.of(Node::ConnectAgain) > 0
}

/// Give the time of SYNs that were sent again to a queue that was full meanwhile.
pub(in crate::diagnosis) fn give(waits: &mut [Slow], queues: &Queues) {
    for wait in waits.iter_mut().filter(|wait| may_be(wait)) {
        let looks = queues.get(&(wait.flow.netns, wait.key.service));
        let (begin, end) = (wait.begin, wait.end);
        let meanwhile = |look: &&FullQueue| (begin..=end).contains(&look.at.as_nanos());
        let Some(look) = looks.into_iter().flatten().rfind(meanwhile) else {
            continue;
        };
        wait.parts
            .give(|node| node == Node::ConnectAgain, Node::ConnectQueue);
        wait.seen.full_queue = Some(*look);
    }
}
