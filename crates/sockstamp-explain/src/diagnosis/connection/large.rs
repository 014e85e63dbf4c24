//! Whether what is small arrives where large segments do not.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::wait::Sending;

use crate::diagnosis::slow::{self, Moment, Slow, Socket};

/// As many segments that arrived are no accident.
const LEAST: u32 = 3;

/// Note for each wait of large segments that were sent again whether other connections to the same
/// peer sent some meanwhile, of which none was, and whether large ones arrived there all the same.
pub(in crate::diagnosis) fn compare(waits: &mut [Slow], sending: &BTreeMap<Socket, Sending>) {
    let mut peers = BTreeMap::<(NetnsInode, IpAddr), Vec<&Sending>>::new();
    for one in sending.values() {
        let peer = (one.flow.netns, canonical(one.flow.remote).ip());
        peers.entry(peer).or_default().push(one);
    }
    let end = waits.iter().map(|wait| wait.end).max().unwrap_or(0);
    let is_large = |wait: &&mut Slow| wait.seen.is_large && wait.seen.resent > 0;
    for wait in waits.iter_mut().filter(is_large) {
        let others = peers.get(&(wait.flow.netns, wait.peer()));
        let others = || others.into_iter().flatten();
        let of_others = || others().filter(|other| slow::socket(&other.flow) != wait.socket());
        let large_arrive = of_others().any(|other| large_arrive(other, wait, end));
        let arrived = of_others().filter(|other| other.resent == 0);
        let arrived: u32 = arrived.map(|other| other.sends).sum();
        wait.seen.large_arrive = large_arrive;
        wait.seen.others_arrive = arrived >= LEAST;
    }
}

/// Return true if so much was acknowledged since a wait began that most segments must have been
/// larger than half, of those that are as large as the wait's at least.
fn large_arrive(sending: &Sending, wait: &Slow, end: Moment) -> bool {
    let segment = u64::from(sending.connection.segment);
    let arrived = u64::from(sending.sends.saturating_sub(sending.resent)).max(1);
    let least = u64::from(LEAST) * segment;
    let is_as_large = segment > 0 && segment >= u64::from(wait.seen.segment);
    is_as_large
        && is_meanwhile(sending, wait, end)
        && sending.acknowledged >= least
        && sending.acknowledged * 2 > arrived * segment
}

/// Return true if what arrived did so while the wait went on, in a measurement that ended then: the
/// connection was seen no earlier, or had more under way at the end, of which nothing was sent
/// again.
fn is_meanwhile(sending: &Sending, wait: &Slow, end: Moment) -> bool {
    let goes_on = sending.resent == 0 && sending.connection.unacknowledged > 0;
    goes_on || end.saturating_sub(sending.seen_for.0) >= wait.begin
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::flow::{Flow, Opened, SocketCookie};
    use sockstamp_model::wait::{Connection, End, Evidence, Kind, Wait, Waits};

    use super::*;
    use crate::diagnosis::tests::{MS, flow, sending, summary, wait};
    use crate::diagnosis::{Case, Diagnosis, Scope};

    /// A service whose large answers are not acknowledged; another connection sends, too.
    fn told(resent: u32) -> String {
        let told = diagnosed(3, End::Open, resent, 2_000);
        told.findings[0].sentence.clone()
    }

    fn diagnosed(count: u64, end: End, resent: u32, acknowledged: u64) -> Diagnosis {
        let other = |of: Sending| Sending {
            resent,
            acknowledged,
            ..of
        };
        beside(count, end, other)
    }

    fn client(of: u64) -> Flow {
        Flow {
            cookie: SocketCookie(of),
            ..flow("10.0.0.1:8080", "10.0.0.2:50000")
        }
    }

    fn hangs(of: u64) -> Wait {
        let mut wait = wait(Kind::Acknowledgement, End::Open, of * 10, 2_000);
        wait.opened = Some(Opened::Accepted);
        wait.flow = client(of);
        wait.bytes = 20_000;
        wait.evidence = Evidence {
            connection: Some(Connection {
                unacknowledged: 14_480,
                backoff: 3,
                ..segments()
            }),
            ..Evidence::default()
        };
        wait
    }

    fn segments() -> Connection {
        Connection {
            segment: 1_448,
            ..Connection::default()
        }
    }

    /// `other`: makes another connection of what was seen for two seconds.
    fn beside(count: u64, end: End, other: impl Fn(Sending) -> Sending) -> Diagnosis {
        let mut case = Case::new(Scope::default());
        let seen = Sending {
            sends: 20,
            seen_for: Nanos(1_900 * MS),
            ..sending(client(9), segments())
        };
        let ended = |of| Wait { end, ..hangs(of) };
        case.waits(&Waits {
            list: (1..=count).map(ended).collect(),
            sending: vec![other(seen)],
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    /// Twenty other messages were sent.
    #[test]
    fn two_large_answers_that_were_given_up_are_enough_where_others_arrive() {
        let findings = |count, resent| diagnosed(count, End::GivenUp, resent, 2_000).findings;
        let given_up = findings(2, 0);
        let sentence = &given_up[0].sentence;
        assert!(sentence.contains("only full-size segments"), "{sentence}");
        assert_eq!(findings(1, 0), []);
        assert_eq!(findings(2, 4), []);
    }

    /// As of clients that went away, beside a download by the same path.
    #[test]
    fn large_segments_that_arrive_contradict_a_path_that_drops_them() {
        let told = |acknowledged| {
            let told = diagnosed(3, End::Open, 0, acknowledged);
            told.findings[0].sentence.clone()
        };
        assert!(told(5_000).contains("full-size"), "{}", told(5_000));
        assert!(!told(28_000).contains("full-size"), "{}", told(28_000));
    }

    /// As of a path that begins to drop them, after all of them had arrived.
    #[test]
    fn large_segments_that_arrived_before_or_are_smaller_contradict_nothing() {
        let vanish = |change: fn(&mut Sending)| {
            let other = |mut other: Sending| {
                other.acknowledged = 28_000;
                change(&mut other);
                other
            };
            let told = beside(3, End::Open, other);
            told.findings[0].sentence.contains("full-size")
        };
        assert!(!vanish(|_| {}));
        assert!(vanish(|other| other.seen_for = Nanos(5_000 * MS)));
        assert!(vanish(|other| other.connection.segment = 1_200));
        // A download that goes on.
        assert!(!vanish(|other| {
            other.seen_for = Nanos(5_000 * MS);
            other.connection.unacknowledged = 14_480;
        }));
    }

    /// Data that it sent itself arrived before it waited.
    #[test]
    fn a_connection_does_not_contradict_itself() {
        let arrive = |own: u64| {
            let mut waits = [crate::diagnosis::source::of_wait(&hangs(1))];
            let mut other = sending(client(own), segments());
            (other.sends, other.acknowledged) = (20, 28_000);
            other.seen_for = Nanos(1_000 * MS);
            let sending = BTreeMap::from([(slow::socket(&other.flow), other)]);
            compare(&mut waits, &sending);
            waits[0].seen.large_arrive
        };
        assert_eq!([arrive(1), arrive(2)], [false, true]);
    }

    #[test]
    fn large_answers_vanish_where_others_arrive() {
        assert!(told(0).contains("only full-size segments"), "{}", told(0));
        assert!(!told(4).contains("full-size"), "{}", told(4));
    }
}
