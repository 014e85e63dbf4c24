//! A wait of the model, divided by its evidence.

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::{Connection, End, Evidence, Kind, Sending, Tasks, Wait};

use super::evidence::{is_queued, nanos};
use crate::diagnosis::slow::{Key, Parts, Role, Seen, Slow};
use crate::diagnosis::tree::Node;

/// Return what limits a connection that sends, by TCP's own clocks: its send buffer, or the peer's
/// window. A buffer that holds less than the congestion window is its limit, too.
pub(in super::super) fn limit_of(sending: &Sending) -> Option<Node> {
    let Sending {
        seen_for,
        window,
        buffer,
        connection,
        ..
    } = sending;
    let queued = u64::from(connection.unacknowledged) + u64::from(connection.unsent);
    let congestion = u64::from(connection.congestion_window) * u64::from(connection.segment);
    let is_common = |time: &Nanos| time.0 > 0 && time.0.saturating_mul(4) >= seen_for.0;
    if is_common(buffer) && buffer >= window {
        Some(Node::DeliveryRoom)
    } else if is_common(window) {
        Some(Node::DeliveryWindow)
    } else {
        (connection.buffer_set && queued < congestion).then_some(Node::DeliveryRoom)
    }
}

/// Return the part of a wait inside the measurement.
pub(in super::super) fn of_wait(wait: &Wait) -> Slow {
    let role = match wait.is_served() {
        true => Role::Serves,
        false => Role::Asks,
    };
    let end = wait.since.as_nanos().saturating_add(wait.lasted.0);
    let parts = parts(wait);
    Slow {
        key: Key::new(root(wait), wait.comm.clone(), role, &wait.flow),
        flow: wait.flow,
        pid: wait.pid,
        is_new: is_new(wait),
        begin: end.saturating_sub(wait.inside.0),
        end,
        weight: 1,
        parts,
        how: wait.end,
        seen: seen(wait),
    }
}

/// A look at a socket knows who opened it, and not when: nothing has come, if it is for one answer.
/// A wait that began before the measurement has an older connection.
fn is_new(wait: &Wait) -> bool {
    if wait.inside < wait.lasted {
        return false;
    }
    let receives = wait
        .evidence
        .connection
        .as_ref()
        .map(|known| known.receives);
    match (wait.kind, receives) {
        (Kind::Answer, Some(receives)) if wait.is_open() => receives == 0,
        _ => wait.opened.is_some(),
    }
}

fn root(wait: &Wait) -> Node {
    match wait.kind {
        Kind::Accept | Kind::Greeting if wait.end == End::TurnedAway => Node::AcceptAway,
        Kind::Accept | Kind::Greeting if wait.end == End::Rejected => Node::AcceptRejected,
        Kind::Connect => Node::Connect,
        Kind::Accept => Node::Accept,
        Kind::Greeting => Node::Greeting,
        Kind::Answer => Node::Answer,
        Kind::Rest => Node::Rest,
        Kind::Request => Node::Request,
        Kind::Service => Node::Service,
        Kind::Room | Kind::Acknowledgement => Node::Delivery,
        Kind::Read => Node::Read,
    }
}

fn seen(wait: &Wait) -> Seen {
    let evidence = &wait.evidence;
    let connection = evidence.connection.as_ref();
    let of = |figure: fn(&Connection) -> Option<u64>| connection.and_then(figure);
    Seen {
        rtt: of(|connection| connection.min_rtt.map(|rtt| rtt.0)),
        smoothed_rtt: of(|connection| connection.srtt.map(|rtt| rtt.0)),
        resent: resent(evidence),
        heard: evidence.acknowledged.is_some() || evidence.arrived.is_some(),
        heard_since: of(|connection| connection.heard_ago.map(|ago| ago.0))
            .is_some_and(|ago| ago < wait.lasted.0),
        pause: of(|connection| connection.received_ago.map(|ago| ago.0))
            .and_then(|ago| ago.checked_sub(wait.lasted.0)),
        is_answered: connection.is_some_and(is_answered),
        has_answered: connection.is_some_and(|connection| connection.sends > 0),
        has_sent_since: connection.is_some_and(has_sent_since),
        is_dismissed: connection.is_some_and(|connection| match wait.is_served() {
            true => connection.receives > 0,
            false => connection.sends == 0,
        }),
        since_syn: since_syn(wait),
        is_untaken: wait.end == End::TurnedAway
            && !wait.is_served()
            && connection.is_some_and(|connection| connection.unacknowledged > 0),
        is_large: connection.is_some_and(|connection| {
            let queued = u64::from(connection.unacknowledged) + u64::from(connection.unsent);
            connection.segment > 0 && wait.bytes.max(queued) > u64::from(connection.segment)
        }),
        segment: connection.map_or(0, |connection| connection.segment),
        bytes: wait.bytes,
        unread: connection.and_then(unread),
        buffer_set: connection.is_some_and(|connection| connection.buffer_set),
        paced: of(|connection| connection.paced),
        age: wait.lasted.0,
        may_be_older: wait.may_be_older(),
        members: wait.members.max(1),
        ..Seen::default()
    }
}

/// Return the time of a connect after its last SYN, or after its begin.
fn since_syn(wait: &Wait) -> Option<u64> {
    let last = nanos(wait.evidence.asked);
    let is_sent = wait.kind == Kind::Connect && wait.evidence.syns != Some(0);
    wait.lasted.0.checked_sub(last).filter(|_| is_sent)
}

/// Return true if data was sent after the last data had come, by TCP's own times: a question that
/// follows an answer at once comes in the same tick, or later.
fn has_sent_since(connection: &Connection) -> bool {
    let ago = connection.sent_ago.zip(connection.received_ago);
    ago.is_some_and(|(sent, received)| sent < received)
}

/// Return the bytes that are not read, where they leave no window for another segment.
fn unread(connection: &Connection) -> Option<u64> {
    let is_full = connection.unread > 0 && connection.own_window < connection.segment;
    is_full.then_some(connection.unread.into())
}

/// Return true if either end sends at most twice as often as the other: neither logs nor pushes.
const fn is_answered(connection: &Connection) -> bool {
    let (sends, receives) = (connection.sends, connection.receives);
    sends <= receives.saturating_mul(2) && receives <= sends.saturating_mul(2)
}

/// Return the segments sent again that were lost, as far as that is known. Each timeout in a row
/// sent the first one again.
fn resent(evidence: &Evidence) -> u32 {
    let in_vain = evidence.resent_in_vain.unwrap_or(0);
    let resent = evidence.resent.unwrap_or(0).saturating_sub(in_vain);
    let timeouts = evidence.connection.as_ref().map_or(0, timeouts);
    resent.max(timeouts)
}

/// Return the timeouts in a row of data in flight; a closed window is probed by the same timer.
fn timeouts(connection: &Connection) -> u32 {
    match (connection.unacknowledged, connection.probes) {
        (1.., 0) => connection.backoff.into(),
        _ => 0,
    }
}

fn parts(wait: &Wait) -> Parts {
    let whole = wait.inside.0;
    let evidence = &wait.evidence;
    match wait.kind {
        Kind::Connect => connect(whole, evidence),
        Kind::Answer => answer(whole, evidence),
        Kind::Service => tasks(whole, evidence, &SERVICE),
        Kind::Read => tasks(whole, evidence, &READ),
        Kind::Room => room(whole, evidence),
        Kind::Acknowledgement => acknowledgement(whole, evidence),
        Kind::Accept | Kind::Greeting if wait.end == End::TurnedAway => {
            Parts::divide(whole, [], Node::AcceptAway)
        }
        Kind::Accept | Kind::Greeting if wait.end == End::Rejected => {
            Parts::divide(whole, [], Node::AcceptRejected)
        }
        Kind::Accept => Parts::divide(whole, [], Node::Accept),
        Kind::Greeting => Parts::divide(whole, [], Node::Greeting),
        Kind::Rest if wait.end == End::Data => Parts::divide(whole, [], Node::RestClose),
        Kind::Rest => Parts::divide(whole, [], Node::RestHeld),
        Kind::Request => Parts::divide(whole, [], Node::Request),
    }
}

fn smallest(evidence: &Evidence) -> u64 {
    let connection = evidence.connection.as_ref();
    nanos(connection.and_then(|connection| connection.min_rtt))
}

/// SYNs after the first are timer steps; what follows the last is the path.
fn connect(whole: u64, evidence: &Evidence) -> Parts {
    match evidence.syns {
        Some(2..) => {
            let path = smallest(evidence);
            Parts::divide(whole, [(Node::ConnectPath, path)], Node::ConnectAgain)
        }
        _ => Parts::divide(whole, [], Node::ConnectPath),
    }
}

fn answer(whole: u64, evidence: &Evidence) -> Parts {
    let path = smallest(evidence);
    let never_came = evidence.acknowledged.is_none()
        && evidence.arrived.is_none()
        && evidence.connection.as_ref().map_or(0, timeouts) > 0;
    let gone = match resent(evidence) {
        0 => 0,
        _ if never_came => whole.saturating_sub(path),
        _ => nanos(evidence.acknowledged)
            .max(nanos(evidence.arrived))
            .min(whole)
            .saturating_sub(path),
    };
    let parts = [
        (Node::AnswerPath, path),
        (Node::AnswerLoss, gone),
        (Node::AnswerHeld, nanos(evidence.out_of_order)),
    ];
    Parts::divide(whole, parts, Node::AnswerPeer)
}

/// The nodes of what tasks do: on a CPU, ready, throttled, asking others, asleep, unknown.
type States = [Node; 6];

const SERVICE: States = [
    Node::ServiceRunning,
    Node::ServiceRunnable,
    Node::ServiceThrottled,
    Node::ServiceAsks,
    Node::ServiceAsleep,
    Node::ServiceUnknown,
];

/// A reader that asks others sleeps.
const READ: States = [
    Node::ReadRunning,
    Node::ReadRunnable,
    Node::ReadThrottled,
    Node::ReadAsleep,
    Node::ReadAsleep,
    Node::ReadUnknown,
];

fn tasks(whole: u64, evidence: &Evidence, states: &States) -> Parts {
    let [running, runnable, throttled, asks, asleep, unknown] = *states;
    let Some(tasks) = &evidence.tasks else {
        return Parts::divide(whole, [], unknown);
    };
    let Tasks {
        running: on_cpu,
        runnable: ready,
        throttled: held,
        asks: asking,
        ..
    } = tasks;
    let parts = [
        (throttled, held.0),
        (runnable, ready.0),
        (running, on_cpu.0),
        (asks, asking.0),
    ];
    Parts::divide(whole, parts, asleep)
}

fn room(whole: u64, evidence: &Evidence) -> Parts {
    let limit = [
        (Node::DeliveryWindow, nanos(evidence.window_closed)),
        (Node::DeliveryRoom, nanos(evidence.buffer_full)),
    ];
    let connection = evidence.connection.as_ref();
    let rest = connection.map_or(Node::DeliveryRoom, |connection| {
        let beyond = nanos(connection.srtt).saturating_sub(nanos(connection.min_rtt));
        if resent(evidence) > 0 {
            Node::DeliveryLoss
        } else if connection.paced.is_some() {
            Node::DeliveryPacing
        } else if is_queued(beyond, nanos(connection.min_rtt)) {
            Node::DeliveryFull
        } else if u64::from(connection.peer_window) < u64::from(connection.segment) {
            Node::DeliveryWindow
        } else if connection.unsent == 0 {
            Node::DeliveryRoom
        } else {
            Node::DeliveryCongestion
        }
    });
    Parts::divide(whole, limit, rest)
}

/// What has not left waits for what limits the whole connection: its losses are a part of that,
/// unless only timeouts send.
fn acknowledgement(whole: u64, evidence: &Evidence) -> Parts {
    let closed = nanos(evidence.window_closed);
    let connection = evidence.connection.as_ref();
    let rest = match connection {
        Some(connection) if timeouts(connection) > 0 => Node::DeliveryLoss,
        Some(connection) if connection.paced.is_some() => Node::DeliveryPacing,
        Some(connection) if connection.unsent > 0 => Node::DeliveryFull,
        _ if resent(evidence) > 0 => Node::DeliveryLoss,
        _ => Node::DeliveryUnheard,
    };
    let path = smallest(evidence);
    let parts = [(Node::DeliveryPath, path), (Node::DeliveryWindow, closed)];
    Parts::divide(whole, parts, rest)
}
