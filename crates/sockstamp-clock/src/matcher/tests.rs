use super::*;
use crate::time::Timestamp;
use proptest::prelude::*;

fn stamp(id: u32, kind: TxKind) -> TxStamp {
    TxStamp {
        id,
        kind,
        time: TxTime::Software(Timestamp::from_nanos(1)),
    }
}

/// Return the messages that get the stamp.
fn given(matcher: &mut Matcher<u32>, id: u32, kind: TxKind) -> (Outcome, Vec<(u32, Coverage)>) {
    let mut seen = Vec::new();
    let outcome = matcher.stamp(&stamp(id, kind), |matched| {
        seen.push((*matched.message, matched.coverage));
    });
    (outcome, seen)
}

#[test]
fn a_stamp_of_tcp_covers_earlier_sends() {
    let mut matcher = Matcher::stream(8, &[TxKind::Ack], Origin::NextByte);
    for (message, bytes) in [(0, 10), (1, 20), (2, 5)] {
        assert_eq!(matcher.sent(bytes, message), None);
    }
    let merged = |message| (message, Coverage::Merged);
    let exact = |message| (message, Coverage::Exact);
    assert_eq!(
        given(&mut matcher, 29, TxKind::Ack),
        (Outcome::Matched, vec![merged(0), exact(1)])
    );
    assert_eq!(
        given(&mut matcher, 9, TxKind::Ack),
        (Outcome::Matched, vec![exact(0)])
    );
    assert_eq!(
        given(&mut matcher, 29, TxKind::Ack),
        (Outcome::Duplicate, vec![])
    );
    assert_eq!(
        given(&mut matcher, 35, TxKind::Ack),
        (Outcome::Unknown, vec![])
    );
    assert_eq!(matcher.unfinished().collect::<Vec<_>>(), [&2]);
    let expected = MatcherCounters {
        matched: 2,
        merged: 1,
        duplicate: 1,
        unknown: 1,
        ..MatcherCounters::default()
    };
    assert_eq!(matcher.counters(), expected);
}

#[test]
fn bytes_without_stamps_and_before_the_origin_count() {
    let mut matcher = Matcher::stream(8, &[], Origin::Unacknowledged { outstanding: 100 });
    matcher.sent_unstamped(50);
    matcher.sent(0, 6);
    matcher.sent(10, 7);
    assert_eq!(
        given(&mut matcher, 99, TxKind::Snd),
        (Outcome::Past, vec![])
    );
    assert_eq!(
        given(&mut matcher, 159, TxKind::Snd),
        (Outcome::Matched, vec![(7, Coverage::Exact)])
    );
}

#[test]
fn chosen_ids_come_in_any_order_and_a_failed_send_moves_none() {
    let mut matcher = Matcher::chosen_ids(4, &[TxKind::Snd]);
    for (id, message) in [(u32::MAX, 0), (1, 2), (0, 1), (5, 3)] {
        assert_eq!(matcher.sending(id, message), None);
    }
    assert_eq!(matcher.unsent(1), Some(2));
    assert_eq!(matcher.unsent(1), None);
    for (id, outcome, message) in [
        (5, Outcome::Matched, Some(3)),
        (0, Outcome::Matched, Some(1)),
        (1, Outcome::Unknown, None),
        (u32::MAX, Outcome::Matched, Some(0)),
        (0, Outcome::Duplicate, None),
        (6, Outcome::Unknown, None),
    ] {
        let given = given(&mut matcher, id, TxKind::Snd);
        let messages = message.map(|message| (message, Coverage::Exact));
        assert_eq!(given, (outcome, messages.into_iter().collect()), "{id}");
    }
    assert_eq!(matcher.sending(9, 4), None);
    assert_eq!(matcher.sending(8, 5), None, "the oldest had its stamp");
    assert_eq!(matcher.unfinished().collect::<Vec<_>>(), [&5, &4]);
}

#[test]
fn ids_of_two_counts_are_told_apart_or_doubted() {
    let mut matcher = Matcher::datagrams(8, &[TxKind::Snd]);
    (0..3).for_each(|message| assert_eq!(matcher.sent(1, message), None));
    matcher.restarted();
    let exact = |message| (Outcome::Matched, vec![(message, Coverage::Exact)]);
    let without = |outcome| (outcome, vec![]);
    assert_eq!(given(&mut matcher, 2, TxKind::Snd), exact(2));
    assert_eq!(
        given(&mut matcher, 2, TxKind::Snd),
        without(Outcome::Duplicate)
    );
    matcher.sent(1, 10);
    matcher.sent(1, 11);
    assert_eq!(
        given(&mut matcher, 0, TxKind::Snd),
        without(Outcome::Doubtful)
    );
    assert_eq!(
        given(&mut matcher, 3, TxKind::Snd),
        without(Outcome::Unknown)
    );
    (12..18).for_each(|message| {
        matcher.sent(1, message);
    });
    assert_eq!(given(&mut matcher, 0, TxKind::Snd), exact(10));
    assert_eq!(matcher.counters().doubtful, 1);
}

#[test]
fn a_lost_stamp_is_reported_when_its_slot_is_needed() {
    let mut matcher = Matcher::datagrams(2, &[TxKind::Sched, TxKind::Snd]);
    assert_eq!((matcher.sent(1, 0), matcher.sent(1, 1)), (None, None));
    for kind in [TxKind::Sched, TxKind::Snd] {
        assert_eq!(
            given(&mut matcher, 0, kind),
            (Outcome::Matched, vec![(0, Coverage::Exact)])
        );
    }
    assert_eq!(given(&mut matcher, 1, TxKind::Snd).0, Outcome::Matched);
    assert_eq!(matcher.sent(1, 2), None);
    assert_eq!(matcher.sent(1, 3), Some(1));
    assert_eq!(matcher.counters().unfinished, 1);
    assert_eq!(
        given(&mut matcher, 1, TxKind::Sched),
        (Outcome::Past, vec![])
    );
}

#[test]
fn the_kernels_and_the_interfaces_stamp_are_two() {
    let mut matcher = Matcher::datagrams(2, &[TxKind::Snd]);
    matcher.sent(1, 0);
    let hardware = TxStamp {
        time: TxTime::Hardware(Timestamp::from_nanos(1)),
        ..stamp(0, TxKind::Snd)
    };
    assert_eq!(matcher.stamp(&hardware, |_| {}), Outcome::Matched);
    assert_eq!(given(&mut matcher, 0, TxKind::Snd).0, Outcome::Matched);
    assert_eq!(matcher.stamp(&hardware, |_| {}), Outcome::Duplicate);
    assert_eq!(matcher.unfinished().count(), 0);
}

/// The fate of a send's stamp.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Once,
    Twice,
    Lost,
}

fn fates() -> impl Strategy<Value = Vec<(usize, Fate, u8)>> {
    let fate = prop_oneof![Just(Fate::Once), Just(Fate::Twice), Just(Fate::Lost)];
    prop::collection::vec((1_usize..100_000, fate, any::<u8>()), 1..60)
}

/// The stamps in the order of `places`, those that come twice both times.
fn arrivals(sends: &[(u32, Fate, u8)]) -> Vec<u32> {
    let mut stamps: Vec<_> = sends
        .iter()
        .flat_map(|(id, fate, place)| match fate {
            Fate::Once => vec![(*place, *id)],
            Fate::Twice => vec![(*place, *id), (place.wrapping_mul(31), *id)],
            Fate::Lost => vec![],
        })
        .collect();
    stamps.sort_by_key(|(place, _)| *place);
    stamps.into_iter().map(|(_, id)| id).collect()
}

proptest! {
    /// Out of order, twice, lost, and across the wrap of ids: each datagram gets its own stamps
    /// and no other.
    #[test]
    fn datagrams_get_their_own_stamps(fates in fates(), before_wrap in 0_u64..80) {
        let mut matcher = Matcher::datagrams(64, &[TxKind::Snd]);
        matcher.next = (1 << 32) - before_wrap;
        let mut sends = Vec::new();
        for (bytes, fate, place) in &fates {
            let id = u32::try_from(matcher.next % (1 << 32)).unwrap();
            prop_assert_eq!(matcher.sent(*bytes, id), None);
            sends.push((id, *fate, *place));
        }
        let mut got = Vec::new();
        for id in arrivals(&sends) {
            match given(&mut matcher, id, TxKind::Snd) {
                (Outcome::Matched, seen) => {
                    prop_assert_eq!(&seen, &[(id, Coverage::Exact)]);
                    got.push(id);
                }
                (outcome, _) => {
                    prop_assert_eq!(outcome, Outcome::Duplicate);
                    prop_assert!(got.contains(&id));
                }
            }
        }
        let lost: Vec<_> = sends
            .iter()
            .filter(|(_, fate, _)| matches!(fate, Fate::Lost))
            .map(|send| &send.0)
            .collect();
        prop_assert_eq!(matcher.unfinished().collect::<Vec<_>>(), lost);
    }

    /// Check the same for a stream: a message is covered at most once, has its own stamp once
    /// if that came, and lacks any only if neither its own nor a later one came.
    #[test]
    fn messages_of_a_stream_are_covered(fates in fates(), before_wrap in 0_u64..2_000_000) {
        let mut matcher = Matcher::stream(64, &[TxKind::Ack], Origin::NextByte);
        matcher.next = (1 << 32) - before_wrap;
        let mut sends = Vec::new();
        for (message, (bytes, fate, place)) in fates.iter().enumerate() {
            prop_assert_eq!(matcher.sent(*bytes, u32::try_from(message).unwrap()), None);
            let id = u32::try_from((matcher.next - 1) % (1 << 32)).unwrap();
            sends.push((id, *fate, *place));
        }
        let (mut exact, mut merged) = (vec![0; sends.len()], vec![0; sends.len()]);
        for id in arrivals(&sends) {
            for (message, coverage) in given(&mut matcher, id, TxKind::Ack).1 {
                match coverage {
                    Coverage::Exact => exact[message as usize] += 1,
                    Coverage::Merged => merged[message as usize] += 1,
                }
            }
        }
        let came = |fate: &Fate| !matches!(fate, Fate::Lost);
        let last = sends.iter().rposition(|(_, fate, _)| came(fate));
        for (message, (_, fate, _)) in sends.iter().enumerate() {
            prop_assert_eq!(exact[message], i32::from(came(fate)));
            prop_assert!(merged[message] <= 1);
            let covered = last.is_some_and(|last| message <= last);
            prop_assert_eq!(exact[message] + merged[message] > 0, covered);
        }
        prop_assert_eq!(
            matcher.unfinished().count(),
            sends.len() - last.map_or(0, |last| last + 1),
        );
    }

    /// With any stamps, of reported sends or not, memory stays bounded, and each stamp is
    /// counted by its outcome.
    #[test]
    fn each_stamp_has_one_outcome(
        ids in prop::collection::vec(0_u32..300, 0..100),
        sends in 0_usize..50,
    ) {
        let mut matcher = Matcher::stream(8, &[TxKind::Ack], Origin::NextByte);
        for message in 0..sends {
            matcher.sent(5, message);
        }
        let mut outcomes = [0; 4];
        for id in &ids {
            outcomes[matcher.stamp(&stamp(*id, TxKind::Ack), |_| {}) as usize] += 1;
            prop_assert!(matcher.sends.len() <= 8);
        }
        let counters = matcher.counters();
        prop_assert_eq!(
            &[counters.duplicate, counters.past, counters.unknown][..],
            &outcomes[1..],
        );
        prop_assert_eq!(outcomes.iter().sum::<u64>(), ids.len() as u64);
    }
}
