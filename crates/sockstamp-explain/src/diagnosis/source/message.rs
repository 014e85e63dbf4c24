//! The waits that a message shows.

use sockstamp_model::clock::{Monotonic, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::wait::End;

use super::evidence::{is_queued, nanos, role};
use crate::diagnosis::slow::{Key, Moment, Parts, Role, Seen, Slow};
use crate::diagnosis::tree::Node;

/// Return the waits that a valid message shows, whatever their length.
pub(in super::super) fn of_message(message: &Message) -> Vec<Slow> {
    if !message.verdict.is_valid() || message.is_life() {
        return Vec::new();
    }
    let found = match (message.is_connection(), message.direction) {
        (true, Direction::Tx) => [connect(message), None, None],
        (true, Direction::Rx) => [accept(message), None, None],
        (false, Direction::Rx) => [answer(message), rest(message), read(message)],
        (false, Direction::Tx) => [service(message), delivery(message), None],
    };
    found.into_iter().flatten().collect()
}

fn slow(message: &Message, role: Role, begin: Moment, end: Moment, parts: Parts) -> Option<Slow> {
    let root = parts.iter().next()?.0.root();
    Some(Slow {
        key: Key::new(root, message.comm.clone(), role, &message.flow),
        flow: message.flow,
        pid: message.pid,
        is_new: message.opened.is_some(),
        begin,
        end,
        weight: message.weight,
        parts,
        how: End::Data,
        seen: Seen {
            rtt: message.min_rtt.map(|rtt| rtt.0),
            heard: true,
            bytes: message.bytes,
            members: 1,
            ..Seen::default()
        },
    })
}

fn at(stamp: Option<Timestamp<Monotonic>>) -> Option<Moment> {
    stamp.map(Timestamp::as_nanos)
}

/// Divide the wait for an answer.
pub(super) fn answered(whole: u64, part: &dyn Fn(Part) -> u64) -> Parts {
    Parts::divide(
        whole,
        [(Node::AnswerPath, part(Part::Network))],
        Node::AnswerPeer,
    )
}

/// Divide the opening of a connection.
pub(super) fn connected(whole: u64, part: &dyn Fn(Part) -> u64) -> Parts {
    Parts::divide(
        whole,
        [
            (Node::ConnectAgain, part(Part::SynAgain)),
            (Node::ConnectResolving, part(Part::HandshakeNeighbour)),
        ],
        Node::ConnectPath,
    )
}

/// Divide the time until data was read.
pub(super) fn been_read(
    whole: u64,
    stage: &dyn Fn(Stage) -> u64,
    part: &dyn Fn(Part) -> u64,
) -> Parts {
    let parts = [
        (Node::ReadMissing, stage(Stage::RxHol)),
        (Node::ReadStack, stage(Stage::RxNic) + stage(Stage::RxStack)),
        (Node::ReadRunnable, part(Part::Runqueue)),
        (Node::ReadThrottled, part(Part::WakeupThrottled)),
        (Node::ReadRunnable, part(Part::WakeupUnknown)),
        (Node::ReadRunning, part(Part::Running)),
        (Node::ReadRunnable, part(Part::Runnable)),
        (Node::ReadThrottled, part(Part::AppThrottled)),
        (Node::ReadAsleep, part(Part::Blocked)),
    ];
    Parts::divide(whole, parts, Node::ReadUnknown)
}

/// Divide the time until data left.
pub(super) fn left(whole: u64, stage: &dyn Fn(Stage) -> u64, part: &dyn Fn(Part) -> u64) -> Parts {
    let room = part(Part::Sndbuf);
    let parts = [
        (Node::DeliveryRoom, room),
        (
            Node::DeliveryCall,
            stage(Stage::TxCopy).saturating_sub(room),
        ),
        (Node::DeliveryResolving, part(Part::Neighbour)),
        (Node::DeliveryCongestion, part(Part::Cwnd)),
        (Node::DeliveryWindow, part(Part::Rwnd)),
        (Node::DeliveryPacing, part(Part::Pacing)),
        (Node::DeliveryDevice, part(Part::Tsq)),
        (Node::DeliveryNagle, part(Part::Nagle)),
        (Node::DeliveryCork, part(Part::Cork)),
        (Node::DeliveryLoss, part(Part::Retransmit)),
        (
            Node::DeliveryDevice,
            stage(Stage::TxQdisc) + stage(Stage::TxNic),
        ),
    ];
    Parts::divide(whole, parts, Node::DeliveryOther)
}

fn connect(message: &Message) -> Option<Slow> {
    let (begin, end) = (at(message.stamps.entry)?, at(message.stamps.queued)?);
    let again = nanos(message.parts[Part::SynAgain]);
    let whole = end.checked_sub(begin)?;
    let parts = connected(whole, &|part| nanos(message.parts[part]));
    let mut slow = slow(message, Role::Asks, begin, end, parts)?;
    let resolving = nanos(message.parts[Part::HandshakeNeighbour]);
    slow.seen.rtt = Some(whole.saturating_sub(again + resolving));
    Some(slow)
}

fn accept(message: &Message) -> Option<Slow> {
    let (begin, end) = (at(message.stamps.ready)?, at(message.stamps.read)?);
    let parts = Parts::divide(end.checked_sub(begin)?, [], Node::Accept);
    slow(message, Role::Serves, begin, end, parts)
}

/// The answer's first byte came when the message could be read.
fn answer(message: &Message) -> Option<Slow> {
    let whole = message.stages[Stage::PeerAnswer]?.0;
    let end = at(message.stamps.ready)?;
    let mut parts = answered(whole, &|part| nanos(message.parts[part]));
    let held = nanos(message.stages[Stage::RxHol]).min(parts.of(Node::AnswerPeer));
    parts.shift(Node::AnswerPeer, Node::AnswerHeld, held);
    let mut slow = slow(message, Role::Asks, end.checked_sub(whole)?, end, parts)?;
    slow.seen.rtt = message.parts[Part::Network].map(|path| path.0);
    Some(slow)
}

/// The reader waited for more of an answer until this message could be read.
fn rest(message: &Message) -> Option<Slow> {
    let whole = message.stages[Stage::PeerRest]?.0;
    let end = at(message.stamps.ready)?;
    let held = nanos(message.stages[Stage::RxHol]);
    let parts = Parts::divide(whole, [(Node::RestHeld, held)], Node::RestPeer);
    slow(message, Role::Asks, end.checked_sub(whole)?, end, parts)
}

fn read(message: &Message) -> Option<Slow> {
    let end = at(message.stamps.read)?;
    let whole = message.time().0;
    let role = role(message.opened, &message.flow);
    let stage = |stage: Stage| nanos(message.stages[stage]);
    let parts = been_read(whole, &stage, &|part| nanos(message.parts[part]));
    slow(message, role, end.checked_sub(whole)?, end, parts)
}

/// The time between a read and the next send is service where the peer asks.
fn service(message: &Message) -> Option<Slow> {
    let whole = message.stages[Stage::AppService]?.0;
    let end = at(message.stamps.entry)?;
    if role(message.opened, &message.flow) == Role::Asks {
        return None;
    }
    let part = |part| nanos(message.parts[part]);
    let parts = [
        (Node::ServiceThrottled, part(Part::ServiceThrottled)),
        (Node::ServiceRunning, part(Part::ServiceRunning)),
        (Node::ServiceRunnable, part(Part::ServiceRunnable)),
        (Node::ServiceAsleep, part(Part::ServiceBlocked)),
    ];
    let parts = Parts::divide(whole, parts, Node::ServiceUnknown);
    slow(message, Role::Serves, end.checked_sub(whole)?, end, parts)
}

/// A message that was sent again is delivered when it is acknowledged, any other when it left. Of
/// datagrams the send call may not be seen, and the packet scheduler is.
fn delivery(message: &Message) -> Option<Slow> {
    let stamps = &message.stamps;
    let begin = at(stamps.entry.or(stamps.queued).or(stamps.sched))?;
    let network = nanos(message.stages[Stage::TxNetwork]);
    let left = message.time().0;
    let again = message.was_sent_again();
    let whole = left + if again { network } else { 0 };
    let role = role(message.opened, &message.flow);
    let mut slow = slow(
        message,
        role,
        begin,
        begin + whole,
        delivered(message, whole),
    )?;
    slow.seen.resent = message.retransmits;
    slow.seen.device = message
        .interfaces
        .last
        .as_ref()
        .map(|last| last.name.clone());
    Some(slow)
}

fn delivered(message: &Message, whole: u64) -> Parts {
    let stage = |stage: Stage| nanos(message.stages[stage]);
    let mut parts = left(message.time().0, &stage, &|part| nanos(message.parts[part]));
    if whole > parts.whole() {
        let gone = match (at(message.stamps.snd), at(message.stamps.snd_last)) {
            (Some(first), Some(last)) => last.saturating_sub(first),
            _ => 0,
        };
        let after = whole - parts.whole();
        parts.add(Node::DeliveryLoss, gone.min(after));
        parts.add(Node::DeliveryPath, after.saturating_sub(gone));
    }
    yields(&mut parts, is_path_full(message));
    parts
}

/// Give the time of nodes to what sets their limit, where that was seen in the same wait.
pub(super) fn yields(parts: &mut Parts, is_full: bool) {
    const LIMITS: [Node; 5] = [
        Node::DeliveryLoss,
        Node::DeliveryCongestion,
        Node::DeliveryWindow,
        Node::DeliveryPacing,
        Node::DeliveryDevice,
    ];
    // What the last byte waited for is what the bytes before it waited for, if it did at all.
    let room = parts.of(Node::DeliveryRoom);
    let set = LIMITS.into_iter().max_by_key(|limit| parts.of(*limit));
    if let Some(set) = set.filter(|set| parts.of(*set) > 0 && parts.of(*set) * 4 >= room) {
        parts.give(|node| node == Node::DeliveryRoom, set);
    }
    let after_loss = |node| matches!(node, Node::DeliveryCongestion | Node::DeliveryPacing);
    if parts.of(Node::DeliveryLoss) > 0 {
        parts.give(after_loss, Node::DeliveryLoss);
    } else if is_full {
        let of_path = |node| after_loss(node) || node == Node::DeliveryRoom;
        parts.give(of_path, Node::DeliveryFull);
    }
}

fn is_path_full(message: &Message) -> bool {
    let Some(smallest) = message.min_rtt else {
        return false;
    };
    let late = nanos(message.parts[Part::DelayedAck]);
    let network = nanos(message.stages[Stage::TxNetwork]).saturating_sub(late);
    is_queued(network.saturating_sub(smallest.0), smallest.0)
}
