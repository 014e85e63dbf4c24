//! Waits as the model has them.

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::flow::CgroupId;
use sockstamp_model::wait::{Connection, End, Evidence, Kind, Wait};

use crate::abi::{self, raw};

/// `WAIT_UNKNOWN` of abi.h; bindgen does not evaluate its `~`.
const UNKNOWN: u64 = u64::MAX;
/// `COUNT_UNKNOWN` and `RTT_UNKNOWN` of abi.h.
const COUNT_UNKNOWN: u32 = u32::MAX;

/// The model's view of a wait, in a measurement that began then. `None` if a field has a value that
/// no version of ours writes.
pub(super) fn wait(record: &raw::wait_record, began: Timestamp<Monotonic>) -> Option<Wait> {
    let lasted = record.time.saturating_sub(record.since);
    let inside = record
        .time
        .saturating_sub(record.since.max(began.as_nanos()));
    Some(Wait {
        kind: Kind::from_index(record.kind.into())?,
        flow: abi::flow(&record.flow),
        opened: abi::opened(&record.flow),
        cgroup: CgroupId(record.flow.cgroup),
        pid: record.flow.pid,
        comm: abi::comm(&record.flow),
        since: Timestamp::from_nanos(record.since),
        lasted: Nanos(lasted),
        inside: Nanos(inside),
        end: End::from_index(record.end.into())?,
        members: record.members,
        bytes: record.bytes,
        evidence: evidence(record),
    })
}

fn evidence(record: &raw::wait_record) -> Evidence {
    Evidence {
        asked: time(record.asked),
        left: time(record.left),
        acknowledged: time(record.acknowledged),
        arrived: time(record.arrived),
        resent: number(record.resent),
        resent_in_vain: number(record.resent_in_vain),
        syns: number(record.syns),
        out_of_order: time(record.out_of_order),
        window_closed: time(record.window_closed),
        buffer_full: time(record.buffer_full),
        tasks: None,
        connection: connection(&record.connection),
    }
}

fn time(nanos: u64) -> Option<Nanos> {
    (nanos != UNKNOWN).then_some(Nanos(nanos))
}

fn number(count: u32) -> Option<u32> {
    (count != COUNT_UNKNOWN).then_some(count)
}

fn microseconds(us: u32) -> Option<Nanos> {
    number(us).map(|us| Nanos(u64::from(us) * 1000))
}

/// The model's view of a connection.
pub(crate) fn connection(raw: &raw::wait_connection) -> Option<Connection> {
    (raw.known != 0).then(|| Connection {
        min_rtt: microseconds(raw.min_rtt_us),
        srtt: microseconds(raw.srtt_us),
        unacknowledged: raw.unacknowledged,
        unsent: raw.unsent,
        unread: raw.unread,
        peer_window: raw.peer_window,
        own_window: raw.own_window,
        backoff: raw.backoff,
        probes: raw.probes,
        resent: raw.resent,
        dsacks: raw.dsacks,
        reordered: raw.reordered,
        congestion_window: raw.congestion_window,
        threshold: raw.threshold,
        segment: raw.segment,
        sends: raw.sends,
        receives: raw.receives,
        sent_ago: time(raw.sent_ago),
        received_ago: time(raw.received_ago),
        heard_ago: time(raw.heard_ago),
        buffer_set: raw.buffer_set != 0,
        unscaled: raw.unscaled != 0,
        paced: (raw.paced != UNKNOWN).then_some(raw.paced),
        window_limited: Nanos(raw.window_limited),
        buffer_limited: Nanos(raw.buffer_limited),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> raw::wait_record {
        raw::wait_record {
            since: 1000,
            time: 5000,
            bytes: 42,
            asked: 10,
            left: UNKNOWN,
            resent: 3,
            syns: COUNT_UNKNOWN,
            members: 1,
            kind: u16::try_from(Kind::Answer as u32).unwrap(),
            end: u16::try_from(End::GivenUp as u32).unwrap(),
            ..raw::wait_record::default()
        }
    }

    #[test]
    fn a_wait_counts_from_its_own_begin_and_inside_the_measurement() {
        let wait = wait(&record(), Timestamp::from_nanos(2000)).unwrap();
        assert_eq!((wait.kind, wait.end), (Kind::Answer, End::GivenUp));
        assert_eq!((wait.lasted, wait.inside), (Nanos(4000), Nanos(3000)));
        assert_eq!(wait.evidence.asked, Some(Nanos(10)));
        assert_eq!(wait.evidence.resent, Some(3));
    }

    #[test]
    fn what_is_unknown_is_not_none() {
        let wait = wait(&record(), Timestamp::from_nanos(0)).unwrap();
        assert_eq!(wait.inside, wait.lasted);
        assert_eq!((wait.evidence.left, wait.evidence.syns), (None, None));
        assert_eq!(wait.evidence.connection, None);
    }

    #[test]
    fn a_connection_without_a_round_trip_or_a_limit_has_none() {
        let raw = raw::wait_connection {
            known: 1,
            min_rtt_us: COUNT_UNKNOWN,
            srtt_us: 250,
            paced: UNKNOWN,
            ..raw::wait_connection::default()
        };
        let connection = connection(&raw).unwrap();
        assert_eq!((connection.min_rtt, connection.paced), (None, None));
        assert_eq!(connection.srtt, Some(Nanos(250_000)));
    }

    #[test]
    fn a_kind_that_no_version_writes_is_refused() {
        let unknown = raw::wait_record {
            kind: 99,
            ..record()
        };
        assert_eq!(wait(&unknown, Timestamp::from_nanos(0)), None);
    }
}
