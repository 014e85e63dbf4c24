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
