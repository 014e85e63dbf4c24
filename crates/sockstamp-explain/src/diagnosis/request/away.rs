//! Connections that a service closes at once, while it serves others.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::flow::Opened;
use sockstamp_model::service::{CLIENT_ENDS, SPEAKING_FIRST};
use sockstamp_model::wait::{End, Sending};

use crate::diagnosis::slow::{Key, Role, Slow, Socket};
use crate::diagnosis::tally::Tried;
use crate::diagnosis::tree::Node;

/// Services wait for longer until they close connections on which nothing comes.
const AT_ONCE: u64 = 1_000_000_000;

/// More segments with data of the peer's are no word that ends a connection.
const WORDS: u32 = 1;

/// Services that others have answers of.
struct Served {
    /// On connections that stay.
    staying: BTreeSet<Service>,
    /// On any.
    any: BTreeSet<Service>,
}

type Service = (Role, std::net::SocketAddr);

impl Served {
    fn new(tried: &BTreeMap<Key, Tried>, sending: &BTreeMap<Socket, Sending>) -> Self {
        let talks = |one: &&Sending| one.connection.receives > WORDS;
        let staying: BTreeSet<_> = sending.values().filter(talks).map(service).collect();
        let counts = |key: &Key| matches!(key.root, Node::Answer | Node::AcceptAway);
        let answered = tried
            .iter()
            .filter(|(key, tried)| counts(key) && tried.count > tried.failed);
        let answered = answered.map(|(key, _)| (key.role, key.service));
        Self {
            any: staying.iter().copied().chain(answered).collect(),
            staying,
        }
    }

    /// Return true if others of its service have answers on connections that stay.
    fn stays(&self, wait: &Slow) -> bool {
        self.staying.contains(&(wait.key.role, wait.key.service))
    }

    /// Return true if that shows the connection to be one that the service does not want.
    fn shows(&self, wait: &Slow) -> bool {
        let service = (wait.key.role, wait.key.service);
        match (wait.key.role, wait.seen.is_dismissed) {
            (Role::Serves, true) => true,
            (Role::Serves, false) | (Role::Asks, true) => self.any.contains(&service),
            (Role::Asks, false) => self.staying.contains(&service),
        }
    }
}

/// The service of a connection, as a key has it.
fn service(sending: &Sending) -> Service {
    let role = match sending.opened {
        Opened::Connected => Role::Asks,
        Opened::Accepted => Role::Serves,
    };
    let key = Key::new(Node::AcceptAway, "".into(), role, &sending.flow);
    (role, key.service)
}

/// Call connections that the peer closed at once, without a word, turned away if it answers others,
/// and forget those that no others show to be so.
pub(in crate::diagnosis) fn settle(
    waits: &mut Vec<Slow>,
    tried: &BTreeMap<Key, Tried>,
    sending: &BTreeMap<Socket, Sending>,
) {
    let served = Served::new(tried, sending);
    let greets = |key: &Key| tried.get(key).is_some_and(|of| of.count > of.failed);
    for wait in waits.iter_mut() {
        wait.seen.is_refused_login = is_refused_login(wait);
        wait.seen.is_untaken |= is_greeted(wait) && !served.stays(wait);
        wait.seen.is_untaken |= wait.seen.is_refused_login;
        let is_away = wait.seen.is_untaken || served.shows(wait);
        if is_silent(wait) && !greets(&wait.key) && is_away {
            wait.key.root = Node::AcceptAway;
            wait.seen.is_reset = wait.how == End::Reset;
            wait.how = End::TurnedAway;
        }
    }
    waits.retain(|wait| !(is_unused(wait, tried) && served.shows(wait)));
    // One that the peer closed may be reset afterwards.
    let mut told = BTreeSet::new();
    waits.retain(|wait| {
        let is_away = wait.seen.is_untaken || served.shows(wait);
        wait.how != End::TurnedAway || (is_away && told.insert(wait.socket()))
    });
}

/// Return true for a connection on which nothing was said yet, to a service that closes such ones
/// without a greeting.
fn is_unused(wait: &Slow, tried: &BTreeMap<Key, Tried>) -> bool {
    let closes = tried.get(&wait.key).is_some_and(|of| of.count == of.failed);
    wait.key.root == Node::Greeting && wait.how == End::Open && closes
}

/// Return true for a connection to a service that speaks first, and needs no others to show that
/// it says more to clients that it wants.
fn is_greeted(wait: &Slow) -> bool {
    let is_away = wait.how == End::TurnedAway || is_silent(wait);
    let port = wait.key.service.port();
    is_away && wait.key.role == Role::Asks && SPEAKING_FIRST.contains(&port)
}

/// Return true for a connection that the peer ended right after its answer to a first question,
/// though by the protocol of its service clients end them.
fn is_refused_login(wait: &Slow) -> bool {
    let port = wait.key.service.port();
    let is_away = wait.how == End::TurnedAway && wait.key.role == Role::Asks;
    is_away && wait.seen.has_answered && !wait.seen.is_untaken && CLIENT_ENDS.contains(&port)
}

/// Return true for a connection that the peer closed at once, and without a word of either.
fn is_silent(wait: &Slow) -> bool {
    wait.key.root == Node::Greeting
        && matches!(wait.how, End::ClosedByPeer | End::Reset)
        && wait.time().max(wait.seen.age) <= AT_ONCE
}

/// Return all connections of the service of a key, where they were counted: at a service whichever
/// of its programs had them.
pub(in crate::diagnosis) fn tried(key: &Key, all: &BTreeMap<Key, Tried>) -> Option<Tried> {
    let is_of = |other: &Key| match key.role {
        Role::Serves => other.root == Node::AcceptAway && other.service == key.service,
        Role::Asks => {
            let root = Node::Connect;
            *other
                == Key {
                    root,
                    ..key.clone()
                }
        }
    };
    let of = all.iter().filter(|(other, _)| is_of(other));
    of.map(|(_, tried)| *tried).reduce(Tried::and)
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::{Flow, SocketCookie};
    use sockstamp_model::wait::{Attempts, Connection, Evidence, Kind, Wait, Waits};

    use super::*;
    use crate::diagnosis::tests::{MS, flow, sending, summary, wait};
    use crate::diagnosis::{Case, Scope};

    fn attempts(kind: Kind, service: &str, count: u64, failed: u64) -> Attempts {
        Attempts {
            key: sockstamp_model::wait::Key {
                kind,
                netns: sockstamp_model::flow::NetnsInode(1),
                protocol: sockstamp_model::flow::Protocol::Tcp,
                service: service.parse().unwrap(),
                pid: 7,
            },
            comm: "app".into(),
            count,
            failed,
            sum_ns: u128::from(count * MS),
            min_ns: sockstamp_model::clock::Nanos(MS),
            prompted: 0,
        }
    }

    /// Four connections that ended so, of which the peer had sent so much, and this end too.
    fn ended(kind: Kind, end: End, flow: Flow, sends: u32, receives: u32) -> Vec<Wait> {
        let one = |of: u64| {
            let mut wait = wait(kind, end, of * 500, 1);
            wait.flow = Flow {
                cookie: SocketCookie(of + 1),
                ..flow
            };
            wait.evidence = Evidence {
                connection: Some(Connection {
                    sends,
                    receives,
                    ..Connection::default()
                }),
                ..Evidence::default()
            };
            wait
        };
        (0..4).map(one).collect()
    }

    fn told(list: Vec<Wait>, attempts: Vec<Attempts>, sending: Vec<Sending>) -> Vec<String> {
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list,
            attempts,
            sending,
            ..Waits::default()
        });
        let findings = case.diagnose(&summary()).findings;
        findings.into_iter().map(|found| found.sentence).collect()
    }

    const SERVICE: &str = "0.0.0.0:11211";

    fn served() -> Flow {
        flow("10.0.0.1:11211", "10.0.0.2:40000")
    }

    #[test]
    fn a_service_that_serves_others_turns_some_away() {
        let away = || ended(Kind::Accept, End::TurnedAway, served(), 1, 0);
        let all = attempts(Kind::Accept, SERVICE, 10, 4);
        assert_eq!(
            told(away(), vec![all], vec![]),
            [
                "4 of 10 connections at app at :11211 were closed by it at once, without a read: the \
                 service has as many connections as it may, or does not want these clients"
            ]
        );
        // As one that tells the time to everybody, and closes.
        let clock = attempts(Kind::Accept, SERVICE, 4, 4);
        assert_eq!(told(away(), vec![clock.clone()], vec![]), [""; 0]);
        // Others are served on connections that stay.
        let stays = sending(
            flow("10.0.0.1:11211", "10.0.0.3:50000"),
            Connection {
                receives: 9,
                ..Connection::default()
            },
        );
        assert_eq!(told(away(), vec![clock], vec![stays]).len(), 1);
    }

    #[test]
    fn a_question_that_is_never_read_needs_no_others() {
        let mut away = ended(Kind::Accept, End::TurnedAway, served(), 0, 1);
        away.iter_mut().for_each(|wait| wait.bytes = 10);
        let said = told(away, vec![attempts(Kind::Accept, SERVICE, 4, 4)], vec![]);
        assert!(said[0].contains("4 of 4 connections at app"), "{said:?}");
        let fatal = ended(Kind::Accept, End::TurnedAway, served(), 1, 2);
        let said = told(fatal, vec![attempts(Kind::Accept, SERVICE, 9, 0)], vec![]);
        assert!(said[0].contains("4 of 9"), "{said:?}");
        assert!(said[0].contains("with a fatal error at once"), "{said:?}");
    }

    #[test]
    fn a_peer_that_answers_others_turns_some_away() {
        let to = flow("10.0.0.1:40000", "10.0.0.2:6379");
        let connects = attempts(Kind::Connect, "10.0.0.2:6379", 8, 0);
        let answers = attempts(Kind::Answer, "10.0.0.2:6379", 20, 0);
        let spoke = || ended(Kind::Greeting, End::TurnedAway, to, 0, 1);
        let silent = || ended(Kind::Greeting, End::ClosedByPeer, to, 0, 0);
        for away in [spoke(), silent()] {
            let said = told(
                away.clone(),
                vec![connects.clone(), answers.clone()],
                vec![],
            );
            assert_eq!(
                said,
                [
                    "4 of 8 connections of app to 10.0.0.2:6379 were closed by the peer at once, while \
                     it answers others: the service has as many connections as it may, or does not \
                     want these clients"
                ]
            );
            assert_eq!(told(away, vec![connects.clone()], vec![]), [""; 0]);
        }
    }

    /// As of a firewall that rejects what it does not know.
    #[test]
    fn new_connections_that_are_reset_may_be_rejected_on_the_way() {
        let to = flow("10.0.0.1:40000", "10.0.0.2:8080");
        let connects = attempts(Kind::Connect, "10.0.0.2:8080", 8, 0);
        let answers = attempts(Kind::Answer, "10.0.0.2:8080", 20, 0);
        let told = |end| {
            let away = ended(Kind::Greeting, end, to, 0, 0);
            told(away, vec![connects.clone(), answers.clone()], vec![]).remove(0)
        };
        let reset = told(End::Reset);
        assert!(
            reset.contains("were reset at once")
                && reset.contains("a firewall or a proxy on the way"),
            "{reset}"
        );
        assert!(!told(End::ClosedByPeer).contains("firewall"));
    }

    /// As of a database that has as many clients as it may. Elsewhere the peer may close.
    #[test]
    fn a_login_that_the_peer_ends_is_one_that_it_does_not_want() {
        let told = |service: &str| {
            let to = flow("10.0.0.1:40000", service);
            let away = ended(Kind::Greeting, End::TurnedAway, to, 1, 1);
            told(away, vec![attempts(Kind::Connect, service, 6, 0)], vec![])
        };
        assert_eq!(
            told("10.0.0.2:5432"),
            [
                "4 of 6 connections of app to 10.0.0.2:5432 were ended by the peer at once, after its \
                 answer to their first question (too many clients, a login that fails): the service has \
                 as many connections as it may, or does not want these clients"
            ]
        );
        assert_eq!(told("10.0.0.2:8000"), [""; 0]);
    }

    /// As of an SSH server with as many handshakes as it may have.
    #[test]
    fn who_speaks_first_and_says_no_more_wants_none() {
        let told = |port: u16, kind, end, sends, receives, unacknowledged| {
            let service = format!("10.0.0.2:{port}");
            let to = flow("10.0.0.1:40000", &service);
            let mut away = ended(kind, end, to, sends, receives);
            for wait in &mut away {
                let connection = wait.evidence.connection.as_mut().unwrap();
                connection.unacknowledged = unacknowledged;
            }
            told(away, vec![attempts(Kind::Connect, &service, 4, 0)], vec![])
        };
        let said = told(22, Kind::Greeting, End::TurnedAway, 1, 1, 0);
        assert_eq!(
            said,
            [
                "4 of 4 connections of app to 10.0.0.2:22 were closed by the peer at once, after its \
                 first words or without any: the service has as many connections as it may, or does not \
                 want these clients"
            ]
        );
        let silent = told(22, Kind::Greeting, End::ClosedByPeer, 0, 0, 0);
        assert!(silent[0].contains("4 of 4 connections"), "{silent:?}");
        let untaken = told(7000, Kind::Greeting, End::TurnedAway, 1, 1, 21);
        assert!(untaken[0].contains("4 of 4 connections"), "{untaken:?}");
        // One that answers a question, and resets its connection.
        let answered = told(8000, Kind::Greeting, End::TurnedAway, 1, 1, 0);
        assert_eq!(answered, [""; 0]);
    }

    /// As of clients that do not trust a certificate.
    #[test]
    fn clients_reject_what_a_service_shows_in_a_handshake() {
        let counted = attempts(Kind::Accept, SERVICE, 4, 0);
        let here = ended(Kind::Accept, End::Rejected, served(), 1, 2);
        assert_eq!(
            told(here, vec![counted], vec![]),
            [
                "4 of 4 connections at app at :11211 ended in the TLS handshake: after its part of it, \
                 the client sent an alert: clients do not accept the certificate, or the version or \
                 ciphers, that the service shows"
            ]
        );
        let to = flow("10.0.0.1:40000", "10.0.0.2:443");
        let connects = attempts(Kind::Connect, "10.0.0.2:443", 9, 0);
        let there = ended(Kind::Greeting, End::Rejected, to, 2, 1);
        let said = told(there, vec![connects], vec![]);
        assert!(
            said[0].starts_with(
                "4 of 9 connections of app to 10.0.0.2:443 ended in the TLS handshake"
            ),
            "{said:?}"
        );
    }

    /// As of a browser, which opens some for what may come.
    #[test]
    fn an_unused_connection_waits_for_no_greeting_of_who_never_greets() {
        let to = flow("10.0.0.1:40000", "10.0.0.2:6379");
        let open = || {
            let mut open = ended(Kind::Greeting, End::Open, to, 0, 0);
            let long = sockstamp_model::clock::Nanos(2_000 * MS);
            open.iter_mut()
                .for_each(|wait| (wait.lasted, wait.inside) = (long, long));
            open
        };
        let answers = attempts(Kind::Answer, "10.0.0.2:6379", 20, 0);
        let closed = attempts(Kind::Greeting, "10.0.0.2:6379", 2, 2);
        let greeted = attempts(Kind::Greeting, "10.0.0.2:6379", 3, 2);
        assert_eq!(told(open(), vec![answers.clone(), closed], vec![]), [""; 0]);
        assert_eq!(told(open(), vec![answers, greeted], vec![]).len(), 1);
    }
}
