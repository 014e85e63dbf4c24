mod answer;
mod connect;
mod delivery;
mod healthy;
mod read;
mod service;
mod subscription;
mod unanswered;
mod unserved;
mod worth;

use std::net::SocketAddr;

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::descriptors::Descriptors;
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

use super::*;
use crate::diagnosis::slow::Parts;
use crate::diagnosis::tree::Node;

pub(super) const MS: u64 = 1_000_000;

/// A measurement of eight seconds, with 20 messages of all stages.
pub(super) fn summary() -> Summary {
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

pub(super) fn flow(local: &str, remote: &str) -> Flow {
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

pub(super) fn at(ms: u64) -> Option<Timestamp<sockstamp_model::clock::Monotonic>> {
    Some(Timestamp::from_nanos(ms * MS))
}

/// An answer that came at a time after a wait.
pub(super) fn answer(flow: Flow, comm: &str, end: u64, wait: u64) -> Message {
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
pub(super) fn sent(flow: Flow, begin: u64, part: Part, time: u64) -> Message {
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

pub(super) fn sentence(messages: &[Message]) -> String {
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

pub(super) fn sending(flow: Flow, connection: Connection) -> Sending {
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
        acknowledged: 0,
        connection,
    }
}

pub(super) fn wait(kind: Kind, end: End, since: u64, lasted: u64) -> Wait {
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

pub(super) fn told_of(list: Vec<Wait>, attempts: Vec<Attempts>) -> Diagnosis {
    let mut case = Case::new(Scope::default());
    case.waits(&Waits {
        list,
        attempts,
        ..Waits::default()
    });
    case.diagnose(&summary())
}

fn answered(service: &str, count: u64) -> Waits {
    let attempts = Attempts {
        comm: "nginx".into(),
        ..tried(Kind::Service, service, count, 0)
    };
    Waits {
        attempts: vec![attempts],
        ..Waits::default()
    }
}

pub(super) fn tried(kind: Kind, service: &str, count: u64, failed: u64) -> Attempts {
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
        prompted: 0,
    }
}
