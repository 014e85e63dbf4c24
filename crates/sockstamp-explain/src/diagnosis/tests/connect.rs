//! Connects, handshakes, greetings and accepts.

use super::*;

/// Connections with so many questions, one after the other, each a round trip of 40 ms; the answer
/// to the last takes `work` more.
fn opened(connections: u64, questions: u64, work: u64) -> Diagnosis {
    opened_each(1_000, connections, questions, work)
}

/// The same, so long after each other.
fn opened_each(step: u64, connections: u64, questions: u64, work: u64) -> Diagnosis {
    let mut case = Case::new(Scope::default());
    for of in 0..connections {
        let mut to = flow("10.0.0.1:40000", "10.0.0.2:80");
        to.cookie = SocketCookie(of + 1);
        let begin = 100 + of * step;
        let mut connect = fixture::message(Direction::Tx);
        connect.flow = to;
        connect.comm = "ab".into();
        connect.opened = Some(Opened::Connected);
        connect.stages[Stage::ConnHandshake] = Some(Nanos(40 * MS));
        (connect.stamps.entry, connect.stamps.queued) = (at(begin), at(begin + 40));
        case.message(&connect);
        for question in 1..=questions {
            let more = if question == questions { work } else { 0 };
            let mut answer = answer(to, "ab", begin + 40 * (question + 1) + more, 40 + more);
            answer.parts[Part::Network] = Some(Nanos(40 * MS));
            answer.opened = Some(Opened::Connected);
            case.message(&answer);
        }
    }
    case.ends(Timestamp::from_nanos(8_000 * MS));
    case.diagnose(&summary())
}

#[test]
fn a_connection_for_each_request_costs_a_handshake() {
    let told = opened_each(300, 5, 1, 0);
    assert_eq!(
        told.findings[0].sentence,
        "ab takes 80.0 ms for each request to 10.0.0.2:80, a new connection included (5 waits, at \
         most 80.0 ms): handshakes: each new connection costs round trips (conn.handshake): each \
         request opens a connection: 50 % of its time; connections that stay open (keep-alive) \
         save it"
    );
}

/// As of a timer that asks for a page each second: that costs it little.
#[test]
fn a_connection_now_and_then_costs_little() {
    let seldom = opened(5, 1, 0);
    assert_eq!(seldom.findings, []);
    assert!(
        seldom.notes[0]
            .ends_with("that is 4 % of the time of such connections, from the first to the last"),
        "{seldom:?}"
    );
}

/// As TLS has it, over a long path: no subscription, although a question is always open.
#[test]
fn a_handshake_of_several_questions_belongs_to_its_connection() {
    let told = opened_each(300, 5, 2, 0);
    assert_eq!(told.notes, [""; 0]);
    let sentence = &told.findings[0].sentence;
    assert!(
        sentence.contains("asks 2 questions") && sentence.contains("67 % of its time"),
        "{sentence}"
    );
    // The server's work is the larger part.
    let slow = opened(5, 2, 400);
    assert_eq!(slow.notes, [""; 0]);
    assert_eq!(slow.findings[0].node, Node::AnswerPeer);
    // Two of them show nothing yet, and are no subscription either.
    let [rest] = &opened(2, 2, 0).notes[..] else {
        panic!("{:?}", opened(2, 2, 0));
    };
    assert!(
        rest.starts_with("4 slow waits of ab at 10.0.0.2:80, at most 40.0 ms, are too seldom"),
        "{rest}"
    );
}

#[test]
fn a_refusal_followed_by_success_elsewhere_is_a_detour() {
    let refused = || (0..4).map(|of| wait(Kind::Connect, End::Refused, of * 500, 0));
    let here = tried(Kind::Connect, "10.0.0.2:6379", 4, 4);
    let there = tried(Kind::Connect, "10.0.0.3:6379", 4, 0);
    let alone = told_of(refused().collect(), vec![here.clone()]);
    assert!(
        alone.findings[0]
            .sentence
            .starts_with("4 of 4 connects of app to 10.0.0.2:6379 were refused"),
        "{alone:?}"
    );
    assert_eq!(told_of(refused().collect(), vec![here, there]).findings, []);
}

/// Connects that succeed at once are counted together.
#[test]
fn who_tries_ipv6_first_makes_a_detour() {
    let refused = |of: u64| {
        let mut wait = wait(Kind::Connect, End::Refused, of * 500, 0);
        wait.flow = flow("[::1]:40000", "[::1]:6379");
        wait
    };
    let mut case = Case::new(Scope::default());
    case.waits(&Waits {
        list: (0..4).map(refused).collect(),
        ..Waits::default()
    });
    let mut summary = summary();
    assert_eq!(case.diagnose(&summary).findings.len(), 1);
    summary.connections.opened = 4;
    assert_eq!(case.diagnose(&summary).findings, []);
}

#[test]
fn only_what_found_a_queue_full_makes_it_full() {
    let listener = |overflowed| ListenerSummary {
        local: "10.0.0.1:80".parse().unwrap(),
        netns: NetnsInode(1),
        queue: 0,
        limit: 4,
        dropped: 7,
        overflowed,
        unrouted: 0,
        half_open: None,
    };
    assert_eq!(full_queue(&listener(None)), None);
    assert_eq!(full_queue(&listener(Some(0))), None);
    let sentence = full_queue(&listener(Some(7))).unwrap();
    let expected = "the accept queue of 10.0.0.1:80 is full (0 of 4";
    assert!(sentence.starts_with(expected), "{sentence}");
}

/// As a mail server that looks up the names of its clients before it greets them.
#[test]
fn a_late_greeting_is_a_finding_and_a_connection_without_a_word_is_none() {
    let greeted = |end, lasted| {
        let list = (0..4).map(|of| {
            let mut wait = wait(Kind::Greeting, end, of * 2_000, lasted);
            wait.opened = Some(Opened::Connected);
            wait.flow.cookie = SocketCookie(of + 1);
            wait
        });
        list.collect::<Vec<_>>()
    };
    let tried = |count| vec![tried(Kind::Greeting, "10.0.0.2:6379", count, 4)];
    let first = |list, attempts| {
        let findings = told_of(list, attempts).findings.into_iter();
        findings.map(|finding| finding.sentence).next()
    };
    assert_eq!(
        first(greeted(End::Data, 1_200), Vec::new()).unwrap(),
        "10.0.0.2:6379 greets app 1.20 s late (4 waits, at most 1.20 s): the peer speaks first, and is \
         silent until then"
    );
    assert_eq!(
        first(greeted(End::GivenUp, 1_000), tried(9)).unwrap(),
        "4 of 9 connections of app to 10.0.0.2:6379 got no greeting, which others got, and were given \
         up after 1.00 s"
    );
    // Nobody knows that the peer speaks first.
    assert_eq!(first(greeted(End::GivenUp, 1_000), tried(4)), None);
}

#[test]
fn half_open_handshakes_are_no_full_accept_queue() {
    let told = |half_open| {
        let listener = ListenerSummary {
            local: "10.0.0.1:80".parse().unwrap(),
            netns: NetnsInode(1),
            queue: 0,
            limit: 4,
            dropped: 90,
            overflowed: Some(0),
            unrouted: 0,
            half_open,
        };
        let mut summary = summary();
        summary.listeners.push(listener);
        let diagnosis = Case::new(Scope::default()).diagnose(&summary);
        let mut findings = diagnosis.findings.into_iter();
        findings.next().map(|finding| finding.sentence)
    };
    let of = |refused, addresses| {
        told(Some(HalfOpen {
            refused,
            count: 64,
            addresses,
        }))
    };
    assert_eq!(told(None), None);
    assert_eq!(of(2, 60), None);
    assert_eq!(
        of(90, 60).unwrap(),
        "half-open handshakes fill the queue of 10.0.0.1:80, 64 from 60 addresses at the end: a \
         flood of SYNs, or the answers to them are lost: 90 SYNs found no room and were dropped, or \
         answered by SYN cookies"
    );
}

/// As after a change of the network, whose default route is gone.
#[test]
fn answers_to_syns_without_a_route_are_a_finding() {
    let told = |unrouted| {
        let mut summary = summary();
        summary.listeners.push(ListenerSummary {
            local: "10.0.0.1:80".parse().unwrap(),
            netns: NetnsInode(1),
            queue: 0,
            limit: 4,
            dropped: unrouted,
            overflowed: Some(0),
            unrouted,
            half_open: None,
        });
        let diagnosis = Case::new(Scope::default()).diagnose(&summary);
        let mut findings = diagnosis.findings.into_iter();
        findings.next().map(|finding| finding.sentence)
    };
    assert_eq!(told(2), None);
    assert_eq!(
        told(20).unwrap(),
        "20 SYNs to 10.0.0.1:80 were dropped: this host has no route back to their senders"
    );
}

/// The peer's own timer sends the answer to a SYN again, before the SYN itself is.
#[test]
fn a_handshake_costs_a_round_trip_and_no_more() {
    let connects = |lasted| {
        let slow = (0..4).map(|of| {
            let mut wait = wait(Kind::Connect, End::Data, of * 1_900, lasted);
            wait.flow.cookie = SocketCookie(of + 1);
            wait
        });
        let counted = tried(Kind::Connect, "10.0.0.2:6379", 30, 0);
        told_of(slow.collect(), vec![counted]).findings[0].node
    };
    assert_eq!(connects(1_010), Node::ConnectAgain);
    assert_eq!(connects(300), Node::ConnectLate);
}

#[test]
fn connections_that_wait_for_an_accept_are_those_of_the_end() {
    let told = |descriptors| {
        let accepted = [3_000, 5_600].map(|lasted| {
            let mut accepted = wait(Kind::Accept, End::Data, 100, lasted);
            accepted.flow.cookie = SocketCookie(lasted);
            accepted
        });
        let mut waiting = wait(Kind::Accept, End::Open, 3_000, 4_400);
        waiting.members = 21;
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: accepted.into_iter().chain([waiting]).collect(),
            ..Waits::default()
        });
        let pids = case.accepting();
        assert_eq!(pids.len(), 1);
        for (pid, descriptors) in pids.into_iter().zip(descriptors) {
            case.descriptors(pid, descriptors);
        }
        case.diagnose(&summary()).findings[0].sentence.clone()
    };
    let sentence = told(None);
    let expected = "21 connections wait to be accepted by app at :40000, the oldest for 4.40 s \
                    (2 others waited before, at most 5.60 s): the program accepts late (conn.accept)";
    assert_eq!(sentence, expected);
    let (open, limit) = (28, 28);
    assert_eq!(
        told(Some(Descriptors { open, limit })),
        format!(
            "{expected}; it had 28 descriptors open, and may have 28: without a free one accept() \
             fails (EMFILE)"
        )
    );
}

/// The listener of a service on this host shows why SYNs have no answer.
#[test]
fn a_full_accept_queue_of_a_service_on_this_host_is_named_if_it_was_full_meanwhile() {
    let told = |end: End, at: u64| {
        let connect = |of: u64| {
            let mut wait = wait(Kind::Connect, end, of * 2_000, 1_500);
            wait.evidence.syns = Some(2);
            wait
        };
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: (0..3).map(connect).collect(),
            ..Waits::default()
        });
        for asked in case.connecting() {
            let process = Some((7, "web".into()));
            case.there(
                asked,
                There {
                    process,
                    netns: None,
                },
            );
            for of in 0..3 {
                let look = FullQueue {
                    at: Timestamp::from_nanos((of * 2_000 + at) * MS),
                    queue: 3,
                    limit: 2,
                };
                case.full_queue(asked.0, asked.1, look);
            }
        }
        case.sleeps((0..20).map(|of| SleepLook {
            tasks: [(7, Some(Sleep::Stopped))].into(),
            ..SleepLook::new(7, Timestamp::from_nanos((of * 300 + 100) * MS))
        }));
        case.diagnose(&summary()).findings[0].sentence.clone()
    };
    let open = told(End::Data, 700);
    assert!(
        open.contains(
            "the accept queue of the service, on this host, is full (Recv-Q 3, Send-Q 2, ss -lnt); \
             web (PID 7), on this host, does not accept in time: its tasks sleep: they are stopped \
             (SIGSTOP, a debugger), at 14 of 14 looks"
        ),
        "{open}"
    );
    let given_up = told(End::GivenUp, 700);
    assert!(
        given_up.contains("is full (Recv-Q 3, Send-Q 2, ss -lnt); web"),
        "{given_up}"
    );
    // A look between the waits.
    let before = told(End::Data, 1_800);
    assert!(before.contains("SYNs are sent again"), "{before}");
}

/// As of SYNs with ECN, which some paths drop: Linux sends them again without. Chance spares some.
#[test]
fn connects_that_all_come_through_with_their_second_syn_say_so() {
    let told = |times: [u64; 6]| {
        let connects = times.iter().zip(0_u64..).map(|(&time, of)| {
            let mut connect = wait(Kind::Connect, End::Data, of * 1_200, time);
            connect.evidence.syns = Some(2);
            connect
        });
        let list: Vec<_> = connects.collect();
        let attempts = tried(Kind::Connect, "10.0.0.2:6379", 6, 0);
        told_of(list, vec![attempts]).findings[0].sentence.clone()
    };
    let each = told([1_003, 1_010, 1_002, 1_001, 1_003, 1_020]);
    assert!(
        each.contains("each comes through with its second SYN"),
        "{each}"
    );
    let some = told([1_003, 1_010, 3_040, 1_001, 1_003, 1_020]);
    assert!(!some.contains("second SYN"), "{some}");
}

/// As by a firewall that lets a client have so many connections.
#[test]
fn connects_that_are_refused_beside_connections_that_are_answered_meet_a_limit() {
    let told = |end, answers: &str, lasted| {
        let refused = (0..4).map(|of| {
            let mut wait = wait(Kind::Connect, end, of * 500, lasted);
            wait.flow.cookie = SocketCookie(of + 1);
            wait
        });
        let connects = tried(Kind::Connect, "10.0.0.2:6379", 4, 4);
        let answers = tried(Kind::Answer, answers, 9, 0);
        let told = told_of(refused.collect(), vec![connects, answers]);
        told.findings[0].sentence.clone()
    };
    let limited = told(End::Refused, "10.0.0.2:6379", 2);
    assert!(
        limited.contains("4 of 4 connects") && limited.contains("service limits them"),
        "{limited}"
    );
    let nobody = told(End::Refused, "10.0.0.2:80", 2);
    assert!(nobody.contains("nothing listens there"), "{nobody}");
    let rejected = told(End::Unreachable, "10.0.0.2:80", 6);
    assert!(rejected.contains("rejects them by ICMP"), "{rejected}");
    for (answers, lasted) in [("10.0.0.3:80", 6), ("10.0.0.2:80", 3_060)] {
        let gone = told(End::Unreachable, answers, lasted);
        assert!(!gone.contains("ICMP"), "{gone}");
    }
}
