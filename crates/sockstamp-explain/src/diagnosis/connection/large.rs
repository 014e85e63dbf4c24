//! Whether what is small arrives where large segments do not.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::wait::Sending;

use crate::diagnosis::slow::{self, Slow, Socket};

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
    let is_large = |wait: &&mut Slow| wait.seen.is_large && wait.seen.resent > 0;
    for wait in waits.iter_mut().filter(is_large) {
        let others = peers.get(&(wait.flow.netns, wait.peer()));
        let others = || others.into_iter().flatten();
        wait.seen.large_arrive = others().any(|one| large_arrive(one));
        let arrived = others()
            .filter(|other| slow::socket(&other.flow) != wait.socket() && other.resent == 0)
            .map(|other| other.sends);
        wait.seen.others_arrive = arrived.sum::<u32>() >= LEAST;
    }
}

/// Return true if so much was acknowledged that most segments must have been larger than half.
fn large_arrive(sending: &Sending) -> bool {
    let segment = u64::from(sending.connection.segment);
    let arrived = u64::from(sending.sends.saturating_sub(sending.resent)).max(1);
    let least = u64::from(LEAST) * segment;
    segment > 0 && sending.acknowledged >= least && sending.acknowledged * 2 > arrived * segment
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::{Flow, Opened, SocketCookie};
    use sockstamp_model::wait::{Connection, End, Evidence, Kind, Waits};

    use super::*;
    use crate::diagnosis::tests::{flow, sending, summary, wait};
    use crate::diagnosis::{Case, Diagnosis, Scope};

    /// A service whose large answers are not acknowledged; another connection sends, too.
    fn told(resent: u32) -> String {
        let told = diagnosed(3, End::Open, resent, 2_000);
        told.findings[0].sentence.clone()
    }

    fn diagnosed(count: u64, end: End, resent: u32, acknowledged: u64) -> Diagnosis {
        let client = |of: u64| Flow {
            cookie: SocketCookie(of),
            ..flow("10.0.0.1:8080", "10.0.0.2:50000")
        };
        let hangs = |of: u64| {
            let mut wait = wait(Kind::Acknowledgement, end, of * 10, 2_000);
            wait.opened = Some(Opened::Accepted);
            wait.flow = client(of);
            wait.bytes = 20_000;
            wait.evidence = Evidence {
                connection: Some(Connection {
                    segment: 1448,
                    unacknowledged: 14_480,
                    backoff: 3,
                    ..Connection::default()
                }),
                ..Evidence::default()
            };
            wait
        };
        let mut case = Case::new(Scope::default());
        let connection = Connection {
            segment: 1_448,
            ..Connection::default()
        };
        let other = sending(client(9), connection);
        case.waits(&Waits {
            list: (1..=count).map(hangs).collect(),
            sending: vec![Sending {
                sends: 20,
                resent,
                acknowledged,
                ..other
            }],
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

    #[test]
    fn large_answers_vanish_where_others_arrive() {
        assert!(told(0).contains("only full-size segments"), "{}", told(0));
        assert!(!told(4).contains("full-size"), "{}", told(4));
    }
}
