//! Answers that are slow.

use super::*;

#[test]
fn nothing_lies_between_two_ends_of_the_loopback() {
    let to = flow("127.0.0.1:40000", "127.0.0.1:8002");
    let answers = [200, 900, 1_600, 2_400].map(|end| answer(to, "haproxy", end, 120));
    assert_eq!(
        sentence(&answers),
        "127.0.0.1:8002 takes 120 ms to answer haproxy (4 waits, at most 120 ms): the work of the \
         service, on this host"
    );
}

#[test]
fn a_slow_peer_is_named_with_its_figures() {
    let to = flow("10.0.0.1:40000", "10.0.0.2:8002");
    let answers = [200, 900, 1_600, 2_400].map(|end| answer(to, "haproxy", end, 120));
    assert_eq!(
        sentence(&answers),
        "10.0.0.2:8002 takes 120 ms to answer haproxy (4 waits, at most 120 ms): beyond this host: \
         the peer's work, or the way there and back"
    );
    let json = serde_json::to_value(told(&answers)).unwrap();
    assert_eq!(json["findings"][0]["node"], "answer.peer");
    assert_eq!(json["findings"][0]["count"], 4);
}

/// Data that was acknowledged soon has been at the peer: as at one that a script of another client
/// blocks.
#[test]
fn a_peer_that_acknowledges_at_once_has_no_long_way() {
    let told = |acknowledged: &[u64], time: u64| {
        let to = flow("10.0.0.1:40000", "10.0.0.2:6379");
        let mut case = Case::new(Scope::default());
        for end in [900, 1_600, 2_400, 3_200] {
            case.message(&answer(to, "shop", end, time));
        }
        let mut summary = summary();
        let sends = &mut summary.tx;
        sends.messages = 4;
        sends.stages[Stage::TxNetwork] = None;
        let within = sends.stages[Stage::TxNetwork].get_or_insert_default();
        for time in acknowledged {
            within.record(Nanos(time * MS), 1);
        }
        let counted = Waits {
            attempts: vec![Attempts {
                comm: "shop".into(),
                ..tried(Kind::Answer, "10.0.0.2:6379", 40, 0)
            }],
            ..Waits::default()
        };
        case.waits(&counted);
        case.diagnose(&summary).findings.remove(0).sentence
    };
    let near = told(&[1, 1, 42, 1], 150);
    assert!(
        near.ends_with(
            "beyond this host: the peer's work: all that was sent is acknowledged within 42.0 ms \
             (tx.network)"
        ),
        "{near}"
    );
    let maybe_lost = told(&[1, 1, 42, 1], 450);
    assert!(
        maybe_lost.contains("the peer's work, or answers that are lost"),
        "{maybe_lost}"
    );
    // A queue on the way there, and sends of which not all are known.
    for unknown in [told(&[1, 1, 140, 1], 150), told(&[1, 1], 150)] {
        assert!(unknown.contains("the way there and back"), "{unknown}");
    }
}

/// The connections that still wait have a short round trip, and acknowledged questions.
#[test]
fn a_near_peer_has_no_long_way() {
    let told = |tried_all, acknowledged| {
        let mut slow: Vec<_> = (0..4)
            .map(|of| wait(Kind::Answer, End::Data, of * 900, 400))
            .collect();
        let mut open = wait(Kind::Answer, End::Open, 3_700, 300);
        open.evidence.acknowledged = acknowledged;
        open.evidence.connection = Some(Connection {
            srtt: Some(Nanos(300_000)),
            ..Connection::default()
        });
        slow.push(open);
        let counted = tried(Kind::Answer, "10.0.0.2:6379", tried_all, 0);
        told_of(slow, vec![counted]).findings.remove(0).sentence
    };
    let acknowledged = Some(Nanos(300_000));
    let usual = told(5, acknowledged);
    assert!(
        usual.ends_with(
            "beyond this host: the peer's work: a round trip takes 300 µs (ss -ti: rtt)"
        ),
        "{usual}"
    );
    let seldom = told(200, acknowledged);
    assert!(
        seldom.contains("the peer's work, or answers that are lost on the way back: a round trip"),
        "{seldom}"
    );
    let unknown = told(5, None);
    assert!(unknown.contains("or the way there and back"), "{unknown}");
}

#[test]
fn a_fast_sibling_is_named_beside_a_slow_one() {
    let slow = (0..4).map(|of| wait(Kind::Answer, End::Data, of * 900, 120));
    let mut here = tried(Kind::Answer, "10.0.0.2:6379", 10, 0);
    here.sum_ns = u128::from(500 * MS);
    let there = tried(Kind::Answer, "10.0.0.3:6379", 90, 0);
    let diagnosis = told_of(slow.collect(), vec![here, there]);
    let sentence = &diagnosis.findings[0].sentence;
    assert!(
        sentence.contains("(4 of 10, at most 120 ms), while 10.0.0.3:6379 takes 1.00 ms: "),
        "{sentence}"
    );
}

#[test]
fn pauses_within_an_answer_are_one_wait_and_a_stream_is_none() {
    let to = flow("10.0.0.1:40000", "10.0.0.2:8000");
    let piece = |end| {
        let mut message = fixture::message(Direction::Rx);
        message.flow = to;
        message.comm = "app".into();
        message.stages[Stage::PeerRest] = Some(Nanos(150 * MS));
        message.stages[Stage::RxApp] = Some(Nanos(10_000));
        (message.stamps.ready, message.stamps.read) = (at(end), at(end));
        message
    };
    let answers = [500, 2_500, 4_500].map(|begin| [150, 300, 450].map(|of| piece(begin + of)));
    assert_eq!(
        sentence(&answers.concat()),
        "answers of 10.0.0.2:8000 take app 450 ms to their last byte (3 waits, at most 450 ms): the \
         peer sends it in pieces, with pauses between them (peer.rest), up to 4 of an answer"
    );
    let held_back = (1..31).flat_map(|of| {
        let mut first = answer(to, "app", of * 250 - 41, 1);
        first.opened = Some(Opened::Connected);
        let mut rest = piece(of * 250);
        rest.stages[Stage::PeerRest] = Some(Nanos(41 * MS));
        [first, rest]
    });
    let held_back = sentence(&held_back.collect::<Vec<_>>());
    assert!(held_back.contains("delays an ACK (40 ms)"), "{held_back}");
    let stream: Vec<_> = (1..13).map(|of| piece(of * 150)).collect();
    assert_eq!(told(&stream).findings, []);
}

/// Each connection asks once, has its answer after a second, and gets more until the end.
#[test]
fn who_asks_once_and_is_sent_more_until_the_end_is_pushed_to() {
    let told = |end: Option<u64>| {
        let mut case = Case::new(Scope::default());
        for of in 0..4_u16 {
            let to = flow(&format!("10.0.0.1:{}", 40_000 + of), "10.0.0.2:8000");
            let mut first = answer(to, "app", 1_000 + u64::from(of), 1_000);
            first.opened = Some(Opened::Connected);
            case.message(&first);
            for more in 1..8 {
                let mut more = answer(to, "app", 1_000 + more * 700, 0);
                more.opened = Some(Opened::Connected);
                more.stages[Stage::PeerAnswer] = None;
                more.stages[Stage::PeerRest] = Some(Nanos(700 * MS));
                case.message(&more);
            }
        }
        end.and_then(at).into_iter().for_each(|end| case.ends(end));
        case.diagnose(&summary())
    };
    let pushed = told(Some(6_400));
    assert_eq!(pushed.findings, []);
    assert!(pushed.notes[0].contains("a subscription"), "{pushed:?}");
    assert_eq!(told(Some(20_000)).findings.len(), 2);
    assert_eq!(told(None).findings.len(), 2);
}

#[test]
fn fast_answers_of_others_stand_beside_slow_ones() {
    let slow = (0..5).map(|of| wait(Kind::Answer, End::Data, of * 900, 120));
    let counted = vec![
        tried(Kind::Answer, "10.0.0.2:6379", 50, 0),
        tried(Kind::Answer, "10.0.0.3:6379", 900, 0),
    ];
    let finding = &told_of(slow.collect(), counted).findings[0];
    assert_eq!(finding.tried, Some(50));
    assert!(
        finding
            .sentence
            .contains("while 10.0.0.3:6379 takes 1.00 ms"),
        "{finding:?}"
    );
}

#[test]
fn waits_one_after_the_other_are_no_burst() {
    let told = |apart: u64| {
        let answers: Vec<_> = (0..20)
            .map(|of| {
                let from = format!("10.0.0.1:{}", 40_000 + of);
                let flow = flow(&from, "10.0.0.2:8002");
                let mut answer = answer(flow, "haproxy", 1_200 + of * apart, 1_100);
                answer.opened = Some(Opened::Connected);
                answer
            })
            .collect();
        sentence(&answers)
    };
    assert!(told(10).contains(", all within 1.29 s)"), "{}", told(10));
    assert!(!told(100).contains("all within"), "{}", told(100));
}

/// A sender that has lost segments sends them again, and few others, a round trip each.
#[test]
fn pauses_beside_missing_segments_are_the_recovery_if_no_longer_than_its_rounds() {
    let told = |pause: u64| {
        let mut case = Case::new(Scope::default());
        for from in 1..4 {
            let to = flow(&format!("10.0.0.1:{from}"), "10.0.0.2:8000");
            let mut first = answer(to, "app", 2_000 * from, 21);
            first.parts[Part::Network] = Some(Nanos(20 * MS));
            case.message(&first);
            for of in 1..30 {
                let mut piece = answer(to, "app", 2_000 * from + of * pause, 0);
                piece.opened = Some(Opened::Connected);
                piece.stages[Stage::PeerAnswer] = None;
                piece.stages[Stage::PeerRest] = Some(Nanos(pause * MS));
                piece.stages[Stage::RxHol] = (of % 3 == 0).then_some(Nanos(15 * MS));
                case.message(&piece);
            }
        }
        case.diagnose(&summary()).findings[0].sentence.clone()
    };
    let (rounds, pauses) = (told(21), told(60));
    assert!(
        rounds.contains("it waits behind missing segments"),
        "{rounds}"
    );
    assert!(pauses.contains("the peer sends it in pieces"), "{pauses}");
}

/// Answers on one connection, each after 20 ms: the pauses within it, and the one before the next
/// question.
fn pieces(answers: &[(&[u64], u64)]) -> Diagnosis {
    let to = flow("10.0.0.1:40000", "10.0.0.2:8000");
    let mut case = Case::new(Scope::default());
    let mut now = 1_000;
    for &(pauses, think) in answers {
        now += 20;
        for pause in pauses {
            now += pause;
            let mut piece = answer(to, "app", now, 0);
            piece.opened = Some(Opened::Connected);
            piece.stages[Stage::PeerAnswer] = None;
            piece.stages[Stage::PeerRest] = Some(Nanos(pause * MS));
            case.message(&piece);
        }
        now += think;
        let mut question = sent(to, now, Part::Other, 0);
        (question.opened, question.comm) = (Some(Opened::Connected), "app".into());
        question.stages[Stage::AppService] = Some(Nanos(think * MS));
        case.message(&question);
    }
    case.diagnose(&summary())
}

/// As people in a chat who say nothing more.
#[test]
fn a_connection_that_asks_no_more_does_not_wait_for_the_rest() {
    let told = |times: &[u64], end: u64| {
        let mut case = Case::new(Scope::default());
        let mut older = Vec::new();
        for (of, time) in (0..).zip(times) {
            let to = flow(&format!("10.0.0.1:4000{of}"), "10.0.0.2:8000");
            let mut now = 1_000;
            for pause in [0, 15, 100 + of * 90] {
                now += pause + time;
                let mut piece = answer(to, "app", now, 0);
                piece.opened = Some(Opened::Connected);
                piece.stages[Stage::PeerAnswer] = None;
                piece.stages[Stage::PeerRest] = Some(Nanos(time * MS));
                case.message(&piece);
            }
            older.push(to.cookie);
        }
        case.waits(&Waits {
            older,
            ..Waits::default()
        });
        case.ends(Timestamp::from_nanos(end * MS));
        case.diagnose(&summary()).findings.len()
    };
    let news = [300, 90, 750, 500];
    assert_eq!(told(&news, 8_000), 0);
    // The client may ask again after the measurement; or all answers take as long.
    assert_eq!(told(&news, 1_200), 1);
    assert_eq!(told(&[300, 301, 302, 300], 8_000), 1);
}

/// As a chat, and as a stream of events on a connection that asks other things, too.
#[test]
fn what_comes_whatever_was_asked_may_be_pushed() {
    let chat = pieces(&[
        (&[240, 410], 300),
        (&[], 1_900),
        (&[515, 90, 130], 620),
        (&[120], 90),
        (&[330], 1_400),
        (&[], 1_100),
        (&[650, 210], 45),
    ]);
    assert_eq!(chat.findings, []);
    assert!(
        chat.notes[0].starts_with("10.0.0.2:8000 sends more to app after its answers"),
        "{chat:?}"
    );
    // Each question comes 300 ms after the answer before, whether an event came or not.
    let beside = pieces(&[
        (&[], 300),
        (&[150], 150),
        (&[], 301),
        (&[150], 151),
        (&[], 300),
        (&[151], 150),
        (&[], 299),
    ]);
    assert_eq!(beside.findings, []);
    assert_eq!(beside.notes.len(), 1);
}

#[test]
fn who_asks_again_after_each_last_byte_waits_for_it() {
    let is_told = |answers: &[(&[u64], u64)]| {
        let told = pieces(answers);
        let told = told.findings.first().map(|finding| finding.node);
        told == Some(Node::RestPeer)
    };
    // At once, after stalls of any length.
    assert!(is_told(&[
        (&[400], 0),
        (&[90], 1),
        (&[900], 0),
        (&[230], 1)
    ]));
    // After a pause of its own.
    assert!(is_told(&[
        (&[400], 200),
        (&[90], 201),
        (&[], 200),
        (&[900], 199),
        (&[230], 201)
    ]));
    // At any time, but the rest always takes as long.
    assert!(is_told(&[
        (&[400], 900),
        (&[405], 70),
        (&[401], 300),
        (&[402], 30)
    ]));
    assert!(!is_told(&[
        (&[400], 900),
        (&[95], 70),
        (&[901], 300),
        (&[202], 30)
    ]));
}

/// As news on a busy machine, where programs that subscribe once read them late.
#[test]
fn what_comes_to_one_question_is_one_answer_however_late_it_is_read() {
    let told = |sends: u32| {
        let mut case = Case::new(Scope::default());
        case.ends(Timestamp::from_nanos(8_000 * MS));
        for from in 0..4 {
            let to = flow(&format!("10.0.0.1:4000{from}"), "10.0.0.2:7000");
            let mut now = 1_000 + from * 200;
            let mut first = answer(to, "app", now, 600 + from * 90);
            first.opened = Some(Opened::Connected);
            case.message(&first);
            while now < 7_000 {
                now += 900;
                let mut news = answer(to, "app", now, 0);
                news.opened = Some(Opened::Connected);
                news.stages[Stage::PeerAnswer] = None;
                // The last ones were read after 60 ms.
                news.stages[Stage::PeerRest] = Some(Nanos(840 * MS));
                case.message(&news);
            }
            let sending = Sending {
                sends,
                ..sending(to, Connection::default())
            };
            case.waits(&Waits {
                sending: vec![sending],
                ..Waits::default()
            });
        }
        case.diagnose(&summary())
    };
    let subscribed = told(1);
    assert_eq!(subscribed.findings, []);
    assert_ne!(told(9).findings, []);
}
