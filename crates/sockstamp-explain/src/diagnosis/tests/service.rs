//! What a service here does with a request.

use super::*;

#[test]
fn the_wait_for_a_service_here_is_its_own_wait() {
    let there = flow("10.0.0.1:40000", "10.0.0.2:8080");
    let here = flow("10.0.0.2:8080", "10.0.0.1:40000");
    let below = flow("10.0.0.2:50000", "10.0.0.3:5432");
    let mut messages = Vec::new();
    for end in [500, 1_200, 1_900, 2_600] {
        messages.push(answer(there, "curl", end, 120));
        let mut service = sent(here, end - 1, Part::Other, 0);
        service.opened = Some(Opened::Accepted);
        service.stages[Stage::AppService] = Some(Nanos(118 * MS));
        service.pid = 20;
        messages.push(service);
        let mut asked = answer(below, "nginx", end - 2, 110);
        asked.pid = 20;
        messages.push(asked);
    }
    let diagnosis = told(&messages);
    assert_eq!(diagnosis.findings.len(), 1, "{diagnosis:#?}");
    assert!(
        diagnosis.findings[0]
            .sentence
            .starts_with("10.0.0.3:5432 takes 110 ms to answer nginx"),
        "{diagnosis:?}"
    );
}

/// A task that reads, and answers itself, shows what it did in between.
#[test]
fn the_parts_of_a_service_are_its_own_waits() {
    let here = flow("10.0.0.2:8080", "10.0.0.1:40000");
    let below = flow("10.0.0.2:50000", "10.0.0.3:5432");
    let node = |part: Part, asks: bool| {
        let mut messages = Vec::new();
        for end in [500, 1_200, 1_900, 2_600] {
            let mut service = sent(here, end, Part::Other, 0);
            service.opened = Some(Opened::Accepted);
            service.stages[Stage::AppService] = Some(Nanos(118 * MS));
            service.parts[part] = Some(Nanos(116 * MS));
            service.pid = 20;
            messages.push(service);
            let mut asked = answer(below, "nginx", end - 2, 110);
            asked.pid = 20;
            messages.extend(asks.then_some(asked));
        }
        told(&messages).findings[0].node
    };
    assert_eq!(node(Part::ServiceBlocked, false), Node::ServiceAsleep);
    assert_eq!(node(Part::ServiceRunnable, false), Node::ServiceRunnable);
    // Who sleeps for the answer of another service waits for that.
    assert_eq!(node(Part::ServiceBlocked, true), Node::AnswerPeer);
}

#[test]
fn the_clock_of_a_process_bounds_what_it_did() {
    let here = flow("10.0.0.1:80", "10.0.0.2:50000");
    let told_with = |ran, waited, quick: u64| {
        let mut case = Case::new(Scope::default());
        let mut attempts = Attempts {
            sum_ns: u128::from((5 * 100 + quick * 20) * MS),
            comm: fixture::message(Direction::Tx).comm,
            ..tried(Kind::Service, "0.0.0.0:80", 5 + quick, 0)
        };
        attempts.key.pid = 20;
        case.waits(&Waits {
            attempts: vec![attempts],
            ..Waits::default()
        });
        for of in 0..5 {
            let mut service = sent(here, 200 + of * 900, Part::Other, 0);
            service.opened = Some(Opened::Accepted);
            service.stages[Stage::AppService] = Some(Nanos(100 * MS));
            service.pid = 20;
            case.message(&service);
        }
        let cpu = Cpu {
            since: Timestamp::from_nanos(0),
            ran: Nanos(ran * MS),
            waited: Nanos(waited * MS),
            held: Nanos::ZERO,
            fetched: None,
        };
        case.cpu(20, cpu);
        case.diagnose(&summary())
    };
    let told = |ran, waited| told_with(ran, waited, 0);
    let node = |ran, waited| told(ran, waited).findings[0].node;
    assert_eq!(node(10, 20), Node::ServiceAsleep);
    assert_eq!(node(10, 480), Node::ServiceUnknown);
    assert_eq!(node(200, 0), Node::ServiceUnknown);
    // Work for one request at a time keeps nobody else.
    let work = told(450, 0);
    assert_eq!(work.findings, []);
    assert!(work.notes[0].contains("busy on the CPU"), "{work:?}");
    // Other requests had that time.
    let of_others = told_with(450, 0, 20);
    assert_eq!(of_others.findings[0].node, Node::ServiceUnknown);
}

#[test]
fn what_tasks_did_is_the_deepest_that_is_said() {
    let service = (0..4).map(|of| {
        let mut service = wait(Kind::Service, End::Data, of * 900, 100);
        service.evidence.tasks = Some(Tasks {
            throttled: Nanos(80 * MS),
            running: Nanos(10 * MS),
            ..Tasks::default()
        });
        service
    });
    let diagnosis = told_of(service.collect(), Vec::new());
    let finding = &diagnosis.findings[0];
    assert_eq!(
        (finding.node, finding.percent),
        (Node::ServiceThrottled, 80)
    );
    assert!(
        finding
            .sentence
            .starts_with("app at :40000 takes 100 ms to answer requests"),
        "{finding:?}"
    );
}

/// As of a proxy that waits for more of a request for as long as it was told to.
#[test]
fn tasks_that_sleep_for_the_same_time_each_have_a_timer() {
    let told = |times: [u64; 6]| {
        let service = times.iter().zip(0_u64..).map(|(&time, of)| {
            let mut service = wait(Kind::Service, End::Data, of * 900, time);
            service.evidence.tasks = Some(Tasks::default());
            service
        });
        told_of(service.collect(), Vec::new()).findings[0]
            .sentence
            .clone()
    };
    let same = told([301, 300, 302, 308, 303, 340]);
    assert!(
        same.contains("for the same time each, but for a twentieth: a timer of its own"),
        "{same}"
    );
    for other in [
        [300, 340, 380, 420, 310, 350],
        [300, 301, 302, 303, 301, 900],
        [30; 6],
    ] {
        let other = told(other);
        assert!(other.contains("its tasks sleep: a lock"), "{other}");
    }
}

#[test]
fn a_quota_of_others_never_speaks() {
    let mut summary = summary();
    summary.throttled = Some(sockstamp_model::summary::Throttled {
        cgroup: "/batch".into(),
        periods: 60,
        throttled: 60,
        time: Nanos(1),
    });
    assert_eq!(Case::new(Scope::default()).diagnose(&summary).findings, []);
}

#[test]
fn who_sleeps_behind_a_task_that_is_held_waits_for_the_quota() {
    let told = |waited, held| {
        let mut case = Case::new(Scope::default());
        for of in 0..5 {
            let mut service = wait(Kind::Service, End::Data, of * 900, 100);
            service.evidence.tasks = None;
            service.pid = 20;
            case.waits(&Waits {
                list: vec![service],
                ..Waits::default()
            });
            let here = flow("10.0.0.1:80", "10.0.0.2:50000");
            let mut message = sent(here, of * 900 + 450, Part::Other, 0);
            message.opened = Some(Opened::Accepted);
            message.stages[Stage::AppService] = Some(Nanos(100 * MS));
            message.parts[Part::ServiceThrottled] = Some(Nanos(30 * MS));
            message.pid = 20;
            case.message(&message);
        }
        case.cpu(
            20,
            Cpu {
                since: Timestamp::from_nanos(0),
                ran: Nanos(200 * MS),
                waited: Nanos(waited * MS),
                held: Nanos(held * MS),
                fetched: None,
            },
        );
        case.diagnose(&summary())
    };
    let node = |waited, held| told(waited, held).findings[0].node;
    assert_eq!(node(10, 900), Node::ServiceThrottled);
    // Several tasks wait while they are held.
    assert_eq!(node(2_000, 900), Node::ServiceThrottled);
    assert_eq!(node(10, 20), Node::ServiceUnknown);
}

/// Requests of clients that ask again at once, and questions of the same process.
fn behind_a_pool(questions: impl Iterator<Item = (u64, u64)>) -> Diagnosis {
    let mut list = Vec::new();
    for of in 0..48 {
        let mut request = wait(Kind::Service, End::Data, (of / 8) * 200 + of % 8, 199);
        request.flow = flow("10.0.0.1:8000", &format!("10.0.0.9:{}", 50_000 + of % 8));
        request.flow.cookie = SocketCookie(100 + of % 8);
        request.opened = Some(Opened::Accepted);
        request.pid = 20;
        list.push(request);
    }
    for (since, lasted) in questions {
        let mut question = wait(Kind::Answer, End::Data, since, lasted);
        question.pid = 20;
        list.push(question);
    }
    // Others are answered at once.
    let mut others = tried(Kind::Service, "10.0.0.1:8000", 1_000, 0);
    others.key.pid = 20;
    told_of(list, vec![others])
}

/// Idle connections, whose clients spoke last, beside requests that ask another service one by one.
#[test]
fn connections_that_may_be_pushed_to_wait_for_no_turn() {
    let mut list = Vec::new();
    for of in 0..8 {
        let mut request = wait(Kind::Service, End::Data, of * 500, 300);
        request.flow = flow("10.0.0.1:8000", "10.0.0.9:50000");
        request.opened = Some(Opened::Accepted);
        let mut question = wait(Kind::Answer, End::Data, of * 500 + 5, 290);
        (request.pid, question.pid) = (20, 20);
        list.extend([request, question]);
    }
    for of in 0..50 {
        let mut idle = wait(Kind::Service, End::Open, 0, 8_000);
        idle.flow = flow("10.0.0.1:8000", &format!("10.0.0.8:{}", 50_000 + of));
        idle.flow.cookie = SocketCookie(200 + of);
        (idle.opened, idle.pid) = (Some(Opened::Accepted), 20);
        list.push(idle);
    }
    let told = told_of(list, Vec::new());
    let [service] = &told.services[..] else {
        panic!("{told:#?}");
    };
    assert!(service.percent(Node::ServiceAsks) > 90, "{service:?}");
}

#[test]
fn requests_behind_the_one_connection_of_a_pool_are_no_subscriptions() {
    let one_by_one = behind_a_pool((0..48).map(|of| (of * 25, 24)));
    let turn = &one_by_one.findings[0];
    assert_eq!(turn.node, Node::ServiceTurn, "{one_by_one:#?}");
    assert!(
        turn.sentence.contains("queue inside it")
            && turn.sentence.contains(
                "at most 1 question at once, to 10.0.0.2:6379, whose slow answers take 24.0 ms"
            ),
        "{turn:?}"
    );
    assert_eq!(one_by_one.notes, [""; 0]);
    // An answer that is read a little late overlaps with the next question.
    let overlapping = behind_a_pool((0..48).map(|of| (of * 25, 26)));
    assert_eq!(overlapping.findings[0].node, Node::ServiceTurn);
    let [service] = &one_by_one.services[..] else {
        panic!("{one_by_one:#?}");
    };
    let known: u64 = service.parts.values().sum();
    assert_eq!((service.count, known), (48, service.time.0));
    assert!(service.percent(Node::ServiceTurn) > 70, "{service:?}");
    // One connection, busy all the time, for eight requests at once.
    assert!((10..=13).contains(&service.percent(Node::ServiceAsks)));
    let asked = &service.asked[0];
    assert_eq!((asked.questions, asked.time), (48, Nanos(48 * 24 * MS)));
    // Who passes news on has one question as long as the requests.
    assert_eq!(behind_a_pool((0..6).map(|of| (of * 200, 199))).findings, []);
}

/// Time in connects for questions of a service is spent for others.
#[test]
fn connects_for_a_request_are_questions() {
    let mut list = Vec::new();
    for of in 0..6 {
        let mut request = wait(Kind::Service, End::Data, of * 1_000, 600);
        request.flow = flow("10.0.0.1:8000", &format!("10.0.0.9:{}", 50_000 + of));
        request.opened = Some(Opened::Accepted);
        let mut connect = wait(Kind::Connect, End::Data, of * 1_000 + 10, 500);
        connect.flow.cookie = SocketCookie(of + 1);
        list.extend([request, connect]);
    }
    let told = told_of(list, Vec::new());
    let [service] = &told.services[..] else {
        panic!("{told:#?}");
    };
    assert_eq!(service.percent(Node::ServiceAsks), 83);
    assert_eq!(service.asked[0].questions, 6);
}

#[test]
fn waits_of_this_host_for_disks_are_told_where_they_are_long_enough() {
    let seen = |disks: u64, fetched: Option<u64>, looks: &[SleepLook]| {
        let mut case = Case::new(Scope::default());
        case.sleeps(looks.iter().cloned());
        for of in 0..6 {
            let mut wait = wait(Kind::Service, End::Data, of * 1_000, 500);
            wait.opened = Some(Opened::Accepted);
            case.waits(&Waits {
                list: vec![wait],
                ..Waits::default()
            });
        }
        case.disks(Nanos(disks * MS));
        case.cpu(
            7,
            Cpu {
                since: Timestamp::from_nanos(0),
                ran: Nanos::ZERO,
                waited: Nanos::ZERO,
                held: Nanos::ZERO,
                fetched,
            },
        );
        case.diagnose(&summary()).findings[0].sentence.clone()
    };
    let told = |disks, fetched| seen(disks, fetched, &[]);
    let disk = "; tasks of this host waited for disks for 2.50 s";
    let read = told(2_500, Some(4_096));
    assert!(read.contains(disk), "{read}");
    assert!(!told(1_000, Some(4_096)).contains("waited for disks"));
    // Those of another program, or of nobody knows whom.
    for fetched in [Some(0), None] {
        let other = told(2_500, fetched);
        assert!(!other.contains("waited for disks"), "{other}");
    }
    // As of fsync(2): what it writes, other tasks bring to the disk.
    let writes = |sleep| SleepLook {
        tasks: [(7, Some(sleep)), (8, None)].into(),
        ..SleepLook::new(7, Timestamp::from_nanos(250 * MS))
    };
    let seen = |sleep| seen(2_500, Some(0), &[writes(sleep)]);
    assert!(seen(Sleep::Disk).contains(disk), "{}", seen(Sleep::Disk));
    assert!(!seen(Sleep::Timer).contains("waited for disks"));
}

/// As a program behind a CPU quota that asks a slow service for each request.
#[test]
fn a_quota_is_named_beside_the_service_that_was_asked() {
    let mut messages = Vec::new();
    for of in 0..8_u64 {
        let end = 1_000 + of * 600;
        let here = flow("10.0.0.1:8000", "10.0.0.9:40001");
        let mut service = sent(here, end, Part::Other, 0);
        service.stages[Stage::AppService] = Some(Nanos(500 * MS));
        service.parts[Part::ServiceThrottled] = Some(Nanos(120 * MS));
        service.parts[Part::ServiceBlocked] = Some(Nanos(380 * MS));
        service.pid = 10;
        messages.push(service);
        let there = flow("10.0.0.1:50001", "10.0.0.2:9002");
        let mut asked = answer(there, "nginx", end - 150, 300);
        asked.opened = Some(Opened::Connected);
        messages.push(asked);
    }
    let diagnosis = told(&messages);
    let [upstream, quota] = &diagnosis.findings[..] else {
        panic!("{diagnosis:?}");
    };
    assert!(
        upstream.sentence.starts_with("10.0.0.2:9002 takes 300 ms"),
        "{diagnosis:?}"
    );
    let own = "nginx at :8000 loses 120 ms in each slow request, beside what others take";
    assert!(quota.sentence.starts_with(own), "{diagnosis:?}");
    assert_eq!(quota.node, Node::ServiceThrottled);
}

/// As of a proxy that tries a dead server before another one.
#[test]
fn a_service_that_waits_for_a_connect_does_not_sleep() {
    let (mut services, mut connects) = (Vec::new(), Vec::new());
    for of in 0..8_u64 {
        let here = flow("10.0.0.1:8000", &format!("10.0.0.9:{}", 40_000 + of));
        let mut service = sent(here, 1_300 + of * 10, Part::Other, 0);
        service.stages[Stage::AppService] = Some(Nanos(1_250 * MS));
        service.parts[Part::ServiceBlocked] = Some(Nanos(1_250 * MS));
        service.pid = 7;
        services.push(service);
        let mut connect = wait(Kind::Connect, End::GivenUp, 60 + of * 10, 1_200);
        connect.flow = flow(&format!("10.0.0.1:{}", 50_000 + of), "10.0.0.2:9001");
        connect.evidence.syns = Some(2);
        connects.push(connect);
    }
    let mut case = Case::new(Scope::default());
    services.iter().for_each(|service| case.message(service));
    case.waits(&Waits {
        list: connects,
        attempts: vec![tried(Kind::Connect, "10.0.0.2:9001", 8, 8)],
        ..Waits::default()
    });
    let diagnosis = case.diagnose(&summary());
    let first = &diagnosis.findings[0].sentence;
    assert!(first.starts_with("8 of 8 connects of app"), "{diagnosis:?}");
    assert_eq!(diagnosis.findings.len(), 1, "{diagnosis:?}");
}

/// What an event loop that serves two connections does with one request in half a second each.
#[test]
fn what_an_idle_event_loop_holds_is_a_note() {
    let told = |sleep: Sleep, others: u64| {
        let mut case = Case::new(Scope::default());
        for of in 0..8_u64 {
            let here = flow("10.0.0.1:8000", &format!("10.0.0.2:{}", 40_000 + of % 2));
            let mut service = sent(here, 500 + of * 700, Part::Other, 0);
            service.opened = Some(Opened::Accepted);
            service.stages[Stage::AppService] = Some(Nanos(400 * MS));
            service.parts[Part::ServiceBlocked] = Some(Nanos(400 * MS));
            service.pid = 20;
            case.message(&service);
            case.sleeps((0..4).map(|look| {
                SleepLook {
                    stirred: [20, 21].into(),
                    tasks: [(20, Some(sleep.clone())), (21, Some(Sleep::Lock))]
                        .into_iter()
                        .collect(),
                    ..SleepLook::new(20, Timestamp::from_nanos((150 + of * 700 + look * 80) * MS))
                }
            }));
        }
        case.waits(&answered("10.0.0.1:8000", 8 + others));
        case.diagnose(&summary())
    };
    assert_eq!(told(Sleep::Idle, 20).findings, []);
    assert_eq!(told(Sleep::Idle, 0).findings.len(), 1);
    assert_eq!(told(Sleep::Disk, 20).findings.len(), 1);
}

#[test]
fn tasks_that_may_not_be_looked_at_are_noted() {
    let noted = |pids: &[u32]| {
        let mut case = Case::new(Scope::default());
        pids.iter().for_each(|pid| case.hidden(*pid));
        case.diagnose(&summary()).notes
    };
    assert_eq!(noted(&[]), [""; 0]);
    let alone = noted(&[7]);
    assert!(alone[0].starts_with("what tasks of PID 7 sleep in is not known"));
    let many = noted(&[1, 2, 3, 4, 5]);
    assert!(
        many[0].contains("PID 1, PID 2, PID 3 and 2 others"),
        "{many:?}"
    );
}

/// As of a tunnel: its tasks wait for any event, and packets to it are lost.
#[test]
fn what_a_program_asks_comes_before_its_service_of_which_nothing_is_known() {
    let told = |late| {
        let mut list = Vec::new();
        for of in 0..8 {
            let mut request = wait(Kind::Service, End::Data, of * 900, 400);
            request.flow = flow("10.0.0.1:9000", "10.0.0.9:50000");
            request.opened = Some(Opened::Accepted);
            list.push(request);
        }
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list,
            ..Waits::default()
        });
        for of in 0..8 {
            let mut read = answer(
                flow("10.0.0.1:40000", "10.0.0.2:22"),
                "app",
                of * 900 + 300,
                1,
            );
            (read.pid, read.weight) = (7, 1);
            read.stages[Stage::RxHol] = Some(Nanos(late * MS));
            read.stages[Stage::RxApp] = Some(Nanos(10_000));
            read.stamps.read = at(of * 900 + 300);
            case.message(&read);
        }
        let findings = case.diagnose(&summary()).findings;
        findings
            .into_iter()
            .map(|found| found.node)
            .collect::<Vec<_>>()
    };
    assert_eq!(told(60), [Node::ReadMissing, Node::ServiceUnknown]);
    // Too little to be what it waits for.
    assert_eq!(told(15), [Node::ServiceUnknown]);
}
