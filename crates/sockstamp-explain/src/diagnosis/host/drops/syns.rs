//! SYNs of clients that the kernel of this host drops: services that they do not reach, or late.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sockstamp_model::flow::{NetnsInode, Opened, canonical};
use sockstamp_model::wait::{Dropped, End, Sending};

use crate::diagnosis::evidence::drop_reason::{FIREWALL, FULL_LISTENER, is_by_rule, words};
use crate::diagnosis::finding::Finding;
use crate::diagnosis::slow::{Role, Slow, Socket};
use crate::diagnosis::tally::failures;
use crate::diagnosis::tree::Node;
use crate::diagnosis::words::{counted, service};

/// SYNs of as many connections are no stray ones.
const LEAST: usize = 3;
/// A client that is answered sends one SYN.
const AGAIN: u64 = 2;

/// Clients that a port of this host answers, by its namespace, the port and their addresses.
pub(in crate::diagnosis) struct Clients(BTreeSet<(NetnsInode, u16, IpAddr)>);

impl Clients {
    /// Collect clients that a connection, a wait, or a connection that came late shows.
    pub(in crate::diagnosis) fn new(
        sending: &BTreeMap<Socket, Sending>,
        waits: &[Slow],
        dropped: &[Dropped],
    ) -> Self {
        let asked = waits
            .iter()
            .filter(|wait| wait.key.root == Node::Service && wait.how == End::Data);
        let asked = asked.map(|wait| (wait.flow.netns, wait.flow.local.port(), wait.peer()));
        let came = dropped.iter().filter(|one| one.came);
        let came = came.map(|one| (one.netns, one.to.port(), one.from.ip()));
        let answered = sending.values().filter(|one| {
            let has_both = one.connection.sends > 0 && one.connection.receives > 0;
            one.opened == Opened::Accepted && has_both
        });
        let client = |one: &Sending| {
            let flow = &one.flow;
            (flow.netns, flow.local.port(), canonical(flow.remote).ip())
        };
        Self(answered.map(client).chain(asked).chain(came).collect())
    }

    /// Return true for SYNs that a firewall dropped though their sender is let in otherwise, and
    /// whose connection never came. A rule that keeps an address out lets nothing of it through.
    /// Where a namespace forwards them, nobody sees there whether the connection came.
    fn are_held_back(&self, one: &Dropped) -> bool {
        let client = (one.netns, one.to.port(), one.from.ip());
        &*one.reason == FIREWALL && one.syns >= AGAIN && !one.came && self.0.contains(&client)
    }
}

/// SYNs of connections that were dropped for one reason.
#[derive(Debug, Clone, Copy)]
struct Syns {
    to: SocketAddr,
    connections: usize,
    count: u64,
}

/// Collect the SYNs to services of this host that its kernel dropped again and again, by port and
/// reason, if they are of many connections. A full accept queue is a finding of its own.
fn dropped_again<'a>(
    dropped: impl Iterator<Item = &'a Dropped>,
    serves: impl Fn(u16) -> bool,
) -> impl Iterator<Item = (&'a str, Syns)> {
    let mut ports = BTreeMap::<(u16, &str), Syns>::new();
    let again = dropped.filter(|one| one.syns >= AGAIN && !one.came);
    let again = again.filter(|one| &*one.reason != FULL_LISTENER && serves(one.to.port()));
    for one in again {
        let syns = ports.entry((one.to.port(), &*one.reason)).or_insert(Syns {
            to: one.to,
            connections: 0,
            count: 0,
        });
        syns.connections += 1;
        syns.count += one.syns;
    }
    let many = ports.into_iter().filter(|(_, of)| of.connections >= LEAST);
    many.map(|((_, reason), of)| (reason, of))
}

/// Return notes of ports of this host whose SYNs a rule of it drops, from clients that sent them
/// again, which it may mean. `clients` that are let in otherwise are a finding of their own.
pub(in crate::diagnosis) fn notes(
    dropped: &[Dropped],
    clients: &Clients,
    serves: impl Fn(u16) -> bool,
) -> Vec<String> {
    let by_rule = dropped.iter().filter(|one| is_by_rule(&one.reason));
    let by_rule = by_rule.filter(|one| !clients.are_held_back(one));
    let said = dropped_again(by_rule, serves).map(|(reason, of)| {
        let syns = counted(of.count, "SYN");
        let connections = counted(of.connections as u64, "connection");
        let to = service(of.to);
        match reason {
            FIREWALL => format!(
                "this host's own firewall (netfilter) dropped {syns} to {to}, of {connections}"
            ),
            reason => format!(
                "this host's kernel dropped {syns} to {to}, of {connections}{}",
                words(reason)
            ),
        }
    });
    said.collect()
}

/// Return findings of services of this host that clients cannot reach, because its kernel drops
/// what they send for a reason that no rule means. `known`: what those clients have told, where
/// they are on this host and were measured.
pub(in crate::diagnosis) fn kept_out(
    dropped: &[Dropped],
    known: &[Finding],
    serves: impl Fn(u16) -> bool,
) -> Vec<Finding> {
    let by_fault = dropped.iter().filter(|one| !is_by_rule(&one.reason));
    let again = dropped_again(by_fault, serves);
    let again = again.filter(|(_, of)| !is_told(known, of.to));
    let found = again.map(|(reason, of)| {
        let connections = of.connections as u64;
        let sentence = format!(
            "{} to {} did not open: this host's kernel dropped {} of them{}",
            counted(connections, "connection"),
            service(of.to),
            counted(of.count, "SYN"),
            words(reason),
        );
        let (node, lost) = (Node::AcceptDropped, failures(connections));
        let mut found = Finding::of_counts(node, Role::Serves, connections, lost, sentence);
        found.services.push(of.to);
        found
    });
    found.collect()
}

/// Return findings of services of this host whose clients come through later than they might: the
/// firewall drops their first SYNs. One that keeps somebody out lets none through. `accepted`: the
/// connections of a port, by which a few of many are seldom.
pub(in crate::diagnosis) fn findings(
    dropped: &[Dropped],
    accepted: impl Fn(u16) -> u64,
    known: &[Finding],
    serves: impl Fn(u16) -> bool,
) -> Vec<Finding> {
    let mut services = BTreeMap::<SocketAddr, (u64, u64)>::new();
    let came = dropped.iter().filter(|one| one.came);
    for one in came.filter(|one| serves(one.to.port())) {
        let (connections, syns) = services.entry(one.to).or_default();
        *connections += 1;
        *syns += one.syns;
    }
    let many = services.into_iter().filter(|(to, (of, _))| {
        let is_seldom = of.saturating_mul(20) < accepted(to.port());
        *of >= LEAST as u64 && !is_seldom && !is_told(known, *to)
    });
    let found = many.map(|(to, (of, syns))| {
        let node = Node::AcceptFirewall;
        let sentence = format!(
            "{} to {} came through late: {}: {} of them; a client sends the next one after 1 s or \
             more",
            counted(of, "connection"),
            service(to),
            node.about().is,
            counted(syns, "SYN"),
        );
        let lost = failures(of);
        let mut found = Finding::of_counts(node, Role::Serves, of, lost, sentence);
        found.services.push(to);
        found
    });
    found.collect()
}

/// Return findings of services of this host to which `clients` of theirs cannot open more
/// connections: the firewall drops all SYNs of these. `known`: what clients of this host that were
/// measured have told.
pub(in crate::diagnosis) fn held_back(
    dropped: &[Dropped],
    clients: &Clients,
    known: &[Finding],
    serves: impl Fn(u16) -> bool,
) -> Vec<Finding> {
    let mut services = BTreeMap::<SocketAddr, (u64, u64)>::new();
    let held = dropped.iter().filter(|one| clients.are_held_back(one));
    for one in held.filter(|one| serves(one.to.port())) {
        let (connections, syns) = services.entry(one.to).or_default();
        *connections += 1;
        *syns += one.syns;
    }
    let many = services
        .into_iter()
        .filter(|(to, (of, _))| *of >= LEAST as u64 && !is_told(known, *to));
    let found = many.map(|(to, (of, syns))| {
        let sentence = format!(
            "{} to {} did not open: this host's own firewall (netfilter) dropped {} of them, from \
             addresses that it lets in otherwise, as a limit of connections or of their rate does",
            counted(of, "connection"),
            service(to),
            counted(syns, "SYN"),
        );
        let node = Node::AcceptFirewall;
        let mut found = Finding::of_counts(node, Role::Serves, of, failures(of), sentence);
        found.services.push(to);
        found
    });
    found.collect()
}

/// Return true if a client of this host that was measured has told it.
fn is_told(known: &[Finding], service: SocketAddr) -> bool {
    let nodes = [Node::ConnectFirewall, Node::ConnectDropped];
    let mut told = known.iter().filter(|known| nodes.contains(&known.node));
    told.any(|told| told.services.contains(&service))
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::wait::{Connection, Kind, Waits};

    use super::super::fixture::dropped;
    use super::*;
    use crate::diagnosis::slow;
    use crate::diagnosis::tests::{flow, sending, summary, tried};
    use crate::diagnosis::{Case, Scope};

    #[test]
    fn clients_that_a_firewall_lets_in_late_are_a_finding() {
        let one = |port: u16, came| Dropped {
            came,
            ..dropped(
                FIREWALL,
                SocketAddr::from(([10, 0, 0, 9], port)),
                "10.0.0.1:80".parse().unwrap(),
                1,
            )
        };
        let late: Vec<_> = [1, 2, 3].map(|port| one(port, true)).into();
        let found = findings(&late, |_| 20, &[], |_| true);
        assert_eq!(
            found[0].sentence,
            "3 connections to 10.0.0.1:80 came through late: this host's own firewall (netfilter) \
             drops first SYNs of clients that it lets in later: 3 SYNs of them; a client sends \
             the next one after 1 s or more"
        );
        assert_eq!(findings(&late, |_| 1_000, &[], |_| true), []);
        let of_others = |port| if port == 80 { 20 } else { 1_000 };
        assert_eq!(findings(&late, of_others, &[], |_| true).len(), 1);
        // Clients of this host have told it, or of the same port of another address.
        let told = |to: &str| {
            let mut told = Finding {
                node: Node::ConnectFirewall,
                ..found[0].clone()
            };
            told.services = vec![to.parse().unwrap()];
            findings(&late, |_| 20, &[told], |_| true).len()
        };
        assert_eq!((told("10.0.0.1:80"), told("10.0.0.7:80")), (0, 1));
        // Another program's port, beside what is measured.
        assert_eq!(findings(&late, |_| 20, &[], |port| port == 5432), []);
        let kept_out: Vec<_> = [1, 2, 3].map(|port| one(port, false)).into();
        assert_eq!(findings(&kept_out, |_| 20, &[], |_| true), []);
    }

    #[test]
    fn clients_that_a_firewall_keeps_out_are_a_note() {
        let one = |port: u16, syns| {
            let from = SocketAddr::from(([10, 0, 0, 9], port));
            dropped(FIREWALL, from, "10.0.0.1:80".parse().unwrap(), syns)
        };
        let kept_out: Vec<_> = [1, 2, 3].map(|port| one(port, 2)).into();
        let nobody = Clients::new(&BTreeMap::new(), &[], &[]);
        assert_eq!(
            notes(&kept_out, &nobody, |_| true),
            [
                "this host's own firewall (netfilter) dropped 6 SYNs to 10.0.0.1:80, of 3 connections"
            ]
        );
        assert_eq!(notes(&kept_out, &nobody, |_| false), [""; 0]);
        assert_eq!(kept_out_by(&kept_out), [""; 0]);
        // A scan for open ports asks once.
        let scan: Vec<_> = [1, 2, 3].map(|port| one(port, 1)).into();
        assert_eq!(notes(&scan, &nobody, |_| true), [""; 0]);
    }

    fn kept_out_by(dropped: &[Dropped]) -> Vec<String> {
        let found = kept_out(dropped, &[], |_| true).into_iter();
        found.map(|found| found.sentence).collect()
    }

    #[test]
    fn clients_that_no_rule_keeps_out_are_a_finding() {
        let one = |port: u16, syns| {
            let from = SocketAddr::from(([10, 0, 0, 9], port));
            let to = "10.0.0.1:80".parse().unwrap();
            dropped("IP_RPFILTER", from, to, syns)
        };
        let kept_out: Vec<_> = [1, 2, 3].map(|port| one(port, 3)).into();
        let said = kept_out_by(&kept_out);
        assert!(
            said[0].starts_with(
                "3 connections to 10.0.0.1:80 did not open: this host's kernel dropped 9 SYNs of \
                 them by the reverse path filter"
            ),
            "{said:?}"
        );
        let nobody = Clients::new(&BTreeMap::new(), &[], &[]);
        assert_eq!(notes(&kept_out, &nobody, |_| true), [""; 0]);
        assert_eq!(kept_out_by(&kept_out[1..]), [""; 0]);
        let scan: Vec<_> = [1, 2, 3].map(|port| one(port, 1)).into();
        assert_eq!(kept_out_by(&scan), [""; 0]);
    }

    /// As of a client that sends its SYN again while the agent looks every few seconds.
    #[test]
    fn packets_of_one_connection_are_counted_together() {
        let seen = |of: u64, port: u16| {
            let from = SocketAddr::from(([10, 0, 0, 9], port));
            let at = Timestamp::from_nanos(of * 1_000_000_000);
            Dropped {
                first: at,
                last: at,
                ..dropped("IP_RPFILTER", from, "10.0.0.1:80".parse().unwrap(), 1)
            }
        };
        let told = |looks: [u64; 3]| {
            let mut case = Case::new(Scope::default());
            case.waits(&Waits {
                attempts: vec![tried(Kind::Service, "0.0.0.0:80", 20, 0)],
                ..Waits::default()
            });
            for look in looks {
                case.waits(&Waits {
                    dropped: [1, 2, 3].map(|port| seen(look, port)).into(),
                    ..Waits::default()
                });
            }
            let findings = case.diagnose(&summary()).findings;
            findings.first().map(|found| found.sentence.clone())
        };
        let again = told([1, 2, 4]).unwrap();
        assert!(
            again.contains("3 connections to 10.0.0.1:80 did not open")
                && again.contains("dropped 9 SYNs"),
            "{again}"
        );
        // Others that came to have the same ports.
        assert_eq!(told([1, 100, 200]), None);
    }

    /// As of a rule that limits the connections of each address.
    #[test]
    fn a_firewall_that_holds_clients_of_a_service_back_is_a_finding() {
        let one = |port: u16, syns| {
            let from = SocketAddr::from(([10, 0, 0, 9], port));
            dropped(FIREWALL, from, "10.0.0.1:80".parse().unwrap(), syns)
        };
        let served = |client: &str, sends| {
            let connection = Connection {
                sends,
                receives: 4,
                ..Connection::default()
            };
            let sending = sending(flow("10.0.0.1:80", client), connection);
            let sending = [(slow::socket(&sending.flow), sending)].into();
            Clients::new(&sending, &[], &[])
        };
        let held: Vec<_> = [1, 2, 3].map(|port| one(port, 2)).into();
        let found = held_back(&held, &served("10.0.0.9:50000", 4), &[], |_| true);
        assert_eq!(
            found[0].sentence,
            "3 connections to 10.0.0.1:80 did not open: this host's own firewall (netfilter) dropped \
             6 SYNs of them, from addresses that it lets in otherwise, as a limit of connections or \
             of their rate does"
        );
        assert_eq!(
            notes(&held, &served("10.0.0.9:50000", 4), |_| true),
            [""; 0]
        );
        // Another client is served, or none is answered; a scan.
        let silent = |drops: &[Dropped], clients: &Clients| {
            assert_eq!(held_back(drops, clients, &[], |_| true), []);
        };
        silent(&held, &served("10.0.0.8:50000", 4));
        silent(&held, &served("10.0.0.9:50000", 0));
        // Another namespace forwards them to that of the service.
        let forwarded = held.iter().map(|one| Dropped {
            netns: NetnsInode(2),
            ..one.clone()
        });
        let forwarded: Vec<_> = forwarded.collect();
        silent(&forwarded, &served("10.0.0.9:50000", 4));
        assert_eq!(
            notes(&forwarded, &served("10.0.0.9:50000", 4), |_| true).len(),
            1
        );
        let scan: Vec<_> = [1, 2, 3].map(|port| one(port, 1)).into();
        silent(&scan, &served("10.0.0.9:50000", 4));
        let late = Dropped {
            came: true,
            ..one(9, 1)
        };
        let clients = Clients::new(&BTreeMap::new(), &[], &[late]);
        assert_eq!(held_back(&held, &clients, &[], |_| true).len(), 1);
    }
}
