//! A queue on the path that a transfer of this host fills: questions to the same host wait in it.
//! TCP knows the round trip of the transfer, and the smallest one of the address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::{NetnsInode, Protocol, canonical};
use sockstamp_model::wait::Sending;

use crate::diagnosis::slow::{Slow, Socket};
use crate::diagnosis::tree::Node;

/// A shorter queue is work of the hosts.
const LEAST: u64 = 10_000_000;

/// As many segments are a transfer.
const TRANSFER: u32 = 100;

/// Segments that are under way at the last look: it goes on.
const UNDER_WAY: u32 = 10;

/// Give the time of such a queue to it. `rtt`: a wait's least round trip.
pub(in crate::diagnosis) fn give(
    waits: &mut [Slow],
    sending: &BTreeMap<Socket, Sending>,
    rtt: impl Fn(&Slow) -> u64,
) {
    let mut queues = BTreeMap::<(NetnsInode, IpAddr), Vec<(Socket, u64)>>::new();
    for (socket, one) in sending.iter().filter(|(_, one)| is_transfer(one)) {
        let key = (one.flow.netns, canonical(one.flow.remote).ip());
        let queued = one.connection.srtt.map_or(0, |srtt| srtt.0);
        queues.entry(key).or_default().push((*socket, queued));
    }
    for wait in waits {
        let there = queues.get(&(wait.flow.netns, wait.peer()));
        let of_others = there.into_iter().flatten();
        let of_others = of_others.filter(|(socket, _)| *socket != wait.socket());
        let rtt = rtt(wait);
        let longest = of_others.map(|(_, queued)| *queued).max();
        let Some(queued) = longest.filter(|queued| is_full(*queued, rtt)) else {
            continue;
        };
        let peer = wait.parts.of(Node::AnswerPeer);
        // A shorter wait has been in no such queue: each connection may have one of its own.
        let is_alike = wait.time() <= queued.saturating_mul(3)
            && wait.time().saturating_mul(2) >= queued - rtt;
        if wait.flow.protocol == Protocol::Tcp && is_alike && peer > 0 {
            wait.parts
                .shift(Node::AnswerPeer, Node::AnswerQueue, peer.min(queued - rtt));
            wait.seen.queued = Some(queued);
            wait.seen.rtt = Some(rtt);
        }
    }
}

const fn is_transfer(sending: &Sending) -> bool {
    let connection = &sending.connection;
    let under_way = connection.segment.saturating_mul(UNDER_WAY);
    sending.sends >= TRANSFER && connection.segment > 0 && connection.unacknowledged >= under_way
}

const fn is_full(queued: u64, rtt: u64) -> bool {
    rtt > 0 && queued >= rtt.saturating_mul(2) && queued - rtt >= LEAST
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::part::Part;
    use sockstamp_model::wait::{Connection, Kind, Waits};

    use crate::diagnosis::tests::{MS, answer, flow, sending, summary, tried};
    use crate::diagnosis::{Case, Scope};

    /// Answers that take 140 ms, beside a transfer of so many segments with such a round trip, to
    /// a host that is 28 ms away.
    fn told(segments: u32, round_trip: u64, to: &str) -> String {
        let mut case = Case::new(Scope::default());
        for of in 0..10 {
            let asks = flow("10.0.0.1:40000", "10.0.0.2:8080");
            let mut asked = answer(asks, "shop", of * 300 + 140, 140);
            asked.parts[Part::Network] = Some(Nanos(28 * MS));
            case.message(&asked);
        }
        let connection = Connection {
            srtt: Some(Nanos(round_trip * MS)),
            segment: 1448,
            unacknowledged: 60_000,
            ..Connection::default()
        };
        let mut transfer = sending(flow("10.0.0.1:50000", to), connection);
        transfer.sends = segments;
        let mut connect = tried(Kind::Connect, "10.0.0.2:8080", 3, 0);
        connect.min_ns = Nanos(28 * MS);
        case.waits(&Waits {
            attempts: vec![connect, tried(Kind::Answer, "10.0.0.2:8080", 11, 0)],
            sending: vec![transfer],
            ..Waits::default()
        });
        case.diagnose(&summary()).findings.remove(0).sentence
    }

    /// As of an upload by a slow line.
    #[test]
    fn a_transfer_that_fills_the_path_delays_what_is_asked_beside_it() {
        let said = told(900, 140, "10.0.0.2:9000");
        assert!(
            said.contains("a queue on the path") && said.contains("acknowledged after 140 ms"),
            "{said}"
        );
    }

    /// A path without a queue, few segments, and a transfer to somebody else.
    #[test]
    fn a_transfer_without_a_queue_there_delays_nobody() {
        for said in [
            told(900, 30, "10.0.0.2:9000"),
            told(20, 140, "10.0.0.2:9000"),
            told(900, 140, "10.0.0.3:9000"),
        ] {
            assert!(said.contains("the peer's work, or the way"), "{said}");
        }
    }
}
