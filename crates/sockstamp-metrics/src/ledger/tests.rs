use proptest::prelude::*;
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::GroupHistogram;
use sockstamp_model::part::PartSummary;

use super::*;
use crate::catalogue::{MESSAGES, Metric, STAGE};
use crate::format::Format;
use crate::grouped::GROUPED;
use crate::point::Point;

/// Groups are named by their port; those above 1000 have ended.
struct Ports;

impl Naming for Ports {
    fn labels(&self, key: &GroupKey) -> Labels {
        vec![("port".into(), key.port.unwrap_or(0).to_string())]
    }

    fn is_alive(&self, key: &GroupKey) -> bool {
        key.port.is_some_and(|port| port <= 1000)
    }
}

/// As [`Ports`], but nothing is known of a port.
struct Unknown(u16);

impl Naming for Unknown {
    fn labels(&self, key: &GroupKey) -> Labels {
        Ports.labels(key)
    }

    fn is_awaited(&self, key: &GroupKey) -> bool {
        key.port == Some(self.0)
    }

    fn is_alive(&self, key: &GroupKey) -> bool {
        Ports.is_alive(key)
    }
}

const MINUTE: Duration = Duration::from_secs(60);

fn ledger(groups: usize) -> Ledger {
    Ledger::new(Limits {
        series: groups * SERIES_PER_GROUP,
        expire: MINUTE,
    })
}

fn group(port: u16, messages: u64) -> GroupSummary {
    let mut group = GroupSummary::new(GroupKey {
        port: Some(port),
        ..GroupKey::default()
    });
    group.tx.messages = messages;
    group.tx.stages[Stage::TxQueue]
        .get_or_insert_default()
        .record(Nanos(1_000 * u64::from(port)), messages);
    group
}

fn read(groups: &[GroupSummary]) -> Reading {
    Reading {
        groups: groups.to_vec(),
        rest: GroupSummary::default(),
    }
}

/// Pass all series of groups.
fn each_series(ledger: &Ledger, mut each: impl FnMut(&'static Metric, &Point<'_>)) {
    let mut exposition = Exposition::default();
    ledger.expose(&mut exposition);
    for (place, (metric, _)) in GROUPED.iter().enumerate() {
        let mut group = 0;
        while exposition.points(place, group, &mut |point| each(metric, point)) {
            group += 1;
        }
    }
}

/// Messages by port, the overflow's under "true"; the histogram agrees.
fn messages(ledger: &Ledger) -> BTreeMap<String, u64> {
    let (mut counts, mut in_stage) = (BTreeMap::new(), BTreeMap::new());
    each_series(ledger, |metric, point| match point.value {
        Value::Count(count) if metric == &MESSAGES && count > 0 => {
            counts.insert(point.group[0].1.clone(), count);
        }
        Value::Histogram(histogram) if metric == &STAGE => {
            in_stage.insert(point.group[0].1.clone(), histogram.count());
        }
        _ => {}
    });
    assert_eq!(counts, in_stage);
    counts
}

fn expected(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts
        .iter()
        .map(|&(port, count)| (port.to_owned(), count))
        .collect()
}

#[test]
fn a_group_that_ended_and_came_again_goes_on() {
    let mut ledger = ledger(9);
    ledger.add(MINUTE, read(&[group(80, 5)]), Vec::new(), &Ports);
    ledger.add(MINUTE, read(&[group(80, 2)]), vec![group(80, 6)], &Ports);
    assert_eq!(messages(&ledger), expected(&[("80", 8)]));
    ledger.add(MINUTE, read(&[]), vec![group(80, 3)], &Ports);
    assert_eq!(messages(&ledger), expected(&[("80", 9)]));
}

#[test]
fn a_new_measurement_adds_nothing_twice() {
    let mut ledger = ledger(9);
    ledger.add(MINUTE, read(&[group(80, 5)]), Vec::new(), &Ports);
    ledger.begin(read(&[group(80, 2)]));
    ledger.add(MINUTE, read(&[group(80, 4)]), Vec::new(), &Ports);
    assert_eq!(messages(&ledger), expected(&[("80", 7)]));
}

/// Port 80 is not known at the first readings.
#[test]
fn a_group_whose_labels_are_awaited_is_counted_whole_once_they_are_known() {
    let mut ledger = ledger(9);
    let unknown = Unknown(80);
    ledger.add(
        MINUTE,
        read(&[group(80, 5), group(81, 1)]),
        Vec::new(),
        &unknown,
    );
    assert_eq!(messages(&ledger), expected(&[("81", 1)]));
    ledger.add(
        MINUTE,
        read(&[group(80, 6), group(81, 1)]),
        Vec::new(),
        &Unknown(0),
    );
    assert_eq!(messages(&ledger), expected(&[("80", 6), ("81", 1)]));
    // It is asked for anew after a long silence: what was counted stays counted.
    ledger.add(
        MINUTE,
        read(&[group(80, 8), group(81, 1)]),
        Vec::new(),
        &unknown,
    );
    assert_eq!(messages(&ledger), expected(&[("80", 6), ("81", 1)]));
    ledger.add(
        MINUTE,
        read(&[group(80, 9), group(81, 1)]),
        Vec::new(),
        &Unknown(0),
    );
    assert_eq!(messages(&ledger), expected(&[("80", 9), ("81", 1)]));
    // No later reading has one that has ended.
    ledger.add(MINUTE, read(&[group(81, 1)]), vec![group(80, 11)], &unknown);
    assert_eq!(messages(&ledger), expected(&[("80", 11), ("81", 1)]));
}

#[test]
fn groups_without_room_overflow_until_another_has_gone() {
    let mut ledger = ledger(2);
    let first = [group(80, 5), group(2000, 1), group(81, 3)];
    ledger.add(Duration::ZERO, read(&first), Vec::new(), &Ports);
    assert_eq!(
        messages(&ledger),
        expected(&[("80", 5), ("81", 3), ("true", 1)])
    );
    let mut ledger = Ledger {
        series: BTreeMap::new(),
        ..ledger
    };
    ledger.add(
        Duration::ZERO,
        read(&[group(80, 6), group(2000, 2), group(81, 3)]),
        Vec::new(),
        &Ports,
    );
    assert_eq!(
        messages(&ledger),
        expected(&[("80", 1), ("2000", 1), ("true", 1)])
    );

    let more = [group(80, 7), group(2000, 2), group(81, 4)];
    ledger.add(MINUTE, read(&more), Vec::new(), &Ports);
    assert_eq!(
        messages(&ledger),
        expected(&[("80", 2), ("true", 2)]),
        "2000 is gone, 81 came before that"
    );
    ledger.add(MINUTE, read(&[group(81, 5)]), Vec::new(), &Ports);
    assert_eq!(
        messages(&ledger),
        expected(&[("80", 2), ("81", 1), ("true", 2)])
    );
    assert_eq!((ledger.refused, ledger.expired), (2, 1));
}

#[test]
fn an_overflow_without_a_message_has_no_series() {
    let mut ledger = ledger(9);
    let mut nothing = read(&[group(80, 1)]);
    nothing.rest.tx.stages[Stage::TxCopy] = Some(GroupHistogram::default());
    ledger.add(MINUTE, nothing, Vec::new(), &Ports);
    each_series(&ledger, |_, point| {
        assert!(
            point.labels().all(|(name, _)| name != OVERFLOW),
            "{point:?}"
        );
    });
}

#[test]
fn the_rest_of_a_stage_never_shrinks() {
    let part = |ns| {
        Some(PartSummary {
            count: 1,
            sum_ns: ns,
            max_ns: None,
        })
    };
    let mut ledger = ledger(9);
    let mut first = group(80, 1);
    first.tx.parts[Part::Cwnd] = part(10_000);
    first.tx.complete_parts();
    let mut second = first.clone();
    // The sum of the part was read after that of its stage.
    second.tx.parts[Part::Cwnd] = part(50_000);
    second.tx.complete_parts();
    let mut third = second.clone();
    third.tx.stages[Stage::TxQueue]
        .get_or_insert_default()
        .record(Nanos(40_000), 1);
    third.tx.complete_parts();
    let mut other = |reading: Reading| {
        ledger.add(MINUTE, reading, Vec::new(), &Ports);
        let total = ledger.series.values().next().unwrap();
        let sum = total.total.tx.parts[Part::Other].unwrap().sum_ns;
        (sum, is_shared(&ledger))
    };
    assert_eq!(other(read(&[first])), (70_000, true));
    assert_eq!(other(read(&[second])), (70_000, false));
    assert_eq!(other(read(&[third])), (70_000, true));
}

/// Return true if the only series shares its counts with the only group.
fn is_shared(ledger: &Ledger) -> bool {
    let (series, group) = (ledger.series.values().next(), ledger.last.first());
    Arc::ptr_eq(&series.unwrap().total, &group.unwrap().0)
}

#[test]
fn a_series_of_one_group_holds_no_counts_of_its_own() {
    let mut ledger = ledger(9);
    for messages in [1, 1, 7] {
        ledger.add(MINUTE, read(&[group(80, messages)]), Vec::new(), &Ports);
        assert!(is_shared(&ledger));
        assert_eq!(messages_of(&ledger, "80"), messages);
    }
    ledger.add(MINUTE, read(&[group(80, 2)]), vec![group(80, 7)], &Ports);
    assert!(!is_shared(&ledger));
    assert_eq!(messages_of(&ledger, "80"), 9);
}

fn messages_of(ledger: &Ledger, port: &str) -> u64 {
    messages(ledger)[port]
}

proptest! {
    /// Whatever groups do, no series shrinks while it exists, and nothing is lost.
    #[test]
    fn series_only_grow_and_add_up(
        steps in prop::collection::vec((0_u16..6, 1_u64..5, 0_u8..4), 1..60),
    ) {
        let mut ledger = ledger(3);
        let (mut live, mut sent) = (BTreeMap::<u16, u64>::new(), 0);
        let mut before = BTreeMap::new();
        for (port, count, step) in steps {
            *live.entry(port).or_default() += count;
            sent += count;
            let ended: Vec<_> = match step {
                0 => live.remove(&port).map(|count| group(port, count)).into_iter().collect(),
                _ => Vec::new(),
            };
            let groups: Vec<_> = live.iter().map(|(&port, &count)| group(port, count)).collect();
            ledger.add(Duration::ZERO, read(&groups), ended, &Ports);
            let now = messages(&ledger);
            prop_assert_eq!(now.values().sum::<u64>(), sent);
            prop_assert!(now.len() <= 4);
            for (port, count) in &before {
                prop_assert!(now[port] >= *count);
            }
            before = now;
        }
    }
}

/// A piece per few groups has the bytes that one piece for all would have.
#[test]
fn pieces_are_short_and_lack_no_series() {
    let mut ledger = ledger(300);
    let groups: Vec<_> = (0..300).map(|port| group(port, 5)).collect();
    ledger.add(MINUTE, read(&groups), Vec::new(), &Ports);
    let mut exposition = Exposition::default();
    ledger.expose(&mut exposition);
    let exposition = Arc::new(exposition);
    let pieces: Vec<_> = Format::OpenMetrics
        .pieces(Arc::clone(&exposition))
        .collect();
    assert!(pieces.len() > 5 && pieces.iter().all(|piece| piece.len() < 80 << 10));
    let text = String::from_utf8(pieces.concat()).unwrap();
    assert!(text.ends_with("# EOF\n"));
    for begin in [
        "sockstamp_stage_seconds_count{",
        "sockstamp_retransmitted_segments_total{",
    ] {
        let lines = text.lines().filter(|line| line.starts_with(begin));
        assert_eq!(lines.count(), 300, "{begin}");
    }
    assert_eq!(text.matches("# TYPE sockstamp_stage_seconds ").count(), 1);

    // The lengths of messages lead exactly to the end.
    let bytes = Format::Protobuf
        .pieces(exposition)
        .flatten()
        .collect::<Vec<_>>();
    let (mut rest, mut families) = (&bytes[..], 0);
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| byte & 0x80 == 0).unwrap();
        let low = rest[..=end].iter().rev();
        let length = low.fold(0, |length, byte| length << 7 | usize::from(byte & 0x7f));
        rest = &rest[end + 1 + length..];
        families += 1;
    }
    assert_eq!(families, 9, "two metrics of groups have no series");
}
