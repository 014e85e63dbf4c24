//! Connections whose peers read at their own pace: a player, a program that compresses or stores
//! what it gets. Who reads its own answer slowly waits for itself, unless others wait behind it.

use std::collections::BTreeMap;

use sockstamp_model::wait::{Connection, Sending};

use super::finding::Finding;
use super::slow::{Role, Slow, Socket};
use super::tally::Account;
use super::tree::Node;

/// Note for each wait whether its peer is known to set the pace. One that takes nothing may hang,
/// or have a large buffer to read from: its window stays closed for a long time, too.
pub(super) fn set(waits: &mut [Slow], sending: &BTreeMap<Socket, Sending>) {
    for wait in waits {
        let sending = sending.get(&wait.socket());
        wait.seen.sets_pace = sending.is_some_and(|sending| !has_small_window(sending));
    }
}

/// Return true if the peer took half a window or more in each round trip while its window was full,
/// and most of one is under way: its buffer is small, and its program takes what comes.
fn has_small_window(sending: &Sending) -> bool {
    let Connection {
        min_rtt: Some(round_trip),
        peer_window,
        unacknowledged,
        unsent,
        segment,
        ..
    } = sending.connection
    else {
        return false;
    };
    let half = peer_window / 2;
    let is_under_way = unacknowledged >= half || unsent == 0;
    let taken = u128::from(sending.sends) * u128::from(segment) * u128::from(round_trip.0);
    half > 0 && is_under_way && taken >= u128::from(half) * u128::from(sending.window.0)
}

/// Note the waits that waits of other connections hold for, and that those go on with for half of
/// the time: an event loop that reads a little late meanwhile waits for another thing.
pub(super) fn waited_for(waits: &mut [Slow], held: &[Option<usize>]) {
    for (of, by) in held.iter().enumerate() {
        let Some(by) = *by else { continue };
        let (upper, lower) = (&waits[of], &waits[by]);
        let is_other = upper.socket() != lower.socket() && !upper.faces(lower);
        if is_other && upper.overlap(lower) * 2 >= lower.time() {
            waits[by].seen.is_waited_for = true;
        }
    }
}

/// Return true if those that a service answers read at their own pace, and nobody else waits.
pub(super) fn is_readers_own(account: &Account<'_>, finding: &Finding) -> bool {
    let is_own = |wait: &Slow| {
        let seen = &wait.seen;
        let is_alone = seen.others == 0 && !seen.is_waited_for;
        is_alone && seen.sets_pace && seen.unread.is_none()
    };
    let mut waits = account.counted.iter().map(|counted| counted.wait);
    finding.node == Node::DeliveryWindow && finding.role == Role::Serves && waits.all(is_own)
}

/// Return true if a command reads its answers late, and does or waits for something of its own
/// meanwhile, such as a program that it hands them to: the rest of its time tells of that.
pub(super) fn is_late_by_itself(finding: &Finding) -> bool {
    let is_own = matches!(finding.node, Node::ReadUnknown | Node::ReadAsleep);
    is_own && finding.role == Role::Asks
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::flow::Opened;
    use sockstamp_model::message::Message;
    use sockstamp_model::part::Part;
    use sockstamp_model::stage::{Direction, Stage};
    use sockstamp_model::wait::{Connection, Waits};

    use super::super::tests::{MS, at, flow, sending, sent, summary};
    use super::super::{Case, Diagnosis, Scope};

    fn pushed() -> impl Iterator<Item = Message> {
        let to = flow("10.0.0.1:80", "10.0.0.2:50000");
        (0..6).map(move |of| {
            let mut message = sent(to, of * 1_000, Part::Rwnd, 600);
            message.opened = Some(Opened::Accepted);
            message.pid = 10;
            message
        })
    }

    /// The peer took so many segments meanwhile.
    fn read(sends: u32, others: impl Iterator<Item = Message>) -> Diagnosis {
        let connection = Connection {
            unsent: 100_000,
            ..Connection::default()
        };
        read_by(sends, connection, others)
    }

    fn read_by(
        sends: u32,
        connection: Connection,
        others: impl Iterator<Item = Message>,
    ) -> Diagnosis {
        let mut case = Case::new(Scope::default());
        pushed()
            .chain(others)
            .for_each(|message| case.message(&message));
        let clocks = sending(flow("10.0.0.1:80", "10.0.0.2:50000"), connection);
        case.waits(&Waits {
            sending: vec![sockstamp_model::wait::Sending {
                sends,
                window: clocks.seen_for,
                ..clocks
            }],
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    #[test]
    fn a_peer_that_reads_at_its_own_pace_is_a_note() {
        let paced = read(300, std::iter::empty());
        assert_eq!(paced.findings, []);
        assert!(paced.notes[0].contains("the pace itself"), "{paced:?}");
        // A reader of six megabytes a minute has a large buffer to read from first.
        let buffered = read(0, std::iter::empty());
        assert_eq!(buffered.findings, []);
    }

    #[test]
    fn a_peer_with_a_small_buffer_is_a_finding() {
        // Each of the 166 round trips of five seconds carries a window of four segments.
        let connection = Connection {
            min_rtt: Some(Nanos(30 * MS)),
            unsent: 100_000,
            unacknowledged: 4_096,
            peer_window: 4_096,
            segment: 1_024,
            ..Connection::default()
        };
        let small = read_by(660, connection.clone(), std::iter::empty());
        assert!(small.findings[0].sentence.contains("is small"), "{small:?}");
        let slow = read_by(100, connection, std::iter::empty());
        assert_eq!(slow.findings, []);
    }

    #[test]
    fn a_peer_that_others_wait_behind_is_a_finding() {
        // The program reads the request of another client once it has room for the first one's
        // answer.
        let behind = (0..6).map(|of| {
            let mut message = sockstamp_model::fixture::message(Direction::Rx);
            message.flow = flow("10.0.0.1:80", "10.0.0.3:50001");
            message.comm = "nginx".into();
            message.pid = 10;
            message.opened = Some(Opened::Accepted);
            message.stages[Stage::RxApp] = Some(Nanos(550 * MS));
            message.stamps.ready = at(of * 1_000 + 20);
            message.stamps.read = at(of * 1_000 + 570);
            message
        });
        let behind = read(300, behind);
        assert!(behind.findings[0].sentence.contains("rwnd"), "{behind:?}");
    }
}
