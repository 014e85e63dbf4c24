//! Limits of a connection: its path, and TCP's own clocks.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use sockstamp_model::clock::Timestamp;
use sockstamp_model::flow::Protocol;
use sockstamp_model::service::ANSWERING_EACH;
use sockstamp_model::wait::{End, Sending};

use super::Case;
use crate::diagnosis::evidence::backlog::Backlog;
use crate::diagnosis::slow::{Key, Role, Slow};
use crate::diagnosis::source::limit_of;
use crate::diagnosis::tally::Tried;
use crate::diagnosis::tree::Node;

/// The first step of the timer of SYNs and of their answers (TCP_TIMEOUT_INIT, include/net/tcp.h,
/// v6.18), less what a timer may be early.
const SYN_TIMEOUT: u64 = 950_000_000;

impl Case {
    /// The path is the smallest round trip of the address: a connection may have seen longer ones
    /// alone.
    pub(super) fn limit_path(&self, wait: &mut Slow) {
        let beyond = wait
            .parts
            .of(Node::AnswerPath)
            .saturating_sub(self.round_trip(wait));
        if beyond > 0 {
            wait.parts.shift(Node::AnswerPath, Node::AnswerPeer, beyond);
        }
        let late = wait
            .parts
            .of(Node::ConnectPath)
            .saturating_sub(self.round_trip(wait));
        let node = match late {
            SYN_TIMEOUT.. => Node::ConnectAgain,
            _ => Node::ConnectLate,
        };
        wait.parts.shift(Node::ConnectPath, node, late);
        self.limit_recovery(wait);
        let backlog = self.backlogs.get(&(wait.flow.netns, wait.peer()));
        if let Some(backlog) = backlog.filter(|backlog| is_meanwhile(backlog, wait)) {
            wait.give_queue(backlog);
        }
    }

    /// Data sent again and acknowledged later than a round trip waits for the recovery.
    fn limit_recovery(&self, wait: &mut Slow) {
        let path = self.round_trip(wait);
        let late = wait.parts.of(Node::DeliveryPath).saturating_sub(path);
        if path > 0 && wait.seen.resent > 0 {
            wait.parts
                .shift(Node::DeliveryPath, Node::DeliveryLoss, late);
        }
    }

    /// Return the smallest round trip of the address, without a queue of this host.
    pub(super) fn round_trip(&self, wait: &Slow) -> u64 {
        let rtt = self.round_trips.get(&wait.peer()).copied().unwrap_or(0);
        match wait.seen.backlog {
            Some(ref backlog) => rtt.saturating_sub(backlog.time.0),
            None => rtt,
        }
    }

    /// A rate that TCP chose itself gives its time to what limits the connection, by TCP's own
    /// clocks; if nothing does, that is the bandwidth.
    pub(super) fn limit_sending(&self, wait: &mut Slow) {
        let sending = self.sending.get(&wait.socket());
        let sending = sending.filter(|sending| sending.goes_on());
        let Some(sending) = sending.or_else(|| self.buffered(wait)) else {
            return;
        };
        wait.seen.buffer_set |= sending.connection.buffer_set;
        wait.seen.paced = wait.seen.paced.or(sending.connection.paced);
        if wait.seen.paced.is_some() {
            return;
        }
        let limit = limit_of(sending);
        let own: u64 = wait
            .parts
            .iter()
            .filter(|(node, _)| is_own_rate(*node))
            .map(|(_, time)| time)
            .sum();
        wait.seen.by_clocks = limit.is_some() && own > 0;
        match limit {
            // Corked data waits for room in a small buffer first.
            Some(Node::DeliveryRoom) if sending.connection.buffer_set => wait.parts.give(
                |node| is_own_rate(node) || node == Node::DeliveryCork,
                Node::DeliveryRoom,
            ),
            Some(limit) => wait.parts.give(is_own_rate, limit),
            None => wait
                .parts
                .give(|node| node == Node::DeliveryPacing, Node::DeliveryFull),
        }
    }

    /// Return another connection of the same service with a send buffer that its program set, and
    /// that is its limit: a listener hands its size on.
    fn buffered(&self, wait: &Slow) -> Option<&Sending> {
        let is_alike = |other: &&Sending| {
            other.flow.netns == wait.flow.netns
                && other.flow.local.port() == wait.flow.local.port()
                && other.connection.buffer_set
                && limit_of(other) == Some(Node::DeliveryRoom)
        };
        match wait.key.role {
            Role::Serves => self.sending.values().find(is_alike),
            Role::Asks => None,
        }
    }

    /// Return true for a question that was asked again after ten times as long as answers take: one
    /// after another on a socket, to a slow server, looks the same otherwise, unless none was
    /// answered. A service other than for names must answer most of its questions at once (a sleepy
    /// device answers the second), or be one that answers each (NTP, SNMP, RADIUS).
    pub(super) fn is_in_vain(&self, wait: &Slow, asked_again: &BTreeMap<Key, u64>) -> bool {
        let is_again = wait.flow.protocol == Protocol::Udp && wait.how == End::AskedAgain;
        if !is_again || is_for_many(wait.peer()) {
            return false;
        }
        let tried = self.tried.get(&wait.key);
        let answered = tried.map_or(0, |tried| tried.count.saturating_sub(tried.failed));
        let mean = tried.and_then(Tried::mean);
        let is_late = mean.is_some_and(|mean| mean.0.saturating_mul(10) <= wait.time());
        let again = asked_again.get(&wait.key).copied().unwrap_or(0);
        match answered {
            0 if wait.asks_name() => true,
            _ if wait.asks_name() => is_late,
            0 => ANSWERING_EACH.contains(&wait.flow.remote.port()),
            answered => is_late && again.saturating_mul(2) <= answered,
        }
    }

    /// Count the questions that were asked again.
    pub(super) fn asked_again(waits: &[Slow]) -> BTreeMap<Key, u64> {
        let mut again = BTreeMap::new();
        for wait in waits.iter().filter(|wait| wait.how == End::AskedAgain) {
            *again.entry(wait.key.clone()).or_default() += 1;
        }
        again
    }
}

/// Return true for a queue that was seen while a wait went on, or soon after: looks are made when
/// waits have ended.
fn is_meanwhile(backlog: &Backlog, wait: &Slow) -> bool {
    const SOON: u64 = 1_000_000_000;
    let (begin, end) = backlog.seen;
    let begin = begin.as_nanos().saturating_sub(SOON);
    wait.meets((Timestamp::from_nanos(begin), end))
}

/// Return true for a group of hosts, of which any or none may answer (mDNS, SSDP, DHCP).
fn is_for_many(peer: IpAddr) -> bool {
    peer.is_multicast() || peer == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Return true for what TCP's congestion control sets itself.
const fn is_own_rate(node: Node) -> bool {
    matches!(node, Node::DeliveryPacing | Node::DeliveryCongestion)
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::wait::{Kind, Waits};

    use super::*;
    use crate::diagnosis::Scope;
    use crate::diagnosis::tests::{MS, at, summary, wait};

    #[test]
    fn a_queue_has_the_time_of_waits_that_go_on_while_it_is_seen() {
        let told = |begin, end| {
            let answer = |of: u64| wait(Kind::Answer, End::Data, of * 900, 120);
            let mut case = Case::new(Scope::default());
            case.waits(&Waits {
                list: (0..4).map(answer).collect(),
                ..Waits::default()
            });
            for (from, peer) in case.peers() {
                let backlog = Backlog {
                    device: "wan".into(),
                    bytes: 90_000,
                    time: Nanos(100 * MS),
                    seen: (at(begin).unwrap(), at(end).unwrap()),
                };
                case.backlog(from, peer, backlog);
            }
            case.diagnose(&summary()).findings[0].sentence.clone()
        };
        let seen = told(500, 3_000);
        assert!(
            seen.contains("wan had 90 KB queued at most looks"),
            "{seen}"
        );
        assert!(!told(20_000, 30_000).contains("wan"));
    }
}
