//! Connects that a firewall answers by ICMP: that the port is closed, of which a host tells by a
//! segment; or that there is no way to a host that answers others. Hosts send few such messages
//! (net.ipv4.icmp_ratelimit), so that most SYNs get none, and are sent again.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sockstamp_model::wait::End;

use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// Such a message follows a SYN within this time.
const SOON: u64 = 500_000_000;

/// A router asks for the link address of a host for some three seconds (mcast_solicit, retrans_time
/// of net.ipv4.neigh) before it tells that it has no way there.
const ASKED_FOR: std::ops::Range<u64> = 2_500_000_000..4_000_000_000;

/// Return true for a connect that such a message has ended.
fn is_rejected(wait: &Slow, answered: impl Fn(IpAddr) -> bool) -> bool {
    let is_soon = wait.seen.since_syn.is_some_and(|since| since < SOON);
    match wait.how {
        End::Prohibited => true,
        End::Unreachable => is_soon && !ASKED_FOR.contains(&wait.time()) && answered(wait.peer()),
        _ => false,
    }
}

/// Give connects to services that reject some by ICMP what was not seen of the others: nobody else
/// answers these. `answered`: the host has answered something.
pub(in crate::diagnosis) fn give(waits: &mut [Slow], answered: impl Fn(IpAddr) -> bool) {
    let connects = waits.iter().filter(|wait| wait.key.root == Node::Connect);
    let rejected = connects.filter(|wait| is_rejected(wait, &answered));
    let services: BTreeSet<_> = rejected
        .map(|wait| (wait.flow.netns, wait.key.service))
        .collect();
    let is_one = |wait: &Slow| {
        let is_unanswered = !matches!(wait.how, End::Data | End::Refused | End::Denied);
        let is_there = services.contains(&(wait.flow.netns, wait.key.service));
        wait.key.root == Node::Connect && is_unanswered && is_there
    };
    for wait in waits.iter_mut().filter(|wait| is_one(wait)) {
        let from = |node| {
            matches!(
                node,
                Node::ConnectAgain | Node::ConnectLate | Node::ConnectPath
            )
        };
        wait.parts.give(from, Node::ConnectRejected);
        wait.seen.is_rejected = true;
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::wait::{Kind, Wait};

    use super::*;
    use crate::diagnosis::Diagnosis;
    use crate::diagnosis::tests::{MS, told_of, tried, wait};

    /// Connects that end so, after a second SYN, and others beside them that get no answer.
    fn told(end: End, lasted: u64, host: &str) -> Diagnosis {
        let connect = |of: u64, end, lasted| {
            let mut wait = wait(Kind::Connect, end, of * 1_500, lasted);
            wait.evidence.syns = Some(2);
            wait.evidence.asked = Some(Nanos(1_000 * MS));
            wait
        };
        let silent = (0..3).map(|of| connect(of, End::Open, 2_400));
        let list: Vec<Wait> = silent.chain([connect(0, end, lasted)]).collect();
        told_of(list, vec![tried(Kind::Answer, host, 9, 0)])
    }

    #[test]
    fn one_message_tells_of_the_syns_that_got_none() {
        let rejected = told(End::Prohibited, 1_001, "10.0.0.3:80");
        let sentence = &rejected.findings[0].sentence;
        assert_eq!(rejected.findings[0].node, Node::ConnectRejected);
        assert!(sentence.contains("rejects them by ICMP"), "{sentence}");
        let filtered = told(End::Unreachable, 1_001, "10.0.0.2:80");
        assert_eq!(filtered.findings[0].node, Node::ConnectRejected);
    }

    /// As of a host that is gone, or a service that nobody runs.
    #[test]
    fn other_ends_tell_of_no_firewall() {
        for (end, lasted, host) in [
            (End::Refused, 1_001, "10.0.0.2:80"),
            (End::Unreachable, 1_001, "10.0.0.3:80"),
            (End::Unreachable, 3_060, "10.0.0.2:80"),
            (End::Unreachable, 1_900, "10.0.0.2:80"),
        ] {
            let told = told(end, lasted, host);
            let nodes: Vec<_> = told.findings.iter().map(|finding| finding.node).collect();
            assert!(!nodes.contains(&Node::ConnectRejected), "{told:?}");
        }
    }
}
