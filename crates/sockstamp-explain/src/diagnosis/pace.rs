//! Connections whose peers read at their own pace: a player, a program that compresses or stores
//! what it gets. Who reads its own answer slowly waits for itself, unless others wait behind it.

use std::collections::BTreeMap;

use sockstamp_model::wait::Sending;

use super::finding::Finding;
use super::slow::{Role, Slow, Socket};
use super::tally::Account;
use super::tree::Node;

/// Note for each wait whether its peer reads on; one that takes nothing at all hangs.
pub(super) fn read_on(waits: &mut [Slow], sending: &BTreeMap<Socket, Sending>) {
    for wait in waits {
        let sending = sending.get(&wait.socket());
        wait.seen.is_read_on =
            sending.is_none_or(|sending| sending.sends > 0 || sending.connection.unsent == 0);
    }
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
        is_alone && seen.is_read_on && seen.unread.is_none()
    };
    let mut waits = account.counted.iter().map(|counted| counted.wait);
    finding.node == Node::DeliveryWindow && finding.role == Role::Serves && waits.all(is_own)
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
        let mut case = Case::new(Scope::default());
        pushed()
            .chain(others)
            .for_each(|message| case.message(&message));
        let clocks = sending(
            flow("10.0.0.1:80", "10.0.0.2:50000"),
            Connection {
                unsent: 100_000,
                ..Connection::default()
            },
        );
        case.waits(&Waits {
            sending: vec![sockstamp_model::wait::Sending { sends, ..clocks }],
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    #[test]
    fn a_peer_that_reads_at_its_own_pace_is_a_note() {
        let paced = read(300, std::iter::empty());
        assert_eq!(paced.findings, []);
        assert!(paced.notes[0].contains("its own pace"), "{:?}", paced.notes);
        let hangs = read(0, std::iter::empty());
        assert!(hangs.findings[0].sentence.contains("rwnd"), "{hangs:?}");
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
