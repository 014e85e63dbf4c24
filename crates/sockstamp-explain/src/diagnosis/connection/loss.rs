//! What became of packets that were sent again, by what came twice.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::summary::{Resent, Summary};
use sockstamp_model::wait::Sending;

use crate::diagnosis::slow::{Slow, Socket};
use crate::diagnosis::tree::Node;

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

    /// Return that of a whole measurement. What is sent again because of later segments, and had
    /// come, was overtaken; what is sent again after a timeout was acknowledged late.
    const fn of(resent: &Resent) -> Self {
        let late = resent.timeouts + resent.probes;
        Self {
            resent: resent.fast + late,
            in_vain: resent.needless,
            reordered: resent.fast.saturating_sub(late),
        }
    }

    /// Return true if some of it had come all the same.
    const fn is_doubted(self) -> bool {
        self.in_vain > 0
    }

    /// Return the nodes of answers and of data that have the time: DSACKs took at least half back.
    const fn nodes(self) -> Option<[Node; 2]> {
        if !self.is_doubted() || self.in_vain * 2 < self.resent {
            None
        } else if self.reordered > 0 {
            Some([Node::AnswerOvertaken, Node::DeliveryOvertaken])
        } else {
            Some([Node::AnswerBack, Node::DeliveryBack])
        }
    }
}

/// Fates by connection, and by the path of others.
pub(in crate::diagnosis) struct Fates {
    sockets: BTreeMap<Socket, Fate>,
    peers: BTreeMap<(NetnsInode, IpAddr), Fate>,
    /// Of all, connections that have ended included.
    whole: Fate,
}

impl Fates {
    pub(in crate::diagnosis) fn new(
        sending: &BTreeMap<Socket, Sending>,
        summary: &Summary,
    ) -> Self {
        let mut sockets = BTreeMap::<_, Fate>::new();
        let mut peers = BTreeMap::<_, Fate>::new();
        for (socket, sending) in sending.iter().filter(|(_, sending)| sending.resent > 0) {
            let peer = (sending.flow.netns, canonical(sending.flow.remote).ip());
            peers.entry(peer).or_default().add(sending);
            sockets.entry(*socket).or_default().add(sending);
        }
        let whole = summary.tx.resent.as_ref().map(Fate::of);
        Self {
            sockets,
            peers,
            whole: whole.unwrap_or_default(),
        }
    }

    /// Give the time of losses to what it was instead, if that was seen. Sums of the peer, and of
    /// the measurement, speak for a connection that was not looked at.
    pub(in crate::diagnosis) fn turn(&self, wait: &mut Slow) {
        let of_socket = self.sockets.get(&wait.socket());
        let fate = of_socket.or_else(|| self.peers.get(&(wait.flow.netns, wait.peer())));
        let fate = fate.copied().unwrap_or(self.whole);
        wait.seen.some_in_vain = fate.is_doubted();
        let Some([answer, delivery]) = fate.nodes() else {
            return;
        };
        wait.parts.give(|node| node == Node::AnswerLoss, answer);
        wait.parts.give(|node| node == Node::DeliveryLoss, delivery);
    }
}
