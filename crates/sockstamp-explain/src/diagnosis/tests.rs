use std::net::SocketAddr;

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::fixture;
use sockstamp_model::flow::{Flow, NetnsInode, Opened, Protocol, SocketCookie};
use sockstamp_model::listener::{HalfOpen, ListenerSummary};
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::{Resent, Summary};
use sockstamp_model::wait::{
    Attempts, Connection, End, Evidence, Key, Kind, Sending, Tasks, Wait, Waits,
};

use super::slow::Parts;
use super::tree::Node;
use super::*;

const MS: u64 = 1_000_000;

/// A measurement of eight seconds, with 20 messages of all stages.
fn summary() -> Summary {
    let mut summary = Summary {
        duration: Nanos(8_000 * MS),
        ..Summary::default()
    };
    for stage in Stage::ALL {
        let stages = &mut summary.direction_mut(stage.direction()).stages;
        stages[stage].get_or_insert_default().record(Nanos(MS), 20);
    }
    summary.tx.sent.record(Nanos(MS), 20);
    summary.rx.total.record(Nanos(MS), 20);
    summary
}

fn flow(local: &str, remote: &str) -> Flow {
    let (local, remote): (SocketAddr, SocketAddr) =
        (local.parse().unwrap(), remote.parse().unwrap());
    Flow {
        netns: NetnsInode(1),
        protocol: Protocol::Tcp,
        local,
        remote,
        cookie: SocketCookie(u64::from(local.port()) << 16 | u64::from(remote.port())),
    }
}

fn at(ms: u64) -> Option<Timestamp<sockstamp_model::clock::Monotonic>> {
    Some(Timestamp::from_nanos(ms * MS))
}

/// An answer that came at a time after a wait.
fn answer(flow: Flow, comm: &str, end: u64, wait: u64) -> Message {
    let mut message = fixture::message(Direction::Rx);
    message.flow = flow;
    message.comm = comm.into();
    message.pid = 10;
    message.stages[Stage::PeerAnswer] = Some(Nanos(wait * MS));
    message.parts[Part::Network] = Some(Nanos(20_000));
    message.stages[Stage::RxApp] = Some(Nanos(10_000));
    message.stamps.ready = at(end);
    message.stamps.read = at(end);
    message
}

/// A send that left late for one reason.
fn sent(flow: Flow, begin: u64, part: Part, time: u64) -> Message {
    let mut message = fixture::message(Direction::Tx);
    message.flow = flow;
    message.comm = "nginx".into();
    let time = Nanos(time * MS);
    message.stages[part.stage()] = Some(time);
    message.parts[part] = Some(time);
    message.stages[Stage::TxNetwork] = Some(Nanos(60 * MS));
    message.min_rtt = Some(Nanos(60 * MS));
    message.stamps.entry = at(begin);
    message
}

fn told(messages: &[Message]) -> Diagnosis {
    told_in(Scope::default(), messages)
}

fn told_in(scope: Scope, messages: &[Message]) -> Diagnosis {
    let mut case = Case::new(scope);
    messages.iter().for_each(|message| case.message(message));
    case.diagnose(&summary())
}

fn sentence(messages: &[Message]) -> String {
    let diagnosis = told(messages);
    let first = diagnosis.findings.first();
    first.map_or_else(String::new, |finding| finding.sentence.clone())
}

#[test]
fn parts_add_up_and_the_path_is_due_first() {
    let parts = Parts::divide(
        100,
        [(Node::AnswerPath, 40), (Node::AnswerLoss, 90)],
        Node::AnswerPeer,
    );
    assert_eq!(parts.whole(), 100);
    assert_eq!(parts.of(Node::AnswerLoss), 60);
    assert_eq!(parts.of(Node::Answer), 100);
}

#[test]
fn every_node_has_words_and_comes_after_its_parent() {
    for (place, node) in Node::ALL.into_iter().enumerate() {
        let about = node.about();
        for text in [
            about.name,
            about.is,
            about.proof,
            about.alike,
            about.check,
            about.cure,
            about.next,
        ] {
            assert!(text.len() > 3, "{node}: {text:?}");
        }
        if let Some(parent) = node.parent() {
            let parents = Node::ALL.into_iter().take(place);
            assert!(parents.into_iter().any(|before| before == parent), "{node}");
            assert!(about.name.starts_with(parent.about().name), "{node}");
        }
    }
}

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
fn two_occasions_are_no_finding_and_one_long_one_is() {
    let to = flow("10.0.0.1:40000", "10.0.0.2:8002");
    let two = [200, 900].map(|end| answer(to, "haproxy", end, 120));
    assert_eq!(told(&two).findings, []);
    let mut long = answer(to, "haproxy", 5_000, 1_500);
    long.opened = Some(Opened::Connected);
    assert_eq!(told(&[long]).findings.len(), 1);
}

#[test]
fn a_connection_that_always_waits_is_a_note() {
    let to = flow("10.0.0.1:40000", "10.0.0.2:6379");
    let answers: Vec<_> = (1..9)
        .map(|of| answer(to, "worker", of * 701, 700))
        .collect();
    let diagnosis = told(&answers);
    assert_eq!(diagnosis.findings, []);
    assert!(
        diagnosis.notes[0]
            .starts_with("worker waits for 10.0.0.2:6379 all the time on 1 connection"),
        "{diagnosis:?}"
    );
    let command = Scope {
        is_command: true,
        ..Scope::default()
    };
    assert_eq!(told_in(command, &answers).findings.len(), 1);
}

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
fn data_that_a_send_keeps_in_the_backlog_waits_for_the_send() {
    let here = flow("127.0.0.1:5000", "127.0.0.1:40000");
    let call = |begin, time| {
        let mut sent = sent(here, begin, Part::Other, 0);
        sent.stages[Stage::TxCopy] = Some(Nanos(time * MS));
        sent
    };
    let late = |end, time| {
        let mut read = fixture::message(Direction::Rx);
        read.flow = here;
        read.comm = "nginx".into();
        read.stages[Stage::RxStack] = Some(Nanos(time * MS));
        read.stages[Stage::RxApp] = Some(Nanos(10_000));
        read.stamps.read = at(end);
        read
    };
    let held = [500, 1_200, 1_900, 2_600].map(|end| [call(end - 60, 58), late(end, 59)]);
    let diagnosis = told(&held.concat());
    assert_eq!(diagnosis.findings.len(), 1, "{diagnosis:#?}");
    assert_eq!(diagnosis.findings[0].node, Node::DeliveryCall);
    let apart = [500, 1_200, 1_900, 2_600].map(|end| [call(end - 160, 58), late(end, 59)]);
    assert_eq!(told(&apart.concat()).findings.len(), 2);
}

#[test]
fn each_cause_of_waiting_has_its_words() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    for (part, words) in [
        (Part::Nagle, "Nagle's algorithm"),
        (Part::Cork, "held back by the program itself"),
        (Part::Rwnd, "the peer's full receive window"),
        (Part::Sndbuf, "the send buffer is full"),
        (Part::Retransmit, "packets are lost"),
        (Part::Tsq, "the packet scheduler"),
        (Part::Other, "cause not known"),
    ] {
        let sends: Vec<_> = (0..5).map(|of| sent(to, of * 900, part, 80)).collect();
        let sentence = sentence(&sends);
        assert!(
            sentence.starts_with("data of nginx at :80 for 10.0.0.2 waits 80.0 ms until it "),
            "{sentence}"
        );
        assert!(sentence.contains(words), "{part}: {sentence}");
    }
}

fn sending(flow: Flow, connection: Connection) -> Sending {
    Sending {
        flow,
        opened: Opened::Accepted,
        seen_for: Nanos(5_000 * MS),
        window: Nanos(0),
        buffer: Nanos(0),
        resent: 0,
        in_vain: 0,
        reordered: 0,
        sends: 0,
        receives: 0,
        connection,
    }
}

/// Who sets the rate is not known: the program, or TCP itself.
#[test]
fn a_rate_that_nobody_is_known_to_set_is_a_note() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let sends: Vec<_> = (0..5)
        .map(|of| sent(to, of * 900, Part::Pacing, 80))
        .collect();
    let diagnosis = told(&sends);
    assert_eq!(diagnosis.findings, []);
    assert!(diagnosis.notes[0].contains("pacing"), "{diagnosis:?}");
    let sending = |connection| Sending {
        buffer: Nanos(2_000 * MS),
        ..sending(to, connection)
    };
    let of = |connection: Connection| {
        let mut case = Case::new(Scope::default());
        sends.iter().for_each(|message| case.message(message));
        case.waits(&Waits {
            sending: vec![sending(connection)],
            ..Waits::default()
        });
        case.diagnose(&summary()).findings[0].sentence.clone()
    };
    let paced = of(Connection {
        paced: Some(1_000_000),
        ..Connection::default()
    });
    assert!(
        paced.contains("the program allows 1000000 bytes"),
        "{paced}"
    );
    let own = of(Connection {
        unacknowledged: 1,
        buffer_set: true,
        ..Connection::default()
    });
    assert!(own.contains("the send buffer is full"), "{own}");
}

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

#[test]
fn the_clock_of_a_process_bounds_what_it_did() {
    let here = flow("10.0.0.1:80", "10.0.0.2:50000");
    let told = |ran, waited| {
        let mut case = Case::new(Scope::default());
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
        };
        case.cpu(20, cpu);
        case.diagnose(&summary())
    };
    let node = |ran, waited| told(ran, waited).findings[0].node;
    assert_eq!(node(10, 20), Node::ServiceAsleep);
    assert_eq!(node(10, 480), Node::ServiceUnknown);
    assert_eq!(node(200, 0), Node::ServiceUnknown);
    // Work for one request at a time keeps nobody else.
    let work = told(450, 0);
    assert_eq!(work.findings, []);
    assert!(work.notes[0].contains("busy on the CPU"), "{work:?}");
}

#[test]
fn a_window_on_a_full_path_is_no_finding() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let full = |part| {
        let mut message = sent(to, 0, part, 300);
        message.stages[Stage::TxNetwork] = Some(Nanos(200 * MS));
        message
    };
    let sends: Vec<_> = [Part::Cwnd, Part::Sndbuf, Part::Pacing]
        .into_iter()
        .flat_map(|part| (0..5).map(move |of| (part, of)))
        .map(|(part, of)| {
            let mut message = full(part);
            message.stamps.entry = at(of * 900);
            message
        })
        .collect();
    assert_eq!(told(&sends).findings, []);
}

#[test]
fn a_window_that_is_small_after_pauses_is_slow_start() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let sends: Vec<_> = (0..4)
        .map(|of| sent(to, of * 2_000, Part::Cwnd, 240))
        .collect();
    let sentence = sentence(&sends);
    assert!(
        sentence.contains("slow start") && sentence.contains("pauses of at least 1.76 s"),
        "{sentence}"
    );
    let mut new = sent(to, 0, Part::Cwnd, 1_400);
    new.opened = Some(Opened::Accepted);
    assert_eq!(told(&[new]).findings, []);
}

#[test]
fn a_connection_for_each_request_costs_a_handshake() {
    let mut messages = Vec::new();
    for of in 0..5 {
        let mut to = flow("10.0.0.1:40000", "10.0.0.2:80");
        to.cookie = SocketCookie(of + 1);
        let begin = 100 + of * 1_000;
        let mut connect = fixture::message(Direction::Tx);
        connect.flow = to;
        connect.comm = "ab".into();
        connect.opened = Some(Opened::Connected);
        connect.stages[Stage::ConnHandshake] = Some(Nanos(40 * MS));
        (connect.stamps.entry, connect.stamps.queued) = (at(begin), at(begin + 40));
        let mut answer = answer(to, "ab", begin + 80, 40);
        answer.parts[Part::Network] = Some(Nanos(40 * MS));
        answer.opened = Some(Opened::Connected);
        messages.extend([connect, answer]);
    }
    let sentence = sentence(&messages);
    assert!(
        sentence
            .starts_with("ab takes 80.0 ms for each connection with one request to 10.0.0.2:80"),
        "{sentence}"
    );
    assert!(
        sentence.contains("handshakes") && sentence.contains("5 connects for as many requests"),
        "{sentence}"
    );
}

fn wait(kind: Kind, end: End, since: u64, lasted: u64) -> Wait {
    Wait {
        kind,
        flow: flow("10.0.0.1:40000", "10.0.0.2:6379"),
        opened: None,
        cgroup: sockstamp_model::flow::CgroupId(0),
        pid: 7,
        comm: "app".into(),
        since: Timestamp::from_nanos(since * MS),
        lasted: Nanos(lasted * MS),
        inside: Nanos(lasted * MS),
        end,
        members: 1,
        bytes: 0,
        evidence: Evidence::default(),
    }
}

fn told_of(list: Vec<Wait>, attempts: Vec<Attempts>) -> Diagnosis {
    let mut case = Case::new(Scope::default());
    case.waits(&Waits {
        list,
        attempts,
        ..Waits::default()
    });
    case.diagnose(&summary())
}

fn tried(kind: Kind, service: &str, count: u64, failed: u64) -> Attempts {
    Attempts {
        key: Key {
            kind,
            netns: NetnsInode(1),
            protocol: Protocol::Tcp,
            service: service.parse().unwrap(),
            pid: 7,
        },
        comm: "app".into(),
        count,
        failed,
        sum_ns: u128::from(count * MS),
        min_ns: Nanos(MS),
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
        "3 of 3 requests of app to 10.0.0.2:6379 got no answer and were given up after 3.00 s"
    );
}

/// A measurement of some questions to a name server that were asked again after so many ms.
fn asked_again(after: u64, mean: u64) -> Diagnosis {
    let asked = (0..4).map(|of| {
        let mut wait = wait(Kind::Answer, End::AskedAgain, of * 1_500, after);
        wait.flow = flow(&format!("10.0.0.1:{}", 40_000 + of), "10.0.0.2:53");
        wait.flow.protocol = Protocol::Udp;
        wait
    });
    let mut all = tried(Kind::Answer, "10.0.0.2:53", 20, 0);
    all.sum_ns = u128::from(20 * mean * MS);
    told_of(asked.collect(), vec![all])
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
fn only_what_found_a_queue_full_makes_it_full() {
    let listener = |overflowed| ListenerSummary {
        local: "10.0.0.1:80".parse().unwrap(),
        netns: NetnsInode(1),
        queue: 0,
        limit: 4,
        dropped: 7,
        overflowed,
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
    let told = |list, is_silent| {
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list,
            ..Waits::default()
        });
        let peers = case.unheard().into_iter();
        for (from, peer) in peers.filter(|_| is_silent) {
            let neighbour = Neighbour {
                address: "10.0.0.254".parse().unwrap(),
                device: "eth0".into(),
            };
            case.neighbour(from, peer, neighbour);
        }
        case.diagnose(&summary()).findings[0].sentence.clone()
    };
    let silent = told(vec![open.clone()], true);
    let expected = "the next hop does not answer to its address (ARP, neighbour discovery): \
                    10.0.0.254 on eth0";
    assert!(silent.ends_with(expected), "{silent}");
    let lost = told(vec![open], false);
    assert!(lost.contains("lost on the way there"), "{lost}");
    let connects = told((0..4).map(given_up).collect(), true);
    assert!(connects.ends_with(expected), "{connects}");
}

#[test]
fn losses_are_those_of_a_link_that_went_down() {
    let to = flow("10.0.0.1:40000", "10.0.0.2:80");
    let mut case = Case::new(Scope::default());
    for of in 0..5 {
        let mut message = sent(to, of * 900, Part::Retransmit, 300);
        message.retransmits = 1;
        case.message(&message);
    }
    assert_eq!(case.lossy().len(), 1);
    let link = |downs| Link {
        device: "eth0".into(),
        downs,
    };
    for (from, peer) in case.lossy() {
        case.link(from, peer, link(4));
    }
    let mut summary = summary();
    // Acknowledgements were lost, too.
    summary.tx.resent = Some(Resent {
        timeouts: 5,
        needless: 4,
        ..Resent::default()
    });
    let finding = &case.diagnose(&summary).findings[0];
    let expected = "packets were lost while a link of this host was down: the link of eth0 went down \
                    4 times";
    assert!(finding.sentence.contains(expected), "{finding:?}");
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

/// As a download over paths of which one is longer: its bytes leave once, and the last
/// acknowledgement waits for those that are sent again in vain.
#[test]
fn what_is_acknowledged_late_after_it_was_sent_again_waits_for_that() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let told = |resent, room| {
        let mut case = Case::new(Scope::default());
        for of in 0..5 {
            let mut message = sent(to, of * 900, Part::Sndbuf, room);
            message.retransmits = 4;
            message.stages[Stage::TxQueue] = Some(Nanos(room * MS));
            message.parts[Part::Retransmit] = Some(Nanos(room * MS));
            message.stages[Stage::TxNetwork] = Some(Nanos(160 * MS));
            message.min_rtt = Some(Nanos(20 * MS));
            case.message(&message);
        }
        let mut summary = summary();
        summary.tx.resent = resent;
        case.diagnose(&summary).findings[0].node
    };
    assert_eq!(told(None, 0), Node::DeliveryLoss);
    assert_eq!(told(None, 200), Node::DeliveryLoss);
    let in_vain = Resent {
        fast: 20,
        needless: 18,
        ..Resent::default()
    };
    assert_eq!(told(Some(in_vain), 0), Node::DeliveryOvertaken);
    assert_eq!(told(Some(in_vain), 200), Node::DeliveryOvertaken);
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
            ..Waits::default()
        });
        let mut summary = summary();
        let services = &mut summary.tx.stages[Stage::AppService];
        services.get_or_insert_default().record(Nanos(MS), 20);
        case.diagnose(&summary)
    };
    let irregular = [90, 400, 700, 60, 250];
    let worker = told(irregular, 5);
    assert_eq!(worker.findings, []);
    assert!(
        worker.notes[0].contains("has a request open all the time"),
        "{worker:?}"
    );
    // Most of what this connection asks is answered at once; or it always takes as long.
    assert_eq!(told(irregular, 20).findings.len(), 1);
    assert_eq!(told([300; 5], 5).findings.len(), 1);
}

/// As downloads of a connection each over paths of which one is longer: no look sees them.
#[test]
fn what_came_before_it_was_sent_again_was_not_lost() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let told = |fast, timeouts, needless| {
        let mut case = Case::new(Scope::default());
        for of in 0..5 {
            let mut message = sent(to, of * 900, Part::Retransmit, 80);
            message.retransmits = 4;
            case.message(&message);
        }
        let mut summary = summary();
        summary.tx.resent = Some(Resent {
            fast,
            timeouts,
            needless,
            ..Resent::default()
        });
        case.diagnose(&summary).findings[0].clone()
    };
    let lost = told(20, 0, 0);
    assert_eq!(lost.node, Node::DeliveryLoss);
    assert!(
        lost.sentence.contains("20 segments were sent again;"),
        "{lost:?}"
    );
    let doubted = told(20, 0, 5).sentence;
    assert!(
        doubted.contains("some of them in vain, as DSACKs say"),
        "{doubted}"
    );
    assert_eq!(told(20, 2, 15).node, Node::DeliveryOvertaken);
    assert_eq!(told(2, 20, 15).node, Node::DeliveryBack);
}

/// As an answer that is lost: the question is sent again, too, and a DSACK says that it had come.
#[test]
fn what_came_twice_was_lost_on_the_way_back() {
    let to = flow("10.0.0.1:40000", "10.0.0.2:80");
    let told = |in_vain, reordered| {
        let mut case = Case::new(Scope::default());
        for of in 0..5 {
            let mut again = sent(to, of * 900, Part::Other, 0);
            again.retransmits = 1;
            again.stages[Stage::TxNetwork] = Some(Nanos(260 * MS));
            again.stamps.snd = at(of * 900);
            again.stamps.snd_last = at(of * 900 + 240);
            case.message(&again);
        }
        case.waits(&Waits {
            sending: vec![Sending {
                resent: 5,
                in_vain,
                reordered,
                ..sending(to, Connection::default())
            }],
            ..Waits::default()
        });
        case.diagnose(&summary()).findings.remove(0)
    };
    let there = told(0, 0);
    assert_eq!(there.node, Node::DeliveryLoss, "{there:?}");
    assert_eq!(told(4, 3).node, Node::DeliveryOvertaken);
    let back = told(4, 0);
    assert_eq!(back.node, Node::DeliveryBack);
    assert!(
        back.sentence.contains("on the way back")
            && back
                .sentence
                .contains("5 segments sent again, and DSACKs say"),
        "{back:?}"
    );
}

/// A service that sends alike to several clients; some take so much of the time to read.
fn pushed(windows: &[u64]) -> Diagnosis {
    let client = |of: usize| flow("10.0.0.1:8080", &format!("10.0.0.{}:50000", of + 2));
    let with_cookie = |of: usize| Flow {
        cookie: SocketCookie(of as u64 + 1),
        ..client(of)
    };
    let clocks = windows.iter().enumerate().map(|(of, window)| Sending {
        window: Nanos(*window * MS),
        ..sending(with_cookie(of), Connection::default())
    });
    let mut room = wait(Kind::Room, End::Open, 4_500, 500);
    room.opened = Some(Opened::Accepted);
    room.flow = with_cookie(0);
    let mut case = Case::new(Scope::default());
    case.waits(&Waits {
        list: vec![room],
        sending: clocks.collect(),
        ..Waits::default()
    });
    case.diagnose(&summary())
}

#[test]
fn one_of_many_that_reads_slowly_is_named() {
    let one = pushed(&[4_800, 0, 10, 0]);
    assert_eq!(
        one.findings[0].sentence,
        "data of app at :8080 for 10.0.0.2 waits 4.80 s until it leaves (1 wait): the peer's full \
         receive window (rwnd): its program reads too slowly, or its receive buffer is small; 3 \
         other connections have room"
    );
    for common in [&[4_800][..], &[4_800, 4_000, 10, 3_000], &[4_800, 0]] {
        assert_eq!(pushed(common).findings, [], "{common:?}");
    }
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

/// Those that are slow for another reason neither count nor set what is typical.
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

#[test]
fn requests_behind_the_one_connection_of_a_pool_are_no_subscriptions() {
    let one_by_one = behind_a_pool((0..48).map(|of| (of * 25, 24)));
    let turn = &one_by_one.findings[0];
    assert_eq!(turn.node, Node::ServiceTurn, "{one_by_one:#?}");
    assert!(turn.sentence.contains("wait for their turn"), "{turn:?}");
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

#[test]
fn segments_that_miss_count_in_the_rest_of_an_answer_too() {
    let from = flow("10.0.0.1:40000", "10.0.0.2:80");
    let part = |of: u64, hol, app| {
        let mut read = fixture::message(Direction::Rx);
        read.flow = from;
        read.comm = "curl".into();
        read.stages[Stage::RxHol] = Some(Nanos(hol * MS));
        read.stages[Stage::RxApp] = Some(Nanos(app * MS));
        read.stamps.read = at(1_000 + of * 900);
        read
    };
    let held: Vec<_> = (0..6).map(|of| part(of, 210, 300)).collect();
    let finding = &told(&held).findings[0];
    assert_eq!(
        (finding.node, finding.typical),
        (Node::ReadMissing, Nanos(210 * MS))
    );
    assert!(
        finding
            .sentence
            .starts_with("data of 10.0.0.2:80 reaches curl 210 ms late"),
        "{finding:?}"
    );
    let slow_reader: Vec<_> = (0..6).map(|of| part(of, 0, 300)).collect();
    assert_eq!(told(&slow_reader).findings, []);
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
fn two_questions_that_cost_seconds_are_enough() {
    let failed = |count: u64, lasted| {
        let given_up = (0..count).map(|of| wait(Kind::Answer, End::GivenUp, of * 3_100, lasted));
        told_of(
            given_up.collect(),
            vec![tried(Kind::Answer, "10.0.0.2:6379", 9, count)],
        )
    };
    assert_eq!(failed(2, 2_000).findings.len(), 1);
    assert_eq!(failed(2, 500).findings, []);
    assert_eq!(failed(1, 2_000).findings, []);
}

/// Late reads of some connections, each so long before its end, in milliseconds.
fn late_reads(reads: &[(u16, u64, u64)], disks: Nanos) -> String {
    let mut case = Case::new(Scope::default());
    for &(port, end, late) in reads {
        let mut message = fixture::message(Direction::Rx);
        message.flow = flow("10.0.0.1:8080", &format!("10.0.0.9:{port}"));
        message.opened = Some(Opened::Accepted);
        message.comm = "java".into();
        message.stages[Stage::RxApp] = Some(Nanos(late * MS));
        message.stamps.ready = at(end - late);
        message.stamps.read = at(end);
        case.message(&message);
    }
    case.disks(disks);
    case.diagnose(&summary()).findings[0].sentence.clone()
}

#[test]
fn reads_that_end_as_one_are_those_of_a_program_that_stood_still() {
    let stop =
        |end| [1, 2, 3, 4].map(|port| (port, end + u64::from(port), 1_000 + u64::from(port)));
    let whole = late_reads(&[stop(2_000), stop(6_000)].concat(), Nanos::ZERO);
    let told = "it stood still as a whole 2 times, while up to 4 connections waited";
    assert!(whole.contains(told), "{whole}");
    // Each is late by itself.
    let apart: Vec<_> = (1..=8)
        .map(|of| (of, 1_500 + 300 * u64::from(of), 1_100))
        .collect();
    let apart = late_reads(&apart, Nanos::ZERO);
    assert!(!apart.contains("stood still"), "{apart}");
}

#[test]
fn waits_of_this_host_for_disks_are_told_where_they_are_long_enough() {
    let told = |disks: u64| {
        let mut case = Case::new(Scope::default());
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
            },
        );
        case.diagnose(&summary()).findings[0].sentence.clone()
    };
    let disk = "; tasks of this host waited for disks for 2.50 s";
    assert!(told(2_500).contains(disk), "{}", told(2_500));
    assert!(!told(1_000).contains("waited for disks"));
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
fn a_question_that_never_arrived_is_no_subscription() {
    let notes = |resent| {
        let mut wait = wait(Kind::Answer, End::Open, 7_400, 540);
        wait.opened = None;
        wait.evidence.resent = Some(resent);
        told_of(vec![wait], Vec::new()).notes.len()
    };
    assert_eq!([notes(0), notes(2)], [1, 0]);
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

/// As of a client that writes all of its requests before it reads an answer.
#[test]
fn an_end_that_reads_nothing_does_not_blame_the_peer_for_that() {
    let told = |own_window| {
        let mut room = wait(Kind::Room, End::Open, 100, 7_000);
        room.opened = Some(Opened::Connected);
        room.evidence.window_closed = Some(Nanos(6_900 * MS));
        room.evidence.connection = Some(Connection {
            segment: 1_448,
            unread: 128_896,
            own_window,
            ..Connection::default()
        });
        told_of(vec![room], Vec::new()).findings[0].sentence.clone()
    };
    let both = "; 128 kB from there wait to be read here: neither end reads";
    assert!(told(0).ends_with(both), "{}", told(0));
    assert!(!told(60_000).contains("neither"), "{}", told(60_000));
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

#[test]
fn waits_one_after_the_other_are_not_at_one_moment() {
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
    assert!(told(10).contains(", at one moment)"), "{}", told(10));
    assert!(!told(100).contains("at one moment"), "{}", told(100));
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

/// Two threads serve six clients.
#[test]
fn late_reads_wait_for_the_requests_that_have_all_workers() {
    let mut list = Vec::new();
    for of in 0..20 {
        let begin = of / 2 * 300;
        let mut served = wait(Kind::Service, End::Data, begin, 60);
        served.flow.cookie = SocketCookie(of % 6 + 1);
        served.opened = Some(Opened::Accepted);
        let mut late = wait(Kind::Read, End::Data, begin + 1, 58);
        late.flow.cookie = SocketCookie((of + 2) % 6 + 1);
        late.opened = Some(Opened::Accepted);
        list.extend([served, late]);
    }
    let diagnosis = told_of(list, Vec::new());
    let late = diagnosis
        .findings
        .iter()
        .find(|finding| finding.node.root() == Node::Read);
    let late = late.unwrap_or_else(|| panic!("{diagnosis:#?}"));
    assert_eq!(late.node, Node::ReadTurn);
    assert!(
        late.sentence.contains("at most 2 requests at a time"),
        "{late:?}"
    );
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
    assert!(fetches.notes[0].contains("all the time"), "{fetches:?}");
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
    // They are opened on demand; or it answers nothing at once.
    assert_eq!(told(400, 30), 1);
    assert_eq!(told(20, 0), 1);
}

/// What an event loop that serves two connections does with one request in half a second each.
#[test]
fn what_an_idle_event_loop_holds_is_a_note() {
    let told = |sleep, others: u64| {
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
                    pid: 20,
                    at: Timestamp::from_nanos((150 + of * 700 + look * 80) * MS),
                    tasks: [(20, Some(sleep)), (21, Some(Sleep::Lock))]
                        .into_iter()
                        .collect(),
                }
            }));
        }
        let mut summary = summary();
        let services = &mut summary.tx.stages[Stage::AppService];
        services
            .get_or_insert_default()
            .record(Nanos(MS), 8 + others);
        case.diagnose(&summary)
    };
    assert_eq!(told(Sleep::Idle, 20).findings, []);
    assert_eq!(told(Sleep::Idle, 0).findings.len(), 1);
    assert_eq!(told(Sleep::Disk, 20).findings.len(), 1);
}
