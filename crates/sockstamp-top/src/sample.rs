//! A sample to draw: two readings of the counters of a host, and some messages.

use std::time::Duration;

use sockstamp_model::Flow;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::group::{GroupKey, GroupSummary, Groups};
use sockstamp_model::message::{Interfaces, Message, Stamps};
use sockstamp_model::part::{Part, PartMap, PartSummary};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::summary::Summary;
use sockstamp_model::verdict::Verdict;

use super::app::App;
use super::table::Snapshot;

/// Stages of messages, in microseconds.
const SERVER: [(Stage, u64); 7] = [
    (Stage::TxCopy, 2),
    (Stage::TxQueue, 7),
    (Stage::TxQdisc, 1),
    (Stage::TxNetwork, 30),
    (Stage::RxStack, 6),
    (Stage::RxWakeup, 12),
    (Stage::RxApp, 3),
];
const STUCK: [(Stage, u64); 7] = [
    (Stage::TxCopy, 40),
    (Stage::TxQueue, 180_000),
    (Stage::TxQdisc, 900),
    (Stage::TxNetwork, 21_000),
    (Stage::RxStack, 15),
    (Stage::RxHol, 40_000),
    (Stage::RxApp, 2_500),
];

pub(super) fn key(comm: &str, port: u16) -> GroupKey {
    GroupKey {
        comm: Some(comm.into()),
        port: Some(port),
        ..GroupKey::default()
    }
}

pub(super) fn redis() -> GroupKey {
    key("redis-server", 6379)
}

fn group(key: GroupKey, messages: u64, stages: &[(Stage, u64)]) -> GroupSummary {
    let mut group = GroupSummary::new(key);
    for direction in Direction::ALL {
        let half = match direction {
            Direction::Tx => &mut group.tx,
            Direction::Rx => &mut group.rx,
        };
        half.messages = messages;
        half.measured = messages / 10;
        half.bytes = messages * 100;
        let (mut total, mut sent) = (0, 0);
        for &(stage, micros) in stages
            .iter()
            .filter(|(stage, _)| stage.direction() == direction)
        {
            half.stages[stage]
                .get_or_insert_default()
                .record(Nanos(micros * 1_000), messages);
            total += micros;
            sent += if stage.has_share() { micros } else { 0 };
        }
        if direction == Direction::Tx {
            half.sent.record(Nanos(sent * 1_000), messages);
        }
        half.total.record(Nanos(total * 1_000), messages);
    }
    group
}

/// The second look is two seconds after the first.
pub(super) fn snapshots() -> (Snapshot, Snapshot) {
    (snapshot(20_000, 2), snapshot(44_000, 4))
}

fn snapshot(messages: u64, seconds: u64) -> Snapshot {
    let mut backup = group(key("rsync", 873), messages / 400, &STUCK);
    backup.tx.retransmits = messages / 2_000;
    backup.rx.refused = messages / 4_000;
    for (part, micros) in [
        (Part::Cwnd, 130_000),
        (Part::Retransmit, 40_000),
        (Part::Other, 10_000),
        (Part::Path, 20_000),
        (Part::Excess, 1_000),
    ] {
        backup.tx.parts[part] = Some(PartSummary {
            count: messages / 400,
            sum_ns: micros * 1_000 * u128::from(messages / 400),
            max_ns: None,
        });
    }
    let mut nginx = group(key("nginx: worker process", 443), messages / 4, &SERVER);
    nginx.tx.stages[Stage::AppService]
        .get_or_insert_default()
        .record(Nanos(35_000_000), messages / 4);
    let mut groups = Groups::new(
        "comm,port".parse().unwrap(),
        [group(redis(), messages, &SERVER), nginx, backup],
    );
    groups.other = group(GroupKey::default(), messages / 100, &SERVER);
    let mut summary = Summary {
        duration: Nanos::from_secs(seconds),
        in_flight: 3,
        ..Summary::default()
    };
    for stage in [Stage::TxNic, Stage::RxNic] {
        summary
            .absent
            .insert(stage, "the NIC does not stamp".to_owned());
    }
    summary
        .verdicts
        .extend([(Verdict::Valid, messages), (Verdict::Hol, messages / 4_000)]);
    summary.lost.evicted = 2;
    Snapshot { summary, groups }
}

/// A limit that some of the messages exceed.
const SLOW: Nanos = Nanos(40_000);

/// On the groups, after two looks.
pub(super) fn app() -> App {
    let mut app = App::new("comm,port".parse().unwrap(), Duration::from_secs(2), SLOW);
    let (earlier, now) = snapshots();
    app.on_snapshot(earlier);
    app.on_snapshot(now);
    app
}

fn flow(client: u16) -> Flow {
    Flow {
        netns: NetnsInode(4_026_531_840),
        protocol: Protocol::Tcp,
        local: "10.0.0.1:6379".parse().unwrap(),
        remote: format!("10.0.0.2:{client}").parse().unwrap(),
        cookie: SocketCookie(client.into()),
    }
}

/// Return a message of redis: even ones are sent, odd ones read, on two connections in turn.
pub(super) fn message(number: u64) -> Message {
    let direction = Direction::ALL[usize::from(number % 2 == 1)];
    let mut stages = StageMap::default();
    for (stage, micros) in SERVER {
        if stage.direction() == direction {
            stages[stage] = Some(Nanos(micros * 1_000 * (1 + number % 5)));
        }
    }
    let mut parts = PartMap::default();
    if let Some(queue) = stages[Stage::TxQueue] {
        parts[Part::Cwnd] = Some(Nanos(queue.0 / 2));
        parts[Part::Other] = Some(Nanos(queue.0 - queue.0 / 2));
    }
    Message {
        direction,
        flow: flow(if number % 4 < 2 { 50_001 } else { 50_002 }),
        cgroup: CgroupId(4711),
        container: None,
        opened: None,
        group: Some(0),
        pid: 4242,
        comm: "redis-server".into(),
        cpu: None,
        bytes: 100 + number,
        weight: 1,
        retransmits: 0,
        repeats: 0,
        coalesced: false,
        seq_end: 1,
        stages,
        stamps: Stamps::default(),
        oldest_age: None,
        time: Timestamp::from_nanos(1_790_000_000_000_000_000 + number * 1_234_567),
        interfaces: Interfaces::default(),
        ack_with_data: false,
        unpaired: None,
        min_rtt: None,
        clock_error: None,
        nic_bound: None,
        parts,
        verdict: if number == 8 {
            Verdict::Reset
        } else {
            Verdict::Valid
        },
    }
}

pub(super) fn messages() -> Vec<Message> {
    (0..20).map(message).collect()
}
