//! Who waits for news, and who waits for an answer.

use std::collections::BTreeSet;

use super::*;

#[test]
fn a_connection_that_always_waits_is_a_note() {
    let to = flow("10.0.0.1:40000", "10.0.0.2:6379");
    let answers: Vec<_> = (1..9)
        .map(|of| answer(to, "worker", of * 701, 700))
        .collect();
    let diagnosis = told(&answers);
    assert_eq!(diagnosis.findings, []);
    assert!(
        diagnosis.notes[0].starts_with(
            "worker waits for 10.0.0.2:6379 for 5.60 s of 8.00 s on 1 connection, at most 700 ms"
        ),
        "{diagnosis:?}"
    );
    assert!(diagnosis.notes[0].contains("a pool of connections that is full"));
    // News come at any time.
    let times = [700, 90, 400, 650, 120, 300, 700, 500];
    let news = times.into_iter().scan(10, |end, time| {
        *end += time + 1;
        Some(answer(to, "worker", *end, time))
    });
    let news = told(&news.collect::<Vec<_>>());
    assert!(news.notes[0].contains("for work or news"), "{news:?}");
    let command = Scope {
        is_command: true,
        ..Scope::default()
    };
    assert_eq!(told_in(command, &answers).findings.len(), 1);
}

/// Idle for a second before the question, and mostly answered: no subscription.
#[test]
fn a_question_after_a_pause_is_no_subscription() {
    let asked = |receives| {
        let mut wait = wait(Kind::Answer, End::Open, 0, 5_000);
        wait.evidence.acknowledged = Some(Nanos(MS));
        wait.evidence.connection = Some(Connection {
            sends: 10,
            receives,
            received_ago: Some(Nanos(6_000 * MS)),
            ..Connection::default()
        });
        told_of(vec![wait], Vec::new())
    };
    assert_eq!(
        asked(10).findings[0].sentence,
        "10.0.0.2:6379 does not answer app for 5.00 s (1 wait): the host there acknowledges: its \
         program does not read or answer, or the answer is lost"
    );
    // Most of what it sends is not answered: it may be figures, or a log.
    assert_eq!(asked(4).findings, []);
}

#[test]
fn a_proxy_with_a_request_waits_for_no_news() {
    let below = flow("10.0.0.2:50000", "10.0.0.3:5432");
    let asked = |of: u64| {
        let mut asked = answer(below, "nginx", of * 101, 100);
        asked.pid = 20;
        asked
    };
    let served = |of: u64| {
        let here = flow("10.0.0.2:8080", &format!("10.0.0.1:{}", 40_000 + of));
        let mut service = sent(here, of * 101 + 200, Part::Other, 0);
        service.opened = Some(Opened::Accepted);
        service.stages[Stage::AppService] = Some(Nanos(320 * MS));
        service.pid = 20;
        service
    };
    let loop_of_questions: Vec<_> = (1..12).map(asked).collect();
    assert_eq!(told(&loop_of_questions).findings, []);
    let requests = (2..11).map(served);
    let all: Vec<_> = loop_of_questions.iter().cloned().chain(requests).collect();
    let sentences: Vec<_> = told(&all)
        .findings
        .into_iter()
        .map(|finding| finding.sentence)
        .collect();
    let names = |start: &str| sentences.iter().any(|of| of.starts_with(start));
    assert!(
        names("10.0.0.3:5432 takes 100 ms to answer nginx"),
        "{sentences:?}"
    );
}

/// As workers that wait for jobs of a queue, which answers its other clients at once.
#[test]
fn a_connection_that_waits_for_times_of_all_lengths_is_a_note() {
    let here = flow("10.0.0.1:6379", "10.0.0.2:50000");
    let told = |times: [u64; 5], received| {
        let mut case = Case::new(Scope::default());
        let mut begin = 200;
        for time in times {
            let mut service = sent(here, begin + time, Part::Other, 0);
            service.opened = Some(Opened::Accepted);
            service.stages[Stage::AppService] = Some(Nanos(time * MS));
            service.pid = 20;
            case.message(&service);
            begin += time + 100;
        }
        case.waits(&Waits {
            sending: vec![Sending {
                receives: received,
                ..sending(here, Connection::default())
            }],
            ..answered("10.0.0.1:6379", 20)
        });
        case.diagnose(&summary())
    };
    let irregular = [90, 400, 700, 60, 250];
    let worker = told(irregular, 5);
    assert_eq!(worker.findings, []);
    assert!(
        worker.notes[0].contains("has a request open for 1.50 s of 8.00 s"),
        "{worker:?}"
    );
    // The worker says of each job that it is done, and asks for the next.
    assert_eq!(told(irregular, 11).findings, []);
    // Most of what this connection asks is answered at once; or it always takes as long.
    assert_eq!(told(irregular, 20).findings.len(), 1);
    assert_eq!(told([300; 5], 5).findings.len(), 1);
}

/// A subscriber confirms each piece of news at once; some confirmations belong to nothing known.
#[test]
fn who_confirms_what_is_pushed_asks_nothing() {
    let news = (0..12).filter(|of| of % 4 != 3);
    let confirmed = news.map(|of| wait(Kind::Answer, End::Data, of * 700, 695));
    let mut loose = told_of(confirmed.collect(), Vec::new());
    assert_eq!(loose.findings, []);
    assert_eq!(loose.notes.len(), 1);
    // With pauses of its own, it asks.
    let asked = (0..8).map(|of| wait(Kind::Answer, End::Data, of * 900, 600));
    loose = told_of(asked.collect(), Vec::new());
    assert_eq!(loose.findings.len(), 1);
}

#[test]
fn a_question_that_never_arrived_is_no_subscription() {
    let notes = |resent| {
        let mut wait = wait(Kind::Answer, End::Open, 7_400, 540);
        wait.opened = None;
        wait.evidence.resent = Some(resent);
        told_of(vec![wait], Vec::new()).notes.len()
    };
    assert_eq!([notes(0), notes(2)], [1, 0]);
}

/// As the connection of a program to itself, which has nothing to say.
#[test]
fn an_idle_connection_that_spoke_last_is_no_question() {
    let idle = |receives| {
        let mut wait = wait(Kind::Answer, End::Open, 0, 6_000);
        wait.opened = Some(Opened::Connected);
        wait.evidence.connection = Some(Connection {
            sends: 2,
            receives,
            received_ago: Some(Nanos(6_000 * MS)),
            ..Connection::default()
        });
        told_of(vec![wait], Vec::new()).findings.len()
    };
    assert_eq!(idle(1), 0);
    assert_eq!(idle(0), 1);
}

/// Answers of one connection that came after these times, in milliseconds, each asked for 20 ms
/// after the one before, and as many at once.
fn held(times: &[u64]) -> Diagnosis {
    let to = flow("10.0.0.1:40000", "10.0.0.2:9092");
    let mut case = Case::new(Scope::default());
    let mut end = 0;
    for time in times {
        end += time + 200;
        case.message(&answer(to, "consumer", end, *time));
    }
    let count = times.len() as u64 * 2;
    case.waits(&Waits {
        attempts: vec![Attempts {
            comm: "consumer".into(),
            ..tried(Kind::Answer, "10.0.0.2:9092", count, 0)
        }],
        ..Waits::default()
    });
    case.diagnose(&summary())
}

/// As consumers of a log that fetch for half a second at most, and confirm what they get.
#[test]
fn what_comes_at_a_limit_or_at_any_time_before_is_held() {
    let fetches = held(&[500, 501, 310, 500, 390, 500, 180, 501]);
    assert_eq!(fetches.findings, []);
    assert!(
        fetches.notes[0].contains("waits for 10.0.0.2:9092 for 3.38 s"),
        "{fetches:?}"
    );
    // Always as slow; slow or not so slow; of all lengths without a limit.
    for slow in [
        [500; 8],
        [500, 500, 500, 500, 90, 91, 90, 92],
        [500, 430, 310, 90, 390, 240, 180, 60],
    ] {
        assert_eq!(held(&slow).findings.len(), 1, "{slow:?}");
    }
}

/// As pages that ask for news with a connection each.
#[test]
fn connections_for_one_question_that_follow_each_other_are_as_one() {
    let told = |pause: u64, others: u64| {
        let mut case = Case::new(Scope::default());
        for of in 0..5 {
            let to = flow(&format!("10.0.0.1:{}", 40_000 + of), "10.0.0.2:80");
            let mut news = answer(to, "page", (of + 1) * (1_000 + pause), 1_000);
            news.opened = Some(Opened::Connected);
            case.message(&news);
        }
        case.waits(&Waits {
            attempts: vec![Attempts {
                comm: "page".into(),
                ..tried(Kind::Answer, "10.0.0.2:80", 5 + others, 0)
            }],
            ..Waits::default()
        });
        case.diagnose(&summary()).findings.len()
    };
    assert_eq!(told(20, 30), 0);
    // Connections are opened on demand; or it answers nothing at once.
    assert_eq!(told(400, 30), 1);
    assert_eq!(told(20, 0), 1);
}

/// Workers open a connection for each wait for a job; the queue's event loop has nothing to do.
#[test]
fn an_event_loop_here_that_asks_nobody_waits_for_news() {
    let told = |for_clients: BTreeSet<u32>, slept: Sleep| {
        let mut case = Case::new(Scope::default());
        for (of, time) in [880, 1_300, 2_000, 900].into_iter().enumerate() {
            let to = flow(&format!("10.0.0.1:4000{of}"), "10.0.0.2:6379");
            let mut answer = answer(to, "worker", of as u64 * 2_100 + time, time);
            answer.opened = Some(Opened::Connected);
            case.message(&answer);
            let there = There {
                process: Some((7, "queue".into())),
                netns: None,
            };
            case.there((to.netns, to.remote, to.local), there);
        }
        let look = |at: u64| SleepLook {
            tasks: [(7, Some(Sleep::Idle)), (8, Some(slept.clone()))].into(),
            for_clients: for_clients.clone(),
            stirred: [7, 8].into(),
            ..SleepLook::new(7, Timestamp::from_nanos(at * 100 * MS))
        };
        case.sleeps((0..90).map(look));
        let diagnosis = case.diagnose(&summary());
        let told = |of: &Finding| of.sentence.clone();
        (diagnosis.findings.first().map(told), diagnosis.notes)
    };
    let (finding, notes) = told([7].into(), Sleep::Lock);
    assert_eq!(finding, None);
    assert!(notes[0].contains("for work or news"), "{notes:?}");
    // Such a process may ask others, or a thread of it works.
    let (finding, _) = told(BTreeSet::new(), Sleep::Lock);
    assert!(finding.is_some_and(|finding| finding.contains("the work of queue (PID 7)")));
    let (finding, _) = told([7].into(), Sleep::Disk);
    assert!(finding.is_some());
}

/// As a long poll that a proxy passes on: somebody waits for it, and gets it when its time is over.
#[test]
fn an_event_loop_that_answers_most_at_once_and_some_after_one_long_time_is_polled() {
    let told_of = |times: [u64; 4], all: u64, asked: u64| {
        let mut case = Case::new(Scope::default());
        for (of, time) in (0_u16..).zip(times) {
            let to = flow(&format!("10.0.0.1:4000{of}"), "10.0.0.2:8080");
            let end = u64::from(of) * 1_600 + 2_100;
            let mut passed_on = answer(to, "proxy", end, time);
            passed_on.opened = Some(Opened::Connected);
            passed_on.pid = 30;
            case.message(&passed_on);
            let mut request = service(50_000 + of, end, time + 2);
            request.pid = 30;
            case.message(&request);
            let there = There {
                process: Some((20, "node".into())),
                netns: None,
            };
            case.there((to.netns, to.remote, to.local), there);
        }
        // Timers of its own may end any of them.
        case.sleeps((0..90).map(|at| SleepLook {
            ends_after: [(20, Nanos(150 * MS))].into(),
            ..idle_loop(at)
        }));
        let attempts = Attempts {
            comm: "proxy".into(),
            ..tried(Kind::Answer, "10.0.0.2:8080", all, 0)
        };
        let of_service = |kind, service, count| {
            let mut tried = tried(kind, service, count, 0);
            (tried.comm, tried.key.pid) = ("node".into(), 20);
            tried
        };
        let requests = of_service(Kind::Service, "10.0.0.2:8080", all);
        let questions = of_service(Kind::Answer, "10.0.0.3:5432", asked);
        case.waits(&Waits {
            attempts: vec![attempts, requests, questions],
            ..Waits::default()
        });
        let found = case.diagnose(&summary()).findings;
        found.iter().any(|found| found.node.root() == Node::Answer)
    };
    let told = |times, all| told_of(times, all, 0);
    assert!(!told([2_001, 2_000, 2_003, 2_001], 8));
    // Questions are those of pages beside it.
    assert!(!told_of([2_001, 2_000, 2_003, 2_001], 8, 8));
    assert!(!told_of([2_001, 2_000, 2_003, 2_001], 8, 160));
    // No timer has such a length.
    assert!(told([2_301, 2_300, 2_303, 2_301], 8));
    // All that it answers is slow; or after times of all lengths, or no long one.
    assert!(told([2_001, 2_000, 2_003, 2_001], 5));
    assert!(told([2_001, 1_000, 1_400, 1_700], 8));
    assert!(told([501, 500, 502, 502], 8));
}

/// As of a chat, in which nobody answers, and others' lines come.
#[test]
fn what_other_clients_prompt_is_no_answer() {
    let told = |prompted: u64| {
        let lines = (0..8).map(|of| {
            let mut line = wait(Kind::Service, End::Data, of * 900, 100 + of * 50);
            line.opened = Some(Opened::Accepted);
            line.flow = flow("10.0.0.1:6667", &format!("10.0.0.{}:4000", 2 + of % 4));
            line
        });
        let counted = Attempts {
            prompted,
            ..tried(Kind::Service, "10.0.0.1:6667", 8, 0)
        };
        told_of(lines.collect(), vec![counted])
    };
    for prompted in [6, 8] {
        let chat = told(prompted);
        assert_eq!(chat.findings, []);
        assert!(chat.notes[0].contains("it pushes"), "{chat:?}");
    }
    // A busy loop answers some when another client's question has just come.
    assert_eq!(told(4).findings.len(), 1);
}

/// A program that asks a name server waits for the name.
#[test]
fn a_question_to_a_name_server_is_no_subscription() {
    let told = |service: &str| {
        let mut asked = wait(Kind::Answer, End::Open, 1_000, 5_000);
        asked.flow = flow("10.0.0.1:40000", service);
        asked.flow.protocol = Protocol::Udp;
        told_of(vec![asked], vec![])
    };
    let named = told("10.0.0.2:53");
    assert!(named.findings[0].sentence.contains("10.0.0.2:53 (DNS)"));
    assert_eq!(named.notes, [""; 0]);
    assert_eq!(told("10.0.0.2:5000").findings, []);
}

/// Looks at an event loop that has nothing to do, all the time.
fn idle_loop(at: u64) -> SleepLook {
    SleepLook {
        tasks: [(20, Some(Sleep::Idle)), (21, Some(Sleep::Lock))].into(),
        for_clients: [20, 21].into(),
        stirred: [20, 21].into(),
        ..SleepLook::new(20, Timestamp::from_nanos(at * 100 * MS))
    }
}

/// A service answered on a connection at a time after it had read.
fn service(from: u16, end: u64, time: u64) -> Message {
    let here = flow("10.0.0.1:80", &format!("10.0.0.2:{from}"));
    let mut service = sent(here, end, Part::Other, 0);
    service.opened = Some(Opened::Accepted);
    service.stages[Stage::AppService] = Some(Nanos(time * MS));
    service.parts[Part::ServiceBlocked] = Some(Nanos(time * MS));
    service.pid = 20;
    service
}

/// As pages that poll for news, which come to all of them, and where nothing else is asked.
#[test]
fn an_event_loop_that_answers_all_at_once_pushes() {
    let told = |times: &[u64], apart: u64| {
        let mut case = Case::new(Scope::default());
        let mut end = 0;
        for time in times {
            end += time + 5;
            for of in 0..4 {
                case.message(&service(50_000 + of, end + u64::from(of) * apart, *time));
            }
        }
        case.sleeps((0..100).map(idle_loop));
        case.waits(&answered("10.0.0.1:80", times.len() as u64 * 4));
        case.diagnose(&summary())
    };
    let polls = told(&[3_000, 3_000, 3_000], 1);
    assert_eq!(polls.findings, []);
    assert!(polls.notes[0].contains("it pushes"), "{polls:?}");
    assert_eq!(told(&[300, 900, 450, 700], 1).findings, []);
    // Clients that ask again at once are answered as one, too, and each after its own time.
    assert_eq!(told(&[300; 8], 1).findings.len(), 1);
    // Equal long times may be signs of life; shorter ones may not.
    assert_eq!(told(&[3_000, 3_000, 3_000], 400).findings, []);
    assert_eq!(told(&[800, 800, 800], 100).findings.len(), 1);
}

/// As a replica, which acknowledges each second what it gets.
#[test]
fn acknowledgements_to_an_event_loop_that_watches_its_clients_are_no_questions() {
    let told = |for_clients: BTreeSet<u32>| {
        let mut case = Case::new(Scope::default());
        for (of, time) in [147, 60, 200, 95, 180, 130].into_iter().enumerate() {
            case.message(&service(50_000, of as u64 * 1_000 + 500 + time, time));
        }
        case.sleeps((0..90).map(|at| SleepLook {
            for_clients: for_clients.clone(),
            ..idle_loop(at)
        }));
        // As many others are answered at once.
        case.waits(&answered("10.0.0.1:80", 12));
        case.diagnose(&summary()).findings.len()
    };
    assert_eq!(told([20].into()), 0);
    assert_eq!(told(BTreeSet::new()), 1);
}
