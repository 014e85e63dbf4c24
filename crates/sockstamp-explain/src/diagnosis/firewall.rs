//! Waits for packets that this host's own firewall drops.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::flow::{Protocol, canonical};
use sockstamp_model::wait::{Barred, End};

use super::sentence::{counted, service};
use super::slow::Slow;
use super::tree::Node;

/// Give waits for something that is lost to the firewall that dropped it.
pub(super) fn give(waits: &mut [Slow], barred: &[Barred]) {
    let mut firewall = BTreeMap::<(SocketAddr, SocketAddr), u64>::new();
    for one in barred {
        *firewall.entry((one.from, one.to)).or_default() += one.packets;
    }
    let tcp = |wait: &&mut Slow| wait.flow.protocol == Protocol::Tcp;
    for wait in waits.iter_mut().filter(tcp).filter(|wait| misses(wait)) {
        let ends = (canonical(wait.flow.local), canonical(wait.flow.remote));
        let of = |ends| firewall.get(&ends).copied().unwrap_or(0);
        let packets = of(ends) + of((ends.1, ends.0));
        let node = match wait.key.root {
            Node::Connect => Node::ConnectFirewall,
            Node::Answer => Node::AnswerFirewall,
            Node::Delivery => Node::DeliveryFirewall,
            _ => continue,
        };
        if packets > 0 {
            wait.parts.give(|node| !node.is_path(), node);
            wait.seen.barred = packets;
        }
    }
}

/// Return true for a wait in which something was sent again, or to which nothing came.
fn misses(wait: &Slow) -> bool {
    let never = !matches!(wait.how, End::Data | End::Open | End::Refused);
    never || wait.seen.resent > 0 || wait.key.root == Node::Connect || !wait.seen.heard
}

/// SYNs of as many connections are no stray ones.
const LEAST: usize = 3;
/// A client that is answered sends one SYN.
const AGAIN: u64 = 2;

/// Return notes of ports of this host whose SYNs its firewall drops, from clients that sent them
/// again. A rule may mean that.
pub(super) fn notes(barred: &[Barred], serves: impl Fn(u16) -> bool) -> Vec<String> {
    let mut ports = BTreeMap::<u16, (usize, u64, SocketAddr)>::new();
    let again = barred.iter().filter(|one| one.syns >= AGAIN);
    for one in again.filter(|one| serves(one.to.port())) {
        let (connections, syns, _) = ports.entry(one.to.port()).or_insert((0, 0, one.to));
        *connections += 1;
        *syns += one.syns;
    }
    let many = ports.into_values().filter(|(of, ..)| *of >= LEAST);
    let said = many.map(|(of, syns, to)| {
        format!(
            "this host's own firewall (netfilter) dropped {} to {}, of {}",
            counted(syns, "SYN"),
            service(to),
            counted(of as u64, "connection")
        )
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::NetnsInode;
    use sockstamp_model::wait::{Evidence, Kind, Waits};

    use super::super::tests::{summary, wait};
    use super::super::{Case, Diagnosis, Scope};
    use super::*;

    fn told(end: End, to: &str, syns: u64) -> Diagnosis {
        let connect = |of: u64| {
            let mut wait = wait(Kind::Connect, end, of * 2_000, 1_500);
            wait.evidence = Evidence {
                syns: Some(2),
                ..Evidence::default()
            };
            wait
        };
        let barred = Barred {
            netns: NetnsInode(2),
            from: "10.0.0.1:40000".parse().unwrap(),
            to: to.parse().unwrap(),
            packets: 2,
            syns,
        };
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: (0..3).map(connect).collect(),
            barred: vec![barred],
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    #[test]
    fn a_connect_whose_syns_a_firewall_of_this_host_drops_names_it() {
        let told_of = |end, to| told(end, to, 2).findings[0].sentence.clone();
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

    #[test]
    fn clients_that_a_firewall_keeps_out_are_a_note() {
        let one = |port: u16, syns| Barred {
            netns: NetnsInode(2),
            from: SocketAddr::from(([10, 0, 0, 9], port)),
            to: "10.0.0.1:80".parse().unwrap(),
            packets: syns,
            syns,
        };
        let barred: Vec<_> = [1, 2, 3].map(|port| one(port, 2)).into();
        assert_eq!(
            notes(&barred, |_| true),
            [
                "this host's own firewall (netfilter) dropped 6 SYNs to 10.0.0.1:80, of 3 connections"
            ]
        );
        assert_eq!(notes(&barred, |_| false), [""; 0]);
        // Who looks for open ports asks once.
        let scan: Vec<_> = [1, 2, 3].map(|port| one(port, 1)).into();
        assert_eq!(notes(&scan, |_| true), [""; 0]);
    }
}
