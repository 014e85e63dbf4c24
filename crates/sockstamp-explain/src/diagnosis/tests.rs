use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::interface::{Interface, InterfaceSummary, Medium};
use sockstamp_model::listener::ListenerSummary;
use sockstamp_model::part::{Part, PartMap, PartSummary};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::summary::{Resent, Summary, Throttled};
use sockstamp_model::verdict::Verdict;

use super::*;

const MS: u64 = 1_000_000;

/// 100 messages of each direction, with the stages of a fast host and the given ones.
fn measured(slow: &[(Stage, u64)]) -> Summary {
    let usual = [
        (Stage::TxCopy, 2_000),
        (Stage::TxQueue, 3_000),
        (Stage::TxQdisc, 1_000),
        (Stage::TxNetwork, 80 * MS),
        (Stage::RxStack, 9_000),
        (Stage::RxApp, 20_000),
    ];
    let mut summary = Summary::default();
    for direction in Direction::ALL {
        let of = summary.direction_mut(direction);
        of.messages = 100;
        of.bytes = 10_000;
        let mut time = 0;
        for (stage, nanos) in usual.into_iter().chain(slow.iter().copied()) {
            if stage.direction() != direction {
                continue;
            }
            of.stages[stage]
                .get_or_insert_default()
                .record(Nanos(nanos), 100);
            time += if stage.has_share() { nanos } else { 0 };
        }
        of.sent.record(Nanos(time), 100);
        of.total.record(Nanos(time), 100);
    }
    summary
}

fn with_part(part: Part, nanos: u64) -> Summary {
    let mut summary = measured(&[(part.stage(), nanos)]);
    summary.direction_mut(part.stage().direction()).parts[part] = Some(PartSummary {
        count: 100,
        sum_ns: u128::from(nanos) * 100,
        max_ns: Some(Nanos(nanos)),
    });
    summary
}

fn told(summary: &Summary) -> Option<String> {
    of(summary, &Owners::default())
}

fn says(summary: &Summary, sentence: &str) {
    assert_eq!(told(summary).as_deref(), Some(sentence));
}

#[test]
fn no_diagnosis_is_made_if_nothing_is_large() {
    assert_eq!(told(&Summary::default()), None);
    assert_eq!(told(&measured(&[])), None);
    // Long acknowledgements alone, and waits of bulk senders that are as they should be.
    assert_eq!(told(&with_part(Part::Cwnd, 40 * MS)), None);
    assert_eq!(told(&with_part(Part::Sndbuf, 20 * MS)), None);
    assert_eq!(told(&measured(&[(Stage::AppService, 900 * MS)])), None);
    assert_eq!(told(&measured(&[(Stage::PeerAnswer, 49 * MS)])), None);
}

#[test]
fn the_packet_scheduler_is_named_with_its_device() {
    let mut summary = measured(&[(Stage::TxQdisc, 28 * MS)]);
    says(
        &summary,
        "100.0 % of the 28.0 ms until messages leave is the packet scheduler (tx.qdisc)",
    );
    summary.interfaces = vec![InterfaceSummary {
        interface: Some(Interface {
            name: "eth0".into(),
            index: 2,
            netns: NetnsInode(1),
        }),
        medium: Some(Medium::Physical),
        leads_on: false,
        messages: 100,
    }];
    says(
        &summary,
        "100.0 % of the 28.0 ms until messages leave is the packet scheduler of eth0 (tx.qdisc)",
    );
}

#[test]
fn each_cause_of_waiting_has_its_sentence() {
    for (part, words) in [
        (Part::Nagle, "Nagle's algorithm"),
        (Part::Cork, "held back by the program itself"),
        (Part::Cwnd, "congestion window"),
        (Part::Retransmit, "congestion window"),
        (Part::Rwnd, "its program reads too slowly"),
        (Part::Sndbuf, "room in the send buffer"),
    ] {
        let sentence = told(&with_part(part, 200 * MS)).unwrap();
        assert!(sentence.contains(words), "{part}: {sentence}");
        assert!(
            sentence.starts_with("100.0 % of the 200 ms until messages leave is "),
            "{sentence}"
        );
    }
}

#[test]
fn each_slow_stage_of_receiving_has_its_sentence() {
    for (stage, words) in [
        (Stage::RxHol, "the wait for missing segments"),
        (Stage::RxWakeup, "the reader's wait for a CPU"),
        (Stage::RxApp, "the program, which reads it late"),
        (Stage::RxStack, "the kernel's receive path"),
    ] {
        let sentence = told(&measured(&[(stage, 60 * MS)])).unwrap();
        assert!(sentence.contains(words), "{stage}: {sentence}");
        assert!(sentence.contains("until data is read"), "{sentence}");
    }
}

#[test]
fn a_cpu_quota_is_named_where_its_programs_are_slow() {
    let quota = |throttled| {
        Some(Throttled {
            cgroup: "/web".into(),
            periods: 50,
            throttled,
            time: Nanos(3_000 * MS),
        })
    };
    for stage in [Stage::RxWakeup, Stage::RxApp, Stage::AppService] {
        let mut summary = measured(&[(stage, 60 * MS)]);
        summary.throttled = quota(42);
        let sentence = told(&summary).unwrap();
        let start = "the CPU quota of /web was used up in 42 of 50 periods: ";
        assert!(sentence.starts_with(start), "{sentence}");
        assert!(sentence.contains(stage.name()), "{sentence}");
        summary.throttled = quota(4);
        assert!(!told(&summary).is_some_and(|sentence| sentence.contains("quota")));
    }
    let mut summary = measured(&[]);
    summary.throttled = quota(42);
    assert_eq!(told(&summary), None, "nothing is slow");
    for (held, expected) in [(30, "(50.0 % of app.service 60.0 ms)"), (5, "")] {
        let mut summary = measured(&[(Stage::AppService, 60 * MS)]);
        summary.throttled = quota(42);
        summary.tx.parts[Part::ServiceThrottled] = Some(PartSummary {
            count: 100,
            sum_ns: u128::from(held * MS) * 100,
            max_ns: Some(Nanos(held * MS)),
        });
        let sentence = told(&summary).unwrap_or_default();
        assert!(sentence.ends_with(expected), "{sentence}");
        assert_eq!(sentence.contains("quota"), held == 30, "{sentence}");
    }
}

#[test]
fn a_cgroups_name_is_escaped_in_the_sentence() {
    let mut summary = measured(&[(Stage::RxWakeup, 60 * MS)]);
    summary.throttled = Some(Throttled {
        cgroup: "/\u{1b}]0;x\u{7}\nok".into(),
        periods: 50,
        throttled: 42,
        time: Nanos(3_000 * MS),
    });
    let sentence = told(&summary).unwrap();
    assert!(
        sentence.contains("CPU quota") && !sentence.contains(char::is_control),
        "{sentence}"
    );
}

#[test]
fn a_slow_reader_is_diagnosed_by_its_largest_part() {
    let mut summary = measured(&[(Stage::RxApp, 60 * MS)]);
    let mut with = |part: Part, nanos: u64| {
        summary.rx.parts[part] = Some(PartSummary {
            count: 100,
            sum_ns: u128::from(nanos) * 100,
            max_ns: None,
        });
        told(&summary).unwrap()
    };
    assert!(with(Part::Running, 20 * MS).ends_with("reads it late (rx.app)"));
    assert!(with(Part::Blocked, 45 * MS).ends_with("reads it late (rx.app, 75.0 % blocked)"));
}

#[test]
fn slow_answers_are_the_peers_or_the_paths() {
    let slow = |network: u64| {
        let mut summary = measured(&[(Stage::PeerAnswer, 60 * MS)]);
        summary.rx.parts[Part::Network] = Some(PartSummary {
            count: 100,
            sum_ns: u128::from(network) * 100,
            max_ns: None,
        });
        summary
    };
    says(&slow(0), "peers take 60.0 ms to answer on average");
    says(
        &slow(10 * MS),
        "peers take 60.0 ms to answer on average, of which the path is at least 10.0 ms",
    );
    says(
        &slow(55 * MS),
        "answers take 60.0 ms on average, of which the path to the peers is at least 55.0 ms",
    );
}

#[test]
fn slow_and_failed_connects_are_diagnosed() {
    assert_eq!(told(&measured(&[(Stage::ConnHandshake, 99 * MS)])), None);
    let mut summary = measured(&[(Stage::ConnHandshake, 1_100 * MS)]);
    says(&summary, "connects take 1.10 s (conn.handshake)");
    summary.connections.syns_again = 3;
    says(
        &summary,
        "connects take 1.10 s (conn.handshake); 3 SYNs were sent again",
    );
    let late = measured(&[(Stage::ConnAccept, 12 * MS)]);
    says(
        &late,
        "connections wait 12.0 ms to be accepted (conn.accept): the program accepts late",
    );
    let late_from_the_start = measured(&[(Stage::ConnAccept, 12 * MS), (Stage::RxApp, 20 * MS)]);
    assert_eq!(told(&late_from_the_start), told(&late));
    let later_still = measured(&[(Stage::ConnAccept, 12 * MS), (Stage::RxApp, 30 * MS)]);
    assert!(told(&later_still).unwrap().contains("rx.app"));
    let failed = &mut summary.connections.failed;
    failed.insert(Verdict::ConnectAborted, 50);
    failed.insert(Verdict::ConnectRefused, 2);
    failed.insert(Verdict::ConnectTimeout, 3);
    says(&summary, "5 of 5 connects failed, most as connect-timeout");
    summary.connections.opened = 100;
    says(
        &summary,
        "connects take 1.10 s (conn.handshake); 3 SYNs were sent again",
    );
}

#[test]
fn a_full_accept_queue_is_reported_with_its_listener() {
    let mut summary = measured(&[(Stage::ConnAccept, 200 * MS)]);
    let listener = |overflowed| ListenerSummary {
        local: SocketAddr::from(([0, 0, 0, 0], 80)),
        netns: NetnsInode(7),
        queue: 2,
        limit: 1,
        dropped: 40,
        overflowed,
    };
    for few in [None, Some(0), Some(2)] {
        summary.listeners = vec![listener(few)];
        assert!(told(&summary).unwrap().starts_with("connections wait"));
    }
    summary.listeners = vec![listener(Some(40))];
    let sentence = told(&summary).unwrap();
    assert!(
        sentence.starts_with("the accept queue of 0.0.0.0:80 is full (2 of 1 at the end): 40 SYNs"),
        "{sentence}"
    );
}

#[test]
fn a_program_that_has_most_of_the_time_is_named() {
    let summary = measured(&[(Stage::RxApp, 50 * MS)]);
    let owners = |times: [u64; 2]| {
        let mut owners = Owners::default();
        for (port, time) in (6379..).zip(times) {
            let stages = StageMap::from_fn(|stage| (stage == Stage::RxApp).then_some(Nanos(time)));
            let parts = PartMap::from_fn(|_| None);
            owners.add_times(("redis-server".into(), port), &stages, &parts, 1);
        }
        owners
    };
    let sentence = of(&summary, &owners([90 * MS, 10 * MS])).unwrap();
    assert!(sentence.starts_with("redis-server 6379: "), "{sentence}");
    assert_eq!(of(&summary, &owners([50 * MS, 50 * MS])), told(&summary));
}

#[test]
fn if_only_some_answers_are_known_the_average_is_that_of_all() {
    let summary = measured(&[(Stage::PeerAnswer, 60 * MS)]);
    let mut owners = Owners::default();
    let peer = SocketAddr::from(([10, 0, 0, 1], 53));
    owners.add(peer, Nanos(90 * MS), Nanos(0), 3);
    let sentence = of(&summary, &owners).unwrap();
    assert_eq!(
        sentence,
        "peers take 60.0 ms to answer on average, most of it 10.0.0.1:53 (DNS)"
    );
}

#[test]
fn what_keeps_a_request_here_is_not_the_peers() {
    let mut summary = measured(&[(Stage::TxQdisc, 100 * MS), (Stage::PeerAnswer, 107 * MS)]);
    assert!(told(&summary).unwrap().contains("packet scheduler"));
    summary = measured(&[(Stage::TxQdisc, 30 * MS), (Stage::PeerAnswer, 107 * MS)]);
    assert!(told(&summary).unwrap().contains("peers take"));
}

#[test]
fn a_peer_that_has_most_of_the_time_is_named() {
    let summary = measured(&[(Stage::PeerAnswer, 60 * MS)]);
    let owners = |weights: [u32; 2]| {
        let mut owners = Owners::default();
        for (port, weight) in (53..).zip(weights) {
            let peer = SocketAddr::from(([10, 0, 0, 1], port));
            owners.add(peer, Nanos(60 * MS), Nanos(0), weight);
        }
        owners
    };
    let sentence = of(&summary, &owners([90, 10])).unwrap();
    assert_eq!(
        sentence,
        "10.0.0.1:53 (DNS) takes 60.0 ms to answer on average"
    );
    let sentence = of(&summary, &owners([50, 50])).unwrap();
    assert_eq!(sentence, "peers take 60.0 ms to answer on average");
}

#[test]
fn losses_are_reported_by_their_count() {
    let mut summary = measured(&[]);
    summary.tx.retransmits = 5;
    says(
        &summary,
        "packets are lost, or acknowledged late: 5 segments were sent again, of at least 100",
    );
    summary.tx.resent = Some(Resent {
        fast: 5,
        ..Resent::default()
    });
    says(
        &summary,
        "packets are lost: 5 segments were sent again, of at least 100",
    );
    summary.tx.segments = Some(120);
    says(
        &summary,
        "packets are lost: 5 of 120 segments were sent again",
    );
    let resent = summary.tx.resent;
    summary.tx.retransmits = 9;
    for lossless in [
        Resent {
            probes: 9,
            needless: 5,
            ..Resent::default()
        },
        Resent {
            window: 5,
            ..Resent::default()
        },
        Resent {
            syns: 5,
            ..Resent::default()
        },
    ] {
        summary.tx.resent = Some(lossless);
        assert_eq!(told(&summary), None);
    }
    (summary.tx.resent, summary.tx.retransmits) = (resent, 5);
    summary.tx.segments = None;
    // Less than 1 % of the segments that these bytes need.
    summary.tx.bytes = 1_000_000;
    assert_eq!(told(&summary), None);
    summary.rx.drops = 5;
    assert!(
        told(&summary)
            .unwrap()
            .starts_with("5 datagrams were dropped at their socket")
    );
}

#[test]
fn refused_messages_come_before_every_time() {
    let mut summary = measured(&[(Stage::TxQdisc, 28 * MS)]);
    summary.verdicts.insert(Verdict::Evicted, 1_400);
    says(
        &summary,
        "the reader falls behind: 87.5 % of the messages are refused, most as evicted: the figures cover only the others",
    );
    summary.verdicts.insert(Verdict::Evicted, 40);
    assert!(told(&summary).unwrap().contains("packet scheduler"));
}

#[test]
fn the_larger_of_two_causes_is_reported() {
    let summary = measured(&[(Stage::TxQdisc, 10 * MS), (Stage::RxApp, 300 * MS)]);
    assert!(told(&summary).unwrap().contains("rx.app"));
    let summary = measured(&[(Stage::TxQdisc, 300 * MS), (Stage::RxApp, 20 * MS)]);
    assert!(told(&summary).unwrap().contains("tx.qdisc"));
}

#[test]
fn the_table_is_complete_and_its_names_are_unique() {
    for (place, rule) in RULES.iter().enumerate() {
        assert!(
            RULES[..place].iter().all(|other| other.name != rule.name),
            "{}",
            rule.name
        );
        for text in [rule.condition, rule.check, rule.cure] {
            assert!(text.ends_with('.') && !text.contains('|'), "{text}");
        }
        assert!(!rule.sentence.is_empty() && !rule.sentence.contains('|'));
    }
}
