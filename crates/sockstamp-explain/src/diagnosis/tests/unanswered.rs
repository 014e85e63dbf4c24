//! Questions and connects without an answer.

use super::*;

/// As an upload of which only segments of full size vanish.
#[test]
fn what_was_never_delivered_is_lost_on_the_way_there() {
    let open = |bytes, heard_ago| {
        let mut wait = wait(Kind::Answer, End::Open, 0, 2_000);
        wait.opened = Some(Opened::Connected);
        wait.evidence.connection = Some(Connection {
            min_rtt: Some(Nanos(10 * MS)),
            unacknowledged: bytes,
            backoff: 3,
            segment: 1_448,
            heard_ago: Some(Nanos(heard_ago * MS)),
            ..Connection::default()
        });
        told_of(vec![wait], Vec::new()).findings[0].sentence.clone()
    };
    let large = open(20_000, 1_900);
    assert!(large.contains("only full-size segments vanish"), "{large}");
    for other in [open(20_000, 5_000), open(200, 1_900)] {
        assert!(
            other.contains("questions are lost on the way there"),
            "{other}"
        );
        assert!(!other.contains("MTU"), "{other}");
    }
}

#[test]
fn requests_without_an_answer_are_a_finding() {
    let given_up = (0..3).map(|of| wait(Kind::Answer, End::GivenUp, of * 3_100, 3_000));
    let diagnosis = told_of(
        given_up.collect(),
        vec![tried(Kind::Answer, "10.0.0.2:6379", 3, 3)],
    );
    assert_eq!(
        diagnosis.findings[0].sentence,
        "3 of 3 requests of app to 10.0.0.2:6379 got no answer and were given up after 3.00 s, as by a \
         timeout of its own"
    );
}

/// A measurement of some questions to a name server that were asked again after so many ms.
fn asked_again(after: u64, mean: u64) -> Diagnosis {
    asked_of("10.0.0.2:53", after, 20, mean)
}

/// The same of any service, which answers so many others.
fn asked_of(service: &str, after: u64, answered: u64, mean: u64) -> Diagnosis {
    let asked = (0..4).map(|of| {
        let mut wait = wait(Kind::Answer, End::AskedAgain, of * 1_500, after);
        wait.flow = flow(&format!("10.0.0.1:{}", 40_000 + of), service);
        wait.flow.protocol = Protocol::Udp;
        wait
    });
    let mut all = tried(Kind::Answer, service, answered, 0);
    all.sum_ns = u128::from(answered * mean * MS);
    told_of(asked.collect(), vec![all])
}

#[test]
fn questions_that_are_asked_again_got_no_answer_from_who_answers_the_others_at_once() {
    let fails = |service, answered, mean| {
        let diagnosis = asked_of(service, 1_000, answered, mean);
        let mut told = diagnosis.findings.into_iter();
        told.find(|finding| finding.failure.is_some())
            .map(|finding| finding.sentence)
    };
    assert_eq!(
        fails("10.0.0.2:161", 20, 1).unwrap(),
        "4 of 24 requests of app to 10.0.0.2:161 got no answer and were asked again after 1.00 s"
    );
    assert!(fails("10.0.0.2:7000", 20, 1).is_some());
    // RADIUS and NTP servers that are down.
    assert!(fails("10.0.0.2:1812", 0, 1).is_some());
    assert!(fails("10.0.0.2:123", 0, 1).is_some());
    // A sleepy device answers the second question.
    assert_eq!(fails("10.0.0.2:5683", 4, 1), None);
    // A slow server is asked one after another; nobody may have such an address (STUN).
    assert_eq!(fails("10.0.0.2:7000", 20, 250), None);
    assert_eq!(fails("10.0.0.2:40001", 0, 1), None);
    // QUIC, logs; and any host of a network.
    assert_eq!(fails("10.0.0.2:443", 0, 1), None);
    assert_eq!(fails("10.0.0.2:514", 0, 1), None);
    assert_eq!(fails("224.0.0.251:161", 0, 1), None);
}

#[test]
fn names_that_are_asked_for_again_got_no_answer() {
    let diagnosis = asked_again(1_000, 1);
    assert_eq!(
        diagnosis.findings[0].sentence,
        "4 of 24 requests of app to 10.0.0.2:53 (DNS) got no answer and were asked again after 1.00 s"
    );
    assert_eq!(diagnosis.notes, [""; 0]);
}

/// As of a resolver that has kept its socket for longer than a NAT knows its server.
#[test]
fn a_socket_that_gets_no_answer_is_told_from_those_that_do() {
    let told = |sockets: u64, pause: u64, others: u64| {
        let asked = (0..4).map(|of| {
            let mut wait = wait(Kind::Answer, End::AskedAgain, of * (1_000 + pause), 1_000);
            wait.flow = flow("10.0.0.1:40000", "10.0.0.2:53");
            wait.flow.cookie = SocketCookie(of % sockets);
            wait.flow.protocol = Protocol::Udp;
            wait
        });
        let mut all = tried(Kind::Answer, "10.0.0.2:53", others, 0);
        (all.comm, all.key.pid) = ("other".into(), 9);
        told_of(asked.collect(), vec![all]).findings[0]
            .sentence
            .clone()
    };
    let one = told(1, 0, 20);
    assert!(
        one.contains("all are of one socket (local port 40000)"),
        "{one}"
    );
    // By turns; with an answer between two questions; nobody else is answered.
    for other in [told(2, 0, 20), told(1, 300, 20), told(1, 0, 0)] {
        assert!(!other.contains("one socket"), "{other}");
    }
}

#[test]
fn questions_to_a_slow_name_server_may_follow_each_other() {
    let diagnosis = asked_again(100, 250);
    let mut told = diagnosis.findings.iter();
    assert!(
        !told.any(|finding| finding.failure.is_some()),
        "{diagnosis:?}"
    );
}

#[test]
fn a_next_hop_that_does_not_answer_is_named_in_place_of_losses() {
    let mut open = wait(Kind::Answer, End::Open, 0, 4_000);
    open.opened = Some(Opened::Connected);
    open.evidence.connection = Some(Connection {
        unacknowledged: 200,
        backoff: 3,
        segment: 1_448,
        ..Connection::default()
    });
    let given_up = |of: u64| {
        let mut wait = wait(Kind::Connect, End::GivenUp, of * 1_000, 700);
        wait.flow.cookie = SocketCookie(of + 9);
        wait
    };
    let told = |list, neighbour: Option<(bool, &str)>, attempts| {
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list,
            attempts,
            ..Waits::default()
        });
        for ((from, peer), (is_set, address)) in case.unheard().into_iter().zip(neighbour) {
            let neighbour = Neighbour {
                is_set,
                address: address.parse().unwrap(),
                device: "eth0".into(),
            };
            case.neighbour(from, peer, neighbour);
        }
        case.diagnose(&summary()).findings[0].sentence.clone()
    };
    let silent = told(vec![open.clone()], Some((false, "10.0.0.254")), Vec::new());
    let expected = "the next hop does not answer to its address (ARP, neighbour discovery): \
                    10.0.0.254 on eth0";
    assert!(silent.ends_with(expected), "{silent}");
    let lost = told(vec![open.clone()], None, Vec::new());
    assert!(lost.contains("lost on the way there"), "{lost}");
    let connects = told(
        (0..4).map(given_up).collect(),
        Some((false, "10.0.0.254")),
        Vec::new(),
    );
    assert!(connects.ends_with(expected), "{connects}");
    let set = told(vec![open.clone()], Some((true, "10.0.0.2")), Vec::new());
    assert!(
        set.contains("set the link address of 10.0.0.2 on eth0"),
        "{set}"
    );
    // Others may be reached by that of a gateway.
    let gateway = told(vec![open.clone()], Some((true, "10.0.0.254")), Vec::new());
    assert!(!gateway.contains("link address"), "{gateway}");
    let answers = vec![tried(Kind::Answer, "10.0.0.2:22", 5, 0)];
    let right = told(vec![open], Some((true, "10.0.0.2")), answers);
    assert!(!right.contains("link address"), "{right}");
}

/// Small questions on other connections are answered.
#[test]
fn only_large_questions_vanish_where_small_ones_are_answered() {
    let vanished = |answered| {
        let open = (0..3).map(|of| {
            let mut wait = wait(Kind::Answer, End::Open, of * 10, 2_000);
            wait.opened = Some(Opened::Connected);
            wait.flow.cookie = SocketCookie(of + 1);
            wait.evidence.connection = Some(Connection {
                min_rtt: Some(Nanos(10 * MS)),
                unacknowledged: 20_000,
                backoff: 3,
                segment: 1_448,
                ..Connection::default()
            });
            wait
        });
        let tried = tried(Kind::Answer, "10.0.0.2:6379", answered, 0);
        told_of(open.collect(), vec![tried]).findings[0]
            .sentence
            .clone()
    };
    assert!(vanished(40).contains("MTU"), "{}", vanished(40));
    assert!(!vanished(0).contains("MTU"), "{}", vanished(0));
}

/// As where a firewall has forgotten idle connections, and a busy one goes on.
#[test]
fn requests_that_never_arrive_are_worth_saying_beside_many_that_do() {
    let told = |acknowledged| {
        let given_up = (0..3).map(|of| {
            let mut wait = wait(Kind::Answer, End::GivenUp, of * 2_100, 2_000);
            wait.flow.cookie = SocketCookie(of + 9);
            wait.evidence.resent = Some(4);
            wait.evidence.acknowledged = acknowledged;
            wait
        });
        let counted = tried(Kind::Answer, "10.0.0.2:6379", 106, 3);
        told_of(given_up.collect(), vec![counted]).findings
    };
    assert!(told(None)[0].sentence.starts_with("3 of 106 requests"));
    assert_eq!(told(Some(Nanos(20_000))), []);
}

#[test]
fn idle_connections_of_which_nothing_arrives_may_be_forgotten() {
    let told = |pause: u64, all: u64| {
        let given_up = (0..3).map(|of| {
            let mut wait = wait(Kind::Answer, End::GivenUp, of * 5_100, 2_000);
            wait.flow.cookie = SocketCookie(of + 9);
            wait.evidence.resent = Some(4);
            wait.evidence.connection = Some(Connection {
                received_ago: Some(Nanos((2_000 + pause) * MS)),
                unacknowledged: 20,
                backoff: 3,
                ..Connection::default()
            });
            wait
        });
        let counted = tried(Kind::Answer, "10.0.0.2:6379", all, 3);
        told_of(given_up.collect(), vec![counted]).findings[0]
            .sentence
            .clone()
    };
    let forgotten = told(3_000, 6);
    assert!(
        forgotten.contains("all idle for at least 3.00 s before")
            && forgotten.contains("may forget idle connections"),
        "{forgotten}"
    );
    // A path that loses, and one that is gone.
    for others in [told(100, 6), told(3_000, 3)] {
        assert!(!others.contains("forget"), "{others}");
    }
}

/// As a query that waits for a row that another session has locked, and never ends.
#[test]
fn a_question_whose_server_waits_for_a_lock_is_no_subscription() {
    let told = |sleep: Sleep| {
        let mut hanging = wait(Kind::Answer, End::Open, 0, 8_000);
        hanging.lasted = Nanos(95_000 * MS);
        hanging.since = Timestamp::from_nanos(0);
        hanging.evidence.acknowledged = Some(Nanos(MS));
        let mut case = Case::new(Scope::default());
        let asked = (hanging.flow.netns, hanging.flow.remote, hanging.flow.local);
        case.waits(&Waits {
            list: vec![hanging],
            ..Waits::default()
        });
        let process = Some((9, "postgres".into()));
        let netns = None;
        case.there(asked, There { process, netns });
        case.sleeps((0..20).map(|of| SleepLook {
            tasks: [(9, Some(sleep.clone()))].into_iter().collect(),
            stirred: [9].into(),
            ..SleepLook::new(9, Timestamp::from_nanos((93_000 + of * 50) * MS))
        }));
        case.diagnose(&summary())
    };
    let locked = told(Sleep::SessionLock);
    assert_eq!(
        locked.findings[0].sentence,
        "10.0.0.2:6379 does not answer app for 8.00 s (1 wait, open for 95.0 s): the work of postgres \
         (PID 9), on this host: its tasks sleep: a lock that another session holds, by their titles \
         (waiting), at 20 of 20 looks; or the way there and back"
    );
    let news = told(Sleep::Idle);
    assert_eq!((news.findings.len(), news.notes.len()), (0, 1));
}

/// As hedged requests: the slower one is closed.
#[test]
fn what_is_given_up_at_once_may_be_cancelled() {
    let told_of_all = |lasted: u64, all| {
        let waits = (0..6).map(|of| wait(Kind::Answer, End::GivenUp, of * 700, lasted));
        told_of(
            waits.collect(),
            vec![tried(Kind::Answer, "10.0.0.2:6379", all, 6)],
        )
    };
    let told = |lasted| told_of_all(lasted, 20);
    let cancelled = told(18);
    assert_eq!(cancelled.findings, []);
    assert!(
        cancelled.notes[0]
            .ends_with("it may have cancelled them, as who asks two services at once"),
        "{cancelled:?}"
    );
    assert_eq!(told(180).findings.len(), 1);
    // No question was answered: a timeout that is short.
    assert_eq!(told_of_all(18, 6).findings.len(), 1);
}

/// A service that closes connections without an answer has no wait where it does so at once: all
/// that failed stands with who asked, unless all of it has a wait there.
#[test]
fn failures_of_one_service_stand_on_one_side() {
    let told = |times: [u64; 3]| {
        let ends = |of: usize| (format!("10.0.0.1:{}", 40_000 + of), "10.0.0.2:80");
        let asked = times.into_iter().enumerate().map(|(of, lasted)| {
            let mut asked = wait(Kind::Answer, End::ClosedByPeer, of as u64 * 500, lasted);
            asked.flow = flow(&ends(of).0, ends(of).1);
            asked.opened = Some(Opened::Connected);
            asked
        });
        let slow = times.into_iter().enumerate();
        let served = slow
            .filter(|(_, lasted)| *lasted >= 10)
            .map(|(of, lasted)| {
                let mut served = wait(Kind::Service, End::GivenUp, of as u64 * 500, lasted);
                served.flow = flow(ends(of).1, &ends(of).0);
                served.pid = 8;
                served.opened = Some(Opened::Accepted);
                served
            });
        let served: Vec<_> = served.collect();
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            owed: served.iter().map(|served| served.flow.cookie).collect(),
            list: asked.chain(served).collect(),
            attempts: vec![tried(Kind::Answer, "10.0.0.2:80", 3, 3)],
            ..Waits::default()
        });
        let findings = case.diagnose(&summary()).findings.into_iter();
        let count = |finding: Finding| (finding.role, finding.failure, finding.count);
        findings.map(count).collect::<Vec<_>>()
    };
    let by_asker = [(Role::Asks, Some(End::ClosedByPeer), 3)];
    assert_eq!(told([0, 0, 0]), by_asker);
    assert_eq!(told([14, 0, 0]), by_asker);
    assert_eq!(told([14, 15, 0]), by_asker);
    let by_service = [(Role::Serves, Some(End::GivenUp), 3)];
    assert_eq!(told([14, 15, 16]), by_service);
}

#[test]
fn what_never_arrived_comes_before_what_is_still_sent_again() {
    let lost = |end, of: u64, lasted| {
        let mut wait = wait(Kind::Answer, end, of * 10, lasted);
        wait.opened = Some(Opened::Connected);
        wait.flow.cookie = SocketCookie(of + 1);
        wait.evidence.resent = Some(4);
        wait.evidence.connection = Some(Connection {
            unacknowledged: 20,
            backoff: 3,
            ..Connection::default()
        });
        wait
    };
    let given_up = (0..3).map(|of| lost(End::GivenUp, of, 1_500));
    let late = (10..16).map(|of| lost(End::Open, of, 3_000));
    let told = told_of(given_up.chain(late).collect(), Vec::new());
    let [never, late] = &told.findings[..] else {
        panic!("{told:#?}");
    };
    assert!(never.lost < late.lost);
    assert!(
        never.sentence.contains("never acknowledged"),
        "{}",
        never.sentence
    );
    assert_eq!(late.failure, None);
}
