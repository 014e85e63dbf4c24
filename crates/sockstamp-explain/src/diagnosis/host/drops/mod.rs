//! Waits for packets that the kernel of this host drops, and says why.

#[cfg(test)]
mod fixture;
mod syns;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::wait::{Dropped, End, Sending};

use super::lossy::TIMEOUT;
use crate::diagnosis::evidence::drop_reason::{Drops, FIREWALL};
use crate::diagnosis::slow::{Moment, Slow, Socket};
use crate::diagnosis::tree::Node;

pub(in crate::diagnosis) use syns::{Clients, findings, held_back, kept_out, notes};

/// A segment is missed by those that come later: it was dropped up to so long before.
const BEFORE: u64 = 1_000_000_000;

/// Drops by the port of one end, and by the other end.
struct ByEnds<'a>(BTreeMap<(u16, SocketAddr), Vec<(IpAddr, &'a Dropped)>>);

impl<'a> ByEnds<'a> {
    fn new(dropped: &'a [Dropped]) -> Self {
        let mut drops = BTreeMap::<_, Vec<_>>::new();
        for one in dropped {
            for (near, far) in [(one.from, one.to), (one.to, one.from)] {
                let of_ends = drops.entry((near.port(), far)).or_default();
                of_ends.push((near.ip(), one));
            }
        }
        Self(drops)
    }

    /// Return those of the connection of a wait, shortly before it or meanwhile. Where nothing but
    /// the length of a wait speaks for a loss, only drops of that time alone.
    fn of(&self, wait: &Slow) -> impl Iterator<Item = &'a Dropped> {
        let shows = shows_loss(wait);
        let (near, far) = (canonical(wait.flow.local), canonical(wait.flow.remote));
        let (protocol, begin, end) = (wait.flow.protocol, wait.begin, wait.end);
        let drops = self.0.get(&(near.port(), far)).into_iter().flatten();
        // A socket of UDP may be bound to no address.
        let drops = drops.filter(move |(ip, _)| near.ip().is_unspecified() || near.ip() == *ip);
        drops.map(|(_, one)| *one).filter(move |one| {
            let (first, last) = (one.first.as_nanos(), one.last.as_nanos());
            let is_near = first <= end && last.saturating_add(BEFORE) >= begin;
            let is_within = first.saturating_add(BEFORE) >= begin && last <= end;
            one.protocol == protocol && is_near && (shows || is_within)
        })
    }
}

/// Drops of the connection of a wait.
struct Found {
    wait: usize,
    drops: Drops,
    /// For all reasons.
    packets: u64,
}

/// Give waits for something that is lost to the kernel, where it drops about as many packets of
/// the connection as are missed.
pub(in crate::diagnosis) fn give(
    waits: &mut [Slow],
    dropped: &[Dropped],
    sending: &BTreeMap<Socket, Sending>,
) {
    let found = find(waits, dropped);
    let mut missed = BTreeMap::<Socket, Vec<(Moment, Moment)>>::new();
    for Found { wait, .. } in &found {
        let wait = &waits[*wait];
        let stretches = missed.entry(wait.socket()).or_default();
        stretches.push((wait.begin, wait.end));
    }
    let missed: BTreeMap<_, _> = missed
        .into_iter()
        .map(|(socket, stretches)| (socket, occasions(stretches)))
        .collect();
    for Found {
        wait,
        drops,
        packets,
    } in found
    {
        let wait = &mut waits[wait];
        let socket = wait.socket();
        let resent = sending
            .get(&socket)
            .map_or(0, |sending| sending.resent.into());
        let missed = missed.get(&socket).copied().unwrap_or(0);
        if missed.max(resent) <= packets.saturating_mul(2) {
            give_one(wait, drops);
        }
    }
}

fn find(waits: &[Slow], dropped: &[Dropped]) -> Vec<Found> {
    let by_ends = ByEnds::new(dropped);
    let mut found = Vec::new();
    for (place, wait) in waits.iter().enumerate().filter(|(_, wait)| misses(wait)) {
        let mut reasons = BTreeMap::<&str, u64>::new();
        for one in by_ends.of(wait) {
            *reasons.entry(&one.reason).or_default() += one.packets;
        }
        let most = reasons.iter().max_by_key(|(_, packets)| **packets);
        let Some((&reason, &packets)) = most else {
            continue;
        };
        found.push(Found {
            wait: place,
            drops: Drops {
                reason: reason.into(),
                packets,
                are_translated: false,
            },
            packets: reasons.values().sum(),
        });
    }
    found
}

/// Return the number of stretches that do not overlap.
fn occasions(mut stretches: Vec<(Moment, Moment)>) -> u64 {
    stretches.sort_unstable();
    let (mut count, mut until) = (0, 0);
    for (begin, end) in stretches {
        count += u64::from(count == 0 || begin > until);
        until = end.max(until);
    }
    count
}

/// Return true for a wait in which something was sent again, for which something did not come, or
/// to which nothing came.
fn misses(wait: &Slow) -> bool {
    match wait.key.root {
        Node::Connect => true,
        Node::Answer | Node::Delivery | Node::Rest | Node::Read => {
            wait.seen.resent > 0 || wait.parts.iter().any(|(node, _)| is_missing(wait, node))
        }
        _ => false,
    }
}

/// Return true for a wait in which something was sent again, or in which segments are missing.
fn shows_loss(wait: &Slow) -> bool {
    let is_long_alone = |node| matches!(node, Node::AnswerPeer | Node::RestPeer);
    let mut parts = wait.parts.iter().map(|(node, _)| node);
    wait.key.root == Node::Connect
        || wait.seen.resent > 0
        || parts.any(|node| !is_long_alone(node) && is_missing(wait, node))
}

/// Return true for a part that may be due to a lost packet.
fn is_missing(wait: &Slow, node: Node) -> bool {
    match node {
        Node::AnswerLoss
        | Node::AnswerBack
        | Node::AnswerOvertaken
        | Node::AnswerHeld
        | Node::RestHeld
        | Node::DeliveryLoss
        | Node::DeliveryBack
        | Node::DeliveryOvertaken
        | Node::DeliveryUnheard
        | Node::ReadMissing => true,
        // TCP knows of a packet that this host's kernel drops on its way out, and tries again.
        Node::AnswerPeer | Node::RestPeer | Node::DeliveryOther => wait.parts.of(node) >= TIMEOUT,
        _ => false,
    }
}

fn give_one(wait: &mut Slow, drops: Drops) {
    let is_firewall = &*drops.reason == FIREWALL;
    let node = match wait.key.root {
        Node::Connect if is_firewall => Node::ConnectFirewall,
        Node::Answer if is_firewall => Node::AnswerFirewall,
        Node::Delivery if is_firewall => Node::DeliveryFirewall,
        Node::Connect => Node::ConnectDropped,
        Node::Answer => Node::AnswerDropped,
        Node::Rest => Node::RestDropped,
        Node::Delivery => Node::DeliveryDropped,
        _ => Node::ReadDropped,
    };
    let never = !matches!(wait.how, End::Data | End::Open | End::Refused);
    let has_all = never || wait.seen.resent > 0 || wait.key.root == Node::Connect;
    let parts = wait.parts.clone();
    for (part, _) in parts.iter().filter(|(part, _)| !part.is_path()) {
        if has_all || is_missing(wait, part) {
            wait.parts.give(|node| node == part, node);
        }
    }
    wait.seen.dropped = Some(drops);
}

/// Give connects that nobody answers to a firewall in another namespace of this host which drops
/// SYNs to the same service, as many as there are such connects, from an address that none of them
/// has: on the way it was changed (NAT).
pub(in crate::diagnosis) fn give_translated(waits: &mut [Slow], dropped: &[Dropped]) {
    let is_lost = |wait: &Slow| {
        let is_again = wait.parts.of(Node::ConnectAgain) > 0;
        let is_silent = matches!(wait.how, End::GivenUp | End::TimedOut);
        wait.key.root == Node::Connect && wait.seen.dropped.is_none() && (is_again || is_silent)
    };
    let asked = |wait: &Slow| (wait.flow.netns, canonical(wait.flow.remote));
    let lost = waits.iter().filter(|wait| is_lost(wait));
    let own: BTreeSet<IpAddr> = lost
        .clone()
        .map(|wait| canonical(wait.flow.local).ip())
        .collect();
    let mut services = BTreeMap::<(NetnsInode, SocketAddr), u64>::new();
    for wait in lost {
        *services.entry(asked(wait)).or_default() += 1;
    }
    let behind = |(netns, service): (NetnsInode, SocketAddr)| {
        let of_service = dropped.iter().filter(|one| one.to == service);
        let elsewhere = of_service.filter(|one| {
            one.netns != netns && !own.contains(&one.from.ip()) && &*one.reason == FIREWALL
        });
        elsewhere.map(|one| one.syns).sum::<u64>()
    };
    let enough = |(of, connects)| {
        let syns = behind(of);
        (syns >= connects).then_some((of, syns))
    };
    let services: BTreeMap<_, _> = services.into_iter().filter_map(enough).collect();
    for wait in waits.iter_mut().filter(|wait| is_lost(wait)) {
        if let Some(&packets) = services.get(&asked(wait)) {
            let drops = Drops {
                reason: FIREWALL.into(),
                packets,
                are_translated: true,
            };
            give_one(wait, drops);
        }
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::part::Part;
    use sockstamp_model::wait::{Evidence, Kind, Waits};

    use super::fixture::dropped;
    use super::*;
    use crate::diagnosis::tests::{flow, sent, summary, wait};
    use crate::diagnosis::{Case, Diagnosis, Scope};

    fn told_with(end: End, drops: Vec<Dropped>) -> Diagnosis {
        let connect = |of: u64| {
            let mut wait = wait(Kind::Connect, end, of * 2_000, 1_500);
            wait.evidence = Evidence {
                syns: Some(2),
                ..Evidence::default()
            };
            wait
        };
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: (0..3).map(connect).collect(),
            dropped: drops,
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    fn told(end: End, to: &str, reason: &str, packets: u64) -> String {
        let from = "10.0.0.1:40000".parse().unwrap();
        let drops = dropped(reason, from, to.parse().unwrap(), packets);
        told_with(end, vec![drops]).findings[0].sentence.clone()
    }

    #[test]
    fn a_connect_whose_syns_a_firewall_of_this_host_drops_names_it() {
        let told_of = |end, to| told(end, to, FIREWALL, 2);
        assert_eq!(
            told_of(End::GivenUp, "10.0.0.2:6379"),
            "3 connects of app to 10.0.0.2:6379 got no answer and were given up after 1.50 s: this \
             host's own firewall (netfilter) drops their packets: 2 were dropped"
        );
        assert!(
            told_of(End::Data, "10.0.0.2:6379").ends_with(
                "this host's own firewall (netfilter) drops their packets: 2 were dropped"
            )
        );
        let elsewhere = told_of(End::Data, "10.0.0.3:6379");
        assert!(!elsewhere.contains("firewall"), "{elsewhere}");
    }

    /// As of a router of containers whose address has no port left.
    #[test]
    fn syns_that_a_firewall_drops_behind_nat_have_another_address() {
        let told_of = |from: &str, packets| {
            let to = "10.0.0.2:6379".parse().unwrap();
            let of_router = Dropped {
                netns: NetnsInode(2),
                ..dropped(FIREWALL, from.parse().unwrap(), to, packets)
            };
            told_with(End::GivenUp, vec![of_router]).findings[0]
                .sentence
                .clone()
        };
        let sentence = told_of("10.9.0.254:40000", 4);
        assert!(
            sentence.contains("4 SYNs to it were dropped after the address of their sender"),
            "{sentence}"
        );
        for (from, packets) in [("10.9.0.254:40000", 2), ("10.0.0.1:49999", 4)] {
            let other = told_of(from, packets);
            assert!(!other.contains("NAT"), "{other}");
        }
    }

    #[test]
    fn the_kernels_reason_is_named_where_as_many_packets_were_dropped_as_are_missed() {
        let told_of = |reason, packets| told(End::Data, "10.0.0.2:6379", reason, packets);
        let sentence = told_of("IP_RPFILTER", 3);
        assert!(
            sentence.ends_with(
                "the kernel of this host drops their packets: 3 were dropped by the reverse path \
                 filter: the route back to their sender leads through another device \
                 (net.ipv4.conf.*.rp_filter) [IP_RPFILTER]"
            ),
            "{sentence}"
        );
        let unknown = told_of("LATER_REASON", 3);
        assert!(
            unknown.ends_with("3 were dropped [LATER_REASON]"),
            "{unknown}"
        );
        let too_few = told_of("IP_RPFILTER", 1);
        assert!(!too_few.contains("kernel"), "{too_few}");
    }

    /// As of a rule of the output hook, which TCP is told of.
    #[test]
    fn data_that_tcp_tries_to_send_again_names_the_firewall_that_drops_it() {
        let told = |lasted: u64, to: &str| {
            let ends = flow("10.0.0.1:40000", "10.0.0.2:6379");
            let mut case = Case::new(Scope::default());
            for of in 0..4 {
                case.message(&sent(ends, of * 900, Part::Other, lasted));
            }
            let from = "10.0.0.1:40000".parse().unwrap();
            case.waits(&Waits {
                dropped: vec![dropped(FIREWALL, from, to.parse().unwrap(), 4)],
                ..Waits::default()
            });
            let first = case.diagnose(&summary()).findings.into_iter().next();
            first.map(|finding| finding.node)
        };
        assert_eq!(told(250, "10.0.0.2:6379"), Some(Node::DeliveryFirewall));
        assert_eq!(told(250, "10.0.0.3:6379"), Some(Node::DeliveryOther));
        assert_eq!(told(90, "10.0.0.2:6379"), Some(Node::DeliveryOther));
    }

    #[test]
    fn drops_before_a_wait_are_not_its_own() {
        let (from, to) = ("10.0.0.1:40000", "10.0.0.2:6379");
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        let mut drops = dropped("TCP_CSUM", from, to, 9);
        drops.first = Timestamp::from_nanos(20_000_000_000);
        drops.last = drops.first;
        let told = told_with(End::Data, vec![drops]);
        let sentence = &told.findings[0].sentence;
        assert!(!sentence.contains("kernel"), "{sentence}");
    }
}
