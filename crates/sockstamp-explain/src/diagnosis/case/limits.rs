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
use crate::diagnosis::tree::Node;

/// The first step of the timer of SYNs and of their answers (TCP_TIMEOUT_INIT, include/net/tcp.h,
/// v6.18), less what a timer may be early.
const SYN_TIMEOUT: u64 = 950_000_000;

/// Questions of a key that had no answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unanswered {
    /// Questions that were asked again.
    again: u64,
    /// The time of those that failed, which no answer took.
    time: u128,
}

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
    pub(super) fn is_in_vain(&self, wait: &Slow, unanswered: &BTreeMap<Key, Unanswered>) -> bool {
        let is_again = wait.flow.protocol == Protocol::Udp && wait.how == End::AskedAgain;
        if !is_again || is_for_many(wait.peer()) {
            return false;
        }
        let tried = self.tried.get(&wait.key);
        let answered = tried.map_or(0, |tried| tried.count.saturating_sub(tried.failed));
        let Unanswered { again, time } = unanswered.get(&wait.key).copied().unwrap_or_default();
        let sum = tried.map_or(0, |tried| tried.sum_ns.saturating_sub(time));
        let mean = sum.checked_div(answered.into());
        let is_late = mean.is_some_and(|mean| mean.saturating_mul(10) <= wait.time().into());
        match answered {
            0 if wait.asks_name() => true,
            _ if wait.asks_name() => is_late,
            0 => ANSWERING_EACH.contains(&wait.flow.remote.port()),
            answered => is_late && again.saturating_mul(2) <= answered,
        }
    }

    /// Count the questions that were asked again, and the time of those that failed.
    pub(super) fn unanswered_of(waits: &[Slow]) -> BTreeMap<Key, Unanswered> {
        let mut all = BTreeMap::<Key, Unanswered>::new();
        let is_one = |wait: &&Slow| wait.how == End::AskedAgain || wait.how.is_failure();
        for wait in waits.iter().filter(is_one) {
            let of = all.entry(wait.key.clone()).or_default();
            match wait.how {
                End::AskedAgain => of.again += 1,
                _ => of.time += u128::from(wait.time()),
            }
        }
        all
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
    use crate::diagnosis::tests::{MS, at, flow, summary, tried, wait};

    /// As of large answers that do not arrive, beside small ones that do.
    #[test]
    fn what_was_given_up_tells_nothing_of_the_time_of_answers() {
        let told = |answer: u64| {
            let ended = |end, after: u64| {
                (0..3_u64).map(move |of| {
                    let mut one = wait(Kind::Answer, end, of * 2_100 + after, 1_000);
                    one.flow = flow("10.0.0.1:40000", "10.0.0.2:53");
                    one.flow.protocol = Protocol::Udp;
                    one
                })
            };
            let mut counted = tried(Kind::Answer, "10.0.0.2:53", 10, 3);
            counted.sum_ns = u128::from((3 * 1_000 + 7 * answer) * MS);
            let mut case = Case::new(Scope::default());
            case.waits(&Waits {
                list: ended(End::AskedAgain, 0)
                    .chain(ended(End::GivenUp, 1_000))
                    .collect(),
                attempts: vec![counted],
                ..Waits::default()
            });
            let findings = case.diagnose(&summary()).findings.into_iter();
            findings.map(|found| found.failure).collect::<Vec<_>>()
        };
        assert_eq!(told(1), [Some(End::AskedAgain), Some(End::GivenUp)]);
        // Answers that are nearly as late as the next question.
        assert!(!told(300).contains(&Some(End::AskedAgain)));
    }

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
