//! Test what only TCP has: ids that count bytes, stamps that cover several sends, the state of the
//! connection.

use std::io::IoSlice;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use socket2::SockRef;
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping::{
    Coverage, Match, Matcher, MessageOptions, Options, Origin, Outcome, TxKind, send,
};
use testbed::{Family, PATIENCE};

use crate::common::{
    FAMILIES, host, read_all, skip, stamps, supported, tcp_pair, wait_for_error_queue,
};

fn connection(family: Family) -> TcpStream {
    let (sender, receiver) = host("tcp").enter(|| tcp_pair(family));
    read_all(receiver);
    sender
}

fn write(stream: &TcpStream, bytes: usize) -> usize {
    let payload = vec![b'x'; bytes];
    send(
        stream,
        &[IoSlice::new(&payload)],
        None,
        MessageOptions::new(),
    )
    .unwrap()
}

#[test]
fn ids_count_bytes_from_where_the_option_says() {
    let test = "tcp::ids_count_bytes_from_where_the_option_says";
    for family in FAMILIES {
        let Some(options) = supported(test, Options::new().tx_software().only_stamps().tcp_id())
        else {
            return;
        };
        let stream = connection(family);
        // Earlier bytes do not count, acknowledged or not.
        write(&stream, 1_000);
        options.apply(&stream).unwrap();
        for bytes in [1, 10, 100] {
            write(&stream, bytes);
        }
        let ids: Vec<_> = stamps(&stream, 3).iter().map(|stamp| stamp.id).collect();
        assert_eq!(ids, [0, 10, 110], "{family:?}");
    }
}

/// Each of many sends of all sizes gets each stamp, some by a later one's.
#[test]
fn each_send_gets_each_stamp() {
    let kinds = [TxKind::Sched, TxKind::Snd, TxKind::Ack];
    for family in FAMILIES {
        let stream = connection(family);
        let options = Options::new().tx_sched().tx_software().tx_ack().id();
        options.only_stamps().apply(&stream).unwrap();
        let origin = Origin::Unacknowledged { outstanding: 0 };
        let mut matcher = Matcher::stream(256, &kinds, origin);
        let (mut queue, mut seen) = (ErrorQueue::new(), vec![[0; 3]; 200]);
        let mut give = |matcher: &mut Matcher<usize>| {
            let report = |report: Report<'_>| {
                let Report::Stamp { stamp, .. } = report else {
                    panic!("{report:?}")
                };
                let matched = |matched: Match<'_, usize>| {
                    let kind = kinds.iter().position(|kind| *kind == matched.kind).unwrap();
                    seen[*matched.message][kind] += 1;
                };
                let outcome = matcher.stamp(&stamp, matched);
                assert!(
                    matches!(outcome, Outcome::Matched | Outcome::Duplicate),
                    "{outcome:?}"
                );
            };
            queue.drain(&stream, report).unwrap();
        };
        for number in 0..200 {
            let bytes = write(&stream, 1 + number * number % 4_001);
            assert_eq!(matcher.sent(bytes, number), None);
            give(&mut matcher);
        }
        let start = Instant::now();
        while matcher.unfinished().next().is_some() && start.elapsed() < PATIENCE {
            wait_for_error_queue(&stream, Duration::from_millis(10));
            give(&mut matcher);
        }
        assert_eq!(matcher.unfinished().count(), 0, "{:?}", matcher.counters());
        let missing: Vec<_> = (0..200)
            .filter(|number| seen[*number].contains(&0))
            .collect();
        assert_eq!(missing, [0_usize; 0], "{family:?}");
        assert_eq!(matcher.counters().unknown + matcher.counters().past, 0);
    }
}

#[test]
fn sends_that_share_a_packet_share_its_stamp() {
    let stream = connection(Family::V4);
    Options::new()
        .tx_software()
        .only_stamps()
        .id()
        .apply(&stream)
        .unwrap();
    SockRef::from(&stream).set_tcp_cork(true).unwrap();
    let mut matcher = Matcher::stream(8, &[TxKind::Snd], Origin::Unacknowledged { outstanding: 0 });
    for message in 0..3 {
        matcher.sent(write(&stream, 50), message);
    }
    SockRef::from(&stream).set_tcp_cork(false).unwrap();
    let got = stamps(&stream, 1);
    let ids: Vec<_> = got.iter().map(|stamp| stamp.id).collect();
    assert_eq!(ids, [149]);
    let mut given = Vec::new();
    matcher.stamp(&got[0], |matched| {
        given.push((*matched.message, matched.coverage))
    });
    let expected = [
        (0, Coverage::Merged),
        (1, Coverage::Merged),
        (2, Coverage::Exact),
    ];
    assert_eq!(given, expected);
}

#[test]
fn stamps_have_the_state_of_the_connection() {
    let test = "tcp::stamps_have_the_state_of_the_connection";
    let Some(options) = supported(test, Options::new().tx_ack().statistics()) else {
        return;
    };
    for family in FAMILIES {
        let stream = connection(family);
        options.apply(&stream).unwrap();
        write(&stream, 1_234);
        assert!(wait_for_error_queue(&stream, PATIENCE));
        let mut seen = 0;
        let check = |report: Report<'_>| {
            let Report::Stamp {
                statistics: Some(statistics),
                ..
            } = report
            else {
                panic!("{report:?}")
            };
            seen += 1;
            assert_eq!(statistics.bytes_sent(), Some(1_234));
            assert_eq!(statistics.bytes_sent_again(), Some(0));
            assert_eq!(statistics.segments_sent(), Some(1));
            assert_eq!(statistics.congestion_state(), Some(0));
            assert_eq!(statistics.timeouts_in_a_row(), Some(0));
            assert!(statistics.congestion_window() >= Some(10));
            assert!(statistics.round_trip() > Some(Duration::ZERO));
            assert!(statistics.round_trip() < Some(Duration::from_secs(1)));
            match statistics.ttl() {
                Some(ttl) => assert_eq!(ttl, 64),
                None => skip(test, "this kernel does not tell the TTL of an ACK"),
            }
        };
        ErrorQueue::new().drain(&stream, check).unwrap();
        assert_eq!(seen, 1, "{family:?}");
    }
}
