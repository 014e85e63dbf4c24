//! Data that waits to leave, or to be acknowledged.

use super::*;

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

/// As of a camera whose socket is connected: nothing shows its calls.
#[test]
fn datagrams_whose_send_call_is_not_seen_wait_in_a_queue_all_the_same() {
    let mut to = flow("10.0.0.1:40000", "10.0.0.2:5004");
    to.protocol = Protocol::Udp;
    let late = |of: u64| {
        let mut sent = sent(to, 0, Part::Other, 0);
        sent.stages[Stage::TxQdisc] = Some(Nanos(200 * MS));
        sent.stages[Stage::TxNetwork] = None;
        (sent.stamps.entry, sent.stamps.sched) = (None, at(of * 300));
        sent
    };
    let sentence = sentence(&[late(1), late(2), late(3), late(4)]);
    assert!(
        sentence.starts_with("data of nginx for 10.0.0.2:5004 waits 200 ms until it leaves"),
        "{sentence}"
    );
    assert!(sentence.contains("packet scheduler"), "{sentence}");
}

#[test]
fn each_cause_of_waiting_has_its_words() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    for (part, words) in [
        (Part::Nagle, "Nagle's algorithm"),
        (Part::Cork, "held back by the program itself"),
        (Part::Sndbuf, "the send buffer is full"),
        (Part::Retransmit, "packets are lost"),
        (Part::Tsq, "the packet scheduler"),
        (Part::Neighbour, "the link address of the next hop"),
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

#[test]
fn a_next_hop_whose_address_is_waited_for_is_named() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let sends: Vec<_> = (0..5)
        .map(|of| sent(to, of * 900, Part::Neighbour, 500))
        .collect();
    let mut case = Case::new(Scope::default());
    sends.iter().for_each(|message| case.message(message));
    for (from, peer) in case.resolving() {
        assert_eq!(peer, to.remote.ip());
        let next_hop = NextHop {
            address: "10.0.0.254".parse().unwrap(),
            device: "eth0".into(),
        };
        case.next_hop(from, peer, next_hop);
    }
    let sentence = case.diagnose(&summary()).findings[0].sentence.clone();
    assert!(sentence.ends_with(": 10.0.0.254 on eth0"), "{sentence}");
    // Paced data waits for no address.
    let mut paced = Case::new(Scope::default());
    paced.message(&sent(to, 0, Part::Pacing, 500));
    assert!(paced.resolving().is_empty());
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
    // The table of stages has another name for it.
    assert!(own.contains("by TCP's own clocks"), "{own}");
}

/// A slow reader leaves a small window; without scaling, a fast one leaves 64 KB.
#[test]
fn a_window_that_is_not_scaled_is_told_from_a_slow_reader() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let told_in = |unscaled, peer_window, time| {
        let mut case = Case::new(Scope::default());
        for of in 0..5 {
            let mut message = sent(to, of * 900, Part::Rwnd, time);
            message.min_rtt = Some(Nanos(20 * MS));
            case.message(&message);
        }
        let connection = Connection {
            unacknowledged: 1,
            unscaled,
            peer_window,
            ..Connection::default()
        };
        case.waits(&Waits {
            sending: vec![Sending {
                window: Nanos(2_000 * MS),
                ..sending(to, connection)
            }],
            ..Waits::default()
        });
        let Diagnosis {
            findings, notes, ..
        } = case.diagnose(&summary());
        // Who reads slowly waits for itself: a note.
        let sentence = findings.first().map(|finding| finding.sentence.clone());
        sentence.unwrap_or_else(|| notes[0].clone())
    };
    let told = |unscaled, peer_window| told_in(unscaled, peer_window, 80);
    let small = told(true, 64_000);
    assert!(small.contains("did not agree on scaled windows"), "{small}");
    // The reader hung, and reads again.
    let hung = told_in(true, 64_000, 700);
    for other in [told(true, 3_000), told(false, 64_000), hung] {
        assert!(other.contains("reads too slowly"), "{other}");
    }
}

/// Connections of one answer each have ended when the sockets are looked at; one goes on.
#[test]
fn a_buffer_that_a_listener_hands_on_limits_all_its_connections() {
    let client = |port: u64| flow("10.0.0.1:80", &format!("10.0.0.2:{port}"));
    let told = |part, buffer_set| {
        let mut case = Case::new(Scope::default());
        for of in 0..5 {
            let mut message = sent(client(50_000 + of), of * 900, part, 80);
            message.opened = Some(Opened::Accepted);
            case.message(&message);
        }
        let goes_on = sending(
            client(50_009),
            Connection {
                unacknowledged: 4_000,
                congestion_window: 10,
                segment: 1448,
                buffer_set,
                ..Connection::default()
            },
        );
        case.waits(&Waits {
            sending: vec![goes_on],
            ..Waits::default()
        });
        let findings = case.diagnose(&summary()).findings;
        findings.first().map(|finding| finding.sentence.clone())
    };
    for part in [Part::Pacing, Part::Cork] {
        let set = told(part, true).unwrap();
        assert!(
            set.contains("the send buffer is full") && set.contains("SO_SNDBUF"),
            "{set}"
        );
    }
    assert_eq!(told(Part::Pacing, false), None);
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
    let mut new = sent(to, 0, Part::Cwnd, 700);
    new.opened = Some(Opened::Accepted);
    assert_eq!(told(&[new]).findings, []);
}

/// Twelve round trips of 60 ms double a window often enough for any path.
#[test]
fn slow_start_ends() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let mut long: Vec<_> = (0..4)
        .map(|of| sent(to, 1_000 + of * 1_450, Part::Cwnd, 1_400))
        .collect();
    long.iter_mut()
        .for_each(|message| message.opened = Some(Opened::Accepted));
    let finding = &told(&long).findings[0];
    assert_eq!(finding.node, Node::DeliveryCongestion, "{finding:?}");
    // The last of these comes after a pause, and the others are one burst.
    long[3].stamps.entry = at(7_000);
    let parts = told(&long).findings[0].parts.clone();
    let restart = parts.get(&Node::DeliveryRestart);
    // Ten of 1,400 ms are no loss.
    assert_eq!(restart, Some(&(720 * MS * 1_390 / 1_400)), "{parts:?}");
}

/// Ten messages of each burst wait for the same 240 ms.
#[test]
fn messages_that_are_queued_together_are_in_one_slow_start() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let sends: Vec<_> = (0..40)
        .map(|of| sent(to, of / 10 * 2_000 + of % 10, Part::Cwnd, 240 - of % 10))
        .collect();
    let finding = &told(&sends).findings[0];
    assert_eq!(finding.node, Node::DeliveryRestart, "{finding:?}");
    assert_eq!(finding.parts.get(&Node::DeliveryCongestion), None);
}

#[test]
fn what_was_sent_between_slow_sends_leaves_no_pause() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let told = |sends| {
        let mut case = Case::new(Scope::default());
        for of in 0..4 {
            let mut message = sent(to, of * 2_000, Part::Cwnd, 240);
            message.bytes = 100_000;
            case.message(&message);
        }
        let connection = Connection {
            segment: 1_448,
            ..Connection::default()
        };
        case.waits(&Waits {
            sending: vec![Sending {
                sends,
                ..sending(to, connection)
            }],
            ..Waits::default()
        });
        case.diagnose(&summary()).findings[0].node
    };
    assert_eq!(told(280), Node::DeliveryRestart);
    assert_eq!(told(2_800), Node::DeliveryCongestion);
}

#[test]
fn a_connection_that_is_older_than_the_measurement_is_in_no_slow_start_of_its_own() {
    let to = flow("10.0.0.1:80", "10.0.0.2:50000");
    let told = |older| {
        let mut case = Case::new(Scope::default());
        for of in 0..4 {
            let mut message = sent(to, 1_000 + of * 250, Part::Cwnd, 150);
            message.opened = Some(Opened::Accepted);
            case.message(&message);
        }
        case.waits(&Waits {
            older,
            ..Waits::default()
        });
        case.diagnose(&summary()).findings
    };
    assert_eq!(told(Vec::new()), []);
    assert_eq!(told(vec![to.cookie])[0].node, Node::DeliveryCongestion);
}

#[test]
fn losses_are_those_of_a_link_that_went_down() {
    let to = flow("10.0.0.1:40000", "10.0.0.2:80");
    let told = |times: &[(u64, u64)]| {
        let mut case = Case::new(Scope::default());
        for of in 0..5 {
            let mut message = sent(to, of * 900, Part::Retransmit, 300);
            message.retransmits = 1;
            case.message(&message);
        }
        assert_eq!(case.lossy().len(), 1);
        let time = |(begin, end): &(u64, u64)| (at(*begin).unwrap(), at(*end).unwrap());
        for (from, peer) in case.lossy() {
            let link = Link {
                device: "eth0".into(),
                downs: 4,
                times: times.iter().map(time).collect(),
            };
            case.link(from, peer, link);
        }
        let mut summary = summary();
        // Acknowledgements were lost, too.
        summary.tx.resent = Some(Resent {
            timeouts: 5,
            needless: 4,
            ..Resent::default()
        });
        case.diagnose(&summary).findings[0].sentence.clone()
    };
    let while_down = told(&[(0, 600), (900, 3_900)]);
    let expected = "packets were lost while a link of this host was down: the link of eth0 went down \
                    4 times";
    assert!(while_down.contains(expected), "{while_down}");
    // The link went down between two losses.
    let between = told(&[(600, 700)]);
    assert!(!between.contains("link"), "{between}");
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

/// A service that sends to several clients; some take so much of the time to read. The first one
/// gets 100 segments.
fn pushed(windows: &[u64], sends: u32) -> Diagnosis {
    let client = |of: usize| flow("10.0.0.1:8080", &format!("10.0.0.{}:50000", of + 2));
    let with_cookie = |of: usize| Flow {
        cookie: SocketCookie(of as u64 + 1),
        ..client(of)
    };
    let clocks = windows.iter().enumerate().map(|(of, window)| Sending {
        window: Nanos(*window * MS),
        sends: if of == 0 { 100 } else { sends },
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
    let one = pushed(&[4_800, 0, 10, 0], 300);
    assert_eq!(
        one.findings[0].sentence,
        "data of app at :8080 for 10.0.0.2 waits 4.80 s until it leaves (1 wait): the peer's full \
         receive window (rwnd): its program reads too slowly, or its receive buffer is small; 3 \
         other connections have room"
    );
    for common in [&[4_800][..], &[4_800, 4_000, 10, 3_000], &[4_800, 0]] {
        assert_eq!(pushed(common, 300).findings, [], "{common:?}");
    }
    // The others get pages.
    assert_eq!(pushed(&[4_800, 0, 10, 0], 20).findings, []);
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
