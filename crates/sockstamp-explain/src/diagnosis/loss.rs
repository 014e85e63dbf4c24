//! What became of packets that were sent again, by what came twice.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::wait::Sending;

use super::slow::{Slow, Socket};
use super::tree::Node;

/// What became of what was sent again, in sums.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    resent: u64,
    in_vain: u64,
    reordered: u64,
}

impl Fate {
    fn add(&mut self, sending: &Sending) {
        self.resent += u64::from(sending.resent);
        self.in_vain += u64::from(sending.in_vain);
        self.reordered += u64::from(sending.reordered);
    }

    /// Return the nodes of answers and of data that have the time: DSACKs took at least half back.
    const fn nodes(self) -> Option<[Node; 2]> {
        if self.in_vain == 0 || self.in_vain * 2 < self.resent {
            None
        } else if self.reordered > 0 {
            Some([Node::AnswerOvertaken, Node::DeliveryOvertaken])
        } else {
            Some([Node::AnswerBack, Node::DeliveryBack])
        }
    }
}

/// Fates by connection, and by the path of others.
pub(super) struct Fates {
    sockets: BTreeMap<Socket, Fate>,
    peers: BTreeMap<(NetnsInode, IpAddr), Fate>,
}

impl Fates {
    pub(super) fn new(sending: &BTreeMap<Socket, Sending>) -> Self {
        let mut sockets = BTreeMap::<_, Fate>::new();
        let mut peers = BTreeMap::<_, Fate>::new();
        for (socket, sending) in sending.iter().filter(|(_, sending)| sending.resent > 0) {
            let peer = (sending.flow.netns, canonical(sending.flow.remote).ip());
            peers.entry(peer).or_default().add(sending);
            sockets.entry(*socket).or_default().add(sending);
        }
        Self { sockets, peers }
    }

    /// Give the time of losses to what it was instead, if that was seen.
    pub(super) fn turn(&self, wait: &mut Slow) {
        let of_socket = self.sockets.get(&wait.socket());
        let fate = of_socket.or_else(|| self.peers.get(&(wait.flow.netns, wait.peer())));
        let Some([answer, delivery]) = fate.copied().and_then(Fate::nodes) else {
            return;
        };
        wait.parts.give(|node| node == Node::AnswerLoss, answer);
        wait.parts.give(|node| node == Node::DeliveryLoss, delivery);
    }
}
