//! What is worth a finding, or a note.

use super::*;

#[test]
fn two_occasions_are_no_finding_and_one_long_one_is() {
    let to = flow("10.0.0.1:40000", "10.0.0.2:8002");
    let two = [200, 900].map(|end| answer(to, "haproxy", end, 120));
    assert_eq!(told(&two).findings, []);
    let mut long = answer(to, "haproxy", 5_000, 1_500);
    long.opened = Some(Opened::Connected);
    assert_eq!(told(&[long]).findings.len(), 1);
}

/// As an upload that waits for `100 Continue`. Other programs set their own pace.
#[test]
fn a_command_that_pauses_inside_its_requests_waits_for_that() {
    let told = |is_command| {
        let mut case = Case::new(Scope {
            is_command,
            ..Scope::default()
        });
        let paused = (0..4).map(|of| {
            let mut paused = wait(Kind::Request, End::Data, of * 1_500, 1_000);
            paused.opened = Some(Opened::Connected);
            paused
        });
        case.waits(&Waits {
            list: paused.collect(),
            ..Waits::default()
        });
        let findings = case.diagnose(&summary()).findings;
        findings.into_iter().map(|finding| finding.sentence).next()
    };
    let sentence = told(true).unwrap();
    let expected = "app pauses for 1.00 s between parts of a request to 10.0.0.2:6379 (4 waits";
    assert!(sentence.starts_with(expected), "{sentence}");
    assert_eq!(told(false), None);
}

/// As of a server that limits the rate at which it sends: the command waits for it.
#[test]
fn a_command_waits_for_answers_in_pieces() {
    let told = |is_command| {
        let to = flow("10.0.0.1:40000", "10.0.0.2:80");
        let mut case = Case::new(Scope {
            is_command,
            ..Scope::default()
        });
        for of in 1..9 {
            let mut piece = answer(to, "curl", of * 641, 0);
            piece.opened = Some(Opened::Connected);
            piece.stages[Stage::PeerAnswer] = None;
            piece.stages[Stage::PeerRest] = Some(Nanos(640 * MS));
            case.message(&piece);
        }
        let findings = case.diagnose(&summary()).findings;
        findings.into_iter().map(|finding| finding.sentence).next()
    };
    let sentence = told(true).unwrap();
    assert!(sentence.contains("in pieces, with pauses"), "{sentence}");
    assert_eq!(told(false), None);
}

/// Waits that are slow for another reason neither count nor set what is typical.
#[test]
fn a_finding_counts_the_waits_that_carry_it() {
    let slow = (0..3).map(|of| {
        let mut wait = wait(Kind::Service, End::Data, of * 900, 400);
        wait.evidence.tasks = Some(Tasks {
            throttled: Nanos(400 * MS),
            ..Tasks::default()
        });
        wait
    });
    let others = (0..9).map(|of| {
        let mut other = wait(Kind::Service, End::Data, of * 300, 25);
        other.flow.cookie = SocketCookie(100 + of);
        other
    });
    let finding = &told_of(slow.chain(others).collect(), Vec::new()).findings[0];
    assert_eq!(finding.node, Node::ServiceThrottled);
    assert_eq!((finding.count, finding.typical), (3, Nanos(400 * MS)));
}

#[test]
fn two_questions_that_cost_seconds_are_enough_or_the_only_one() {
    let failed = |count: u64, of: u64, lasted| {
        let given_up = (0..count).map(|of| wait(Kind::Answer, End::GivenUp, of * 3_100, lasted));
        told_of(
            given_up.collect(),
            vec![tried(Kind::Answer, "10.0.0.2:6379", of, count)],
        )
    };
    assert_eq!(failed(2, 9, 2_000).findings.len(), 1);
    assert_eq!(failed(2, 9, 500).findings, []);
    assert_eq!(failed(1, 9, 2_000).findings, []);
    assert_eq!(failed(1, 1, 2_000).findings.len(), 1);
    assert_eq!(failed(1, 1, 500).findings, []);
    // Nobody has counted the attempts, as those at many peers by one socket.
    let alone = wait(Kind::Answer, End::GivenUp, 0, 2_000);
    assert_eq!(told_of(vec![alone], Vec::new()).findings, []);
}

/// As answers of a single-threaded server that others hold up now and then.
#[test]
fn rare_waits_that_have_half_of_the_time_of_all_are_a_note() {
    let told = |length: u64| {
        let to = flow("10.0.0.1:40000", "10.0.0.2:6379");
        let mut case = Case::new(Scope::default());
        for of in 0..4 {
            let mut message = answer(to, "getter", 1_000 + of * 1_500, length);
            message.opened = Some(Opened::Connected);
            case.message(&message);
        }
        case.waits(&Waits {
            attempts: vec![Attempts {
                comm: "getter".into(),
                ..tried(Kind::Answer, "10.0.0.2:6379", 1_500, 0)
            }],
            ..Waits::default()
        });
        let mut summary = summary();
        let answers = &mut summary.rx.stages[Stage::PeerAnswer];
        answers
            .get_or_insert_default()
            .record(Nanos(MS / 20), 1_496);
        answers
            .get_or_insert_default()
            .record(Nanos(length * MS), 4);
        case.diagnose(&summary)
    };
    let seldom = told(150);
    assert_eq!(seldom.findings, []);
    assert!(
        seldom.notes[0].contains("takes 150 ms to answer getter"),
        "{seldom:?}"
    );
    let rare = "; seldom, and half of the time of all such waits";
    assert!(seldom.notes[0].ends_with(rare), "{seldom:?}");
    assert_eq!(told(20).notes, [""; 0]);
}

/// As of one of several pollers that has asked a few times.
#[test]
fn what_may_be_for_news_and_is_seldom_is_counted() {
    let polls = |services: u16, times: &[u64]| {
        let of_service = |of: u16| {
            let to = flow("10.0.0.1:40000", &format!("10.0.0.2:{}", 6_379 + of));
            let times = times.iter().enumerate();
            times.map(move |(of, time)| answer(to, "app", 1_000 + of as u64 * (time + 1), *time))
        };
        told(&(0..services).flat_map(of_service).collect::<Vec<_>>()).notes
    };
    let seldom = "4 slow waits of app at 10.0.0.2:6379 and 1 other service, at most 150 ms, are too \
                  seldom to tell news from slow answers";
    assert_eq!(polls(2, &[150, 150]), [seldom]);
    // As few short ones are no news to anybody.
    assert_eq!(polls(1, &[150, 150]), [""; 0]);
    assert!(polls(1, &[400, 400])[0].contains("waits for 10.0.0.2:6379 for 800 ms"));
}

#[test]
fn one_long_wait_that_may_be_for_news_is_told() {
    let told = |time: u64| {
        let list = (0..2).map(|of| wait(Kind::Answer, End::Data, of * (time + 1), time));
        let list: Vec<_> = list.collect();
        let slow: Vec<_> = list.iter().map(source::of_wait).collect();
        telling::seldom(&slow.iter().collect::<Vec<_>>())
    };
    let long = "2 slow waits of app at 10.0.0.2:6379, at most 1.20 s, are too seldom to tell news from \
                slow answers";
    assert_eq!(told(1_200).as_deref(), Some(long));
    assert_eq!(told(900), None);
}

#[test]
fn waits_and_counts_that_found_no_room_are_told_apart() {
    let mut case = Case::new(Scope::default()).of_at_most(1);
    case.waits(&Waits {
        list: (0..3)
            .map(|of| wait(Kind::Answer, End::Data, of * 900, 120))
            .collect(),
        lost: 4,
        untold: 7,
        ..Waits::default()
    });
    case.unseen(Unseen { lists: 2, looks: 3 });
    let told = case.diagnose(&summary()).notes;
    let has = |note: &str| told.iter().any(|told| told.starts_with(note));
    assert!(has("6 slow waits found no room"), "{told:?}");
    assert!(
        has("2 lists of this host's sockets, locks or devices"),
        "{told:?}"
    );
    assert!(has("3 looks at queues and links"), "{told:?}");
    assert!(
        has("7 counts of quick waits or of dropped packets found no room"),
        "{told:?}"
    );
}
