//! The timelines of many messages.

mod direction;
mod measuring;
mod since;

use std::collections::BTreeMap;

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::clock::Nanos;
use crate::group::Groups;
use crate::interface::InterfaceSummary;
use crate::listener::ListenerSummary;
use crate::message::Message;
use crate::name::Name;
use crate::stage::{Direction, Stage};
use crate::verdict::Verdict;

pub use self::direction::{Cumulative, DirectionSummary, Reads, Resent, StageSummary};
pub use self::measuring::{
    CoalescingNic, Cost, Estimate, NicBounds, NicReads, NicStamps, Tags, Windows,
};

/// The version of the JSON of [`Summary`]; raised when a key changes its meaning or is removed.
pub const JSON_VERSION: u32 = 1;

/// Connections of the selected flows. Their times are the stages `conn.handshake` of sent and
/// `conn.accept` of received messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connections {
    /// Connections that this side opened, and that were established.
    pub opened: u64,
    /// Connections that this side accepted.
    pub accepted: u64,
    /// SYNs that were sent again, of all that this side tried to open.
    pub syns_again: u64,
    /// Connections that failed, or whose accept was not seen, by verdict.
    pub failed: BTreeMap<Verdict, u64>,
}

impl Connections {
    /// Return the connections that failed for one reason.
    #[must_use]
    pub fn failed(&self, verdict: Verdict) -> u64 {
        self.failed.get(&verdict).copied().unwrap_or(0)
    }

    /// Add one.
    pub fn record(&mut self, connection: &Message) {
        self.syns_again = self
            .syns_again
            .saturating_add(u64::from(connection.retransmits));
        let count = match (connection.verdict, connection.direction) {
            (Verdict::Valid, Direction::Tx) => &mut self.opened,
            (Verdict::Valid, Direction::Rx) => &mut self.accepted,
            (verdict, _) => self.failed.entry(verdict).or_default(),
        };
        *count = count.saturating_add(1);
    }
}

impl Serialize for Connections {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Connections", 4)?;
        object.serialize_field("opened", &self.opened)?;
        object.serialize_field("accepted", &self.accepted)?;
        object.serialize_field("syns_again", &self.syns_again)?;
        object.serialize_field("failed", &self.failed)?;
        object.end()
    }
}

/// Losses. Distributions are counted in the kernel: no lost record is missing in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Lost {
    /// Records that found the ring buffer full.
    pub ring: u64,
    /// RX: arrivals that were overwritten before the application read them. A read that ends in one
    /// is refused.
    pub evicted: u64,
    /// TX: stamps for a message that was no longer, or never, in flight: mostly of retransmissions
    /// that cross with the acknowledgement.
    pub unmatched: u64,
    /// Flows that could not be selected: no memory for their state, or the kernel refused.
    pub flows: u64,
    /// MPTCP subflows: the kernel calls no callback for their messages.
    pub mptcp: u64,
    /// Packets that could not be followed through the host for lack of room (`--host-path`): their
    /// messages have the SND stamp of the last interface that called back for the socket.
    pub host_path: u64,
    /// Packets that waited for the link address of their next hop while too many others did: their
    /// messages do not have that part of `tx.queue` or `conn.handshake`.
    pub neighbours: u64,
    /// Connections whose messages are not counted, since as many as may be had state
    /// (`--max-flows`, `--max-memory`).
    pub turned_away: u64,
    /// Times that a flow looked for its group and found no slot.
    pub groups: u64,
    /// Reads, sends and connects of UDP sockets before UDP's programs were attached. They are not
    /// messages.
    pub datagrams: u64,
    /// Times that the kernel skipped one of our programs because it had interrupted the same
    /// program on that CPU. Messages that lack a stamp for that reason are refused, or stay in
    /// flight.
    pub skipped: u64,
    /// Connections that existed at the start and were not examined, because a task did not release
    /// the lock of one: that connection, and those after it in the kernel's order. Also the most
    /// that lacked their bit after a gap between windows, for the same reason.
    pub not_adopted: u64,
}

/// A CPU quota that was used up during the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Throttled {
    /// The path of the cgroup that has the quota: a name that users may choose.
    pub cgroup: Name,
    /// Periods in which it ran.
    pub periods: u64,
    /// Periods in which the quota was used up, and its programs had to wait for the next.
    pub throttled: u64,
    /// Time that they were held up, as the kernel sums it over CPUs.
    #[serde(rename = "time_ns")]
    pub time: Nanos,
}

/// The results of a measurement.
///
/// Its JSON is one object, in nanoseconds throughout. `verdicts` always has `valid` and
/// `in-flight`, and of the refusals those that were counted; stages that are absent are left out of
/// `stages` and named with their reason in `absent`. With groups come the keys `by`, `groups`,
/// `other` and `ended`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// The duration of the measurement.
    pub duration: Nanos,
    /// Connections that existed at the start and were selected.
    pub adopted: u64,
    /// Sent messages.
    pub tx: DirectionSummary,
    /// Received messages.
    pub rx: DirectionSummary,
    /// The stages that this host cannot give, and why.
    pub absent: BTreeMap<Stage, String>,
    /// Measured messages by verdict, by weight; messages in flight are not included.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Measured messages that were neither complete nor refused when the measurement ended, by
    /// weight.
    pub in_flight: u64,
    /// Connections that were opened and accepted.
    pub connections: Connections,
    /// Losses on the way to user space.
    pub lost: Lost,
    /// The last interfaces of the valid sent messages, the busiest first.
    pub interfaces: Vec<InterfaceSummary>,
    /// The same messages in groups, if requested.
    pub groups: Option<Groups>,
    /// Requests for NIC stamps, if enabled and some NIC stamps sends.
    pub nic_stamps: Option<NicStamps>,
    /// Stamps of NICs on received packets, if enabled and some NIC stamps all that it receives.
    pub nic_reads: Option<NicReads>,
    /// The NICs whose interrupts wait so long that it may be half of `rx.nic`, or more.
    pub coalescing: Vec<CoalescingNic>,
    /// Tags, if they were enabled.
    pub tags: Option<Tags>,
    /// The windows, if messages of TCP are measured in windows.
    pub windows: Option<Windows>,
    /// The cost, if there is a ceiling for it, after the first sample.
    pub cost: Option<Cost>,
    /// The CPU quota of the target that was used up most often, if any was.
    pub throttled: Option<Throttled>,
    /// The listeners that dropped connections or had some waiting, those with most drops first.
    pub listeners: Vec<ListenerSummary>,
}

impl Summary {
    /// The summary of one direction.
    #[must_use]
    pub fn direction(&self, direction: Direction) -> &DirectionSummary {
        match direction {
            Direction::Tx => &self.tx,
            Direction::Rx => &self.rx,
        }
    }

    /// Return the same as [`direction`](Self::direction), mutable.
    pub fn direction_mut(&mut self, direction: Direction) -> &mut DirectionSummary {
        match direction {
            Direction::Tx => &mut self.tx,
            Direction::Rx => &mut self.rx,
        }
    }

    /// Return the number of measured messages with this verdict.
    #[must_use]
    pub fn verdict(&self, verdict: Verdict) -> u64 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// The refusals that were counted, in the order of [`Verdict::ALL`].
    pub fn refusals(&self) -> impl Iterator<Item = (Verdict, u64)> {
        self.verdicts
            .iter()
            .map(|(&verdict, &count)| (verdict, count))
            .filter(|&(verdict, count)| !verdict.is_valid() && count > 0)
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Verdicts<'a>(&'a Summary);

        impl Serialize for Verdicts<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry(&Verdict::Valid, &self.0.verdict(Verdict::Valid))?;
                for (verdict, count) in self.0.refusals() {
                    map.serialize_entry(&verdict, &count)?;
                }
                map.serialize_entry("in-flight", &self.0.in_flight)?;
                map.end()
            }
        }

        let grouped = if self.groups.is_some() { 5 } else { 0 };
        let asked = usize::from(self.nic_stamps.is_some()) + usize::from(self.nic_reads.is_some());
        let held = usize::from(self.throttled.is_some()) + usize::from(self.windows.is_some());
        let held = held + usize::from(self.cost.is_some());
        let listening = usize::from(!self.listeners.is_empty());
        let listening = listening + usize::from(!self.coalescing.is_empty());
        let length = 10 + asked + held + listening + grouped;
        let mut object = serializer.serialize_struct("Summary", length)?;
        object.serialize_field("version", &JSON_VERSION)?;
        object.serialize_field("duration_ns", &self.duration)?;
        object.serialize_field("adopted", &self.adopted)?;
        object.serialize_field("tx", &self.tx)?;
        object.serialize_field("rx", &self.rx)?;
        object.serialize_field("absent", &self.absent)?;
        object.serialize_field("verdicts", &Verdicts(self))?;
        object.serialize_field("connections", &self.connections)?;
        object.serialize_field("lost", &self.lost)?;
        object.serialize_field("interfaces", &self.interfaces)?;
        if let Some(nic_stamps) = &self.nic_stamps {
            object.serialize_field("nic_stamps", nic_stamps)?;
        }
        if let Some(nic_reads) = &self.nic_reads {
            object.serialize_field("nic_reads", nic_reads)?;
        }
        if !self.coalescing.is_empty() {
            object.serialize_field("coalescing", &self.coalescing)?;
        }
        if let Some(windows) = &self.windows {
            object.serialize_field("windows", windows)?;
        }
        if let Some(cost) = &self.cost {
            object.serialize_field("cost", cost)?;
        }
        if let Some(throttled) = &self.throttled {
            object.serialize_field("throttled", throttled)?;
        }
        if !self.listeners.is_empty() {
            object.serialize_field("listeners", &self.listeners)?;
        }
        if let Some(groups) = &self.groups {
            object.serialize_field("by", &groups.by)?;
            object.serialize_field("groups", &groups.groups)?;
            object.serialize_field("other", &groups.other)?;
            object.serialize_field("ended", &groups.ended)?;
            object.serialize_field("ended_groups", &groups.ended_groups)?;
        }
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::part::{Part, PartSummary};

    #[test]
    fn begins_are_unseen_of_sends_of_udp_without_an_entry() {
        use crate::fixture;
        use crate::flow::Protocol;

        let unseen = |protocol, copy| {
            let mut message = fixture::message(Direction::Tx);
            message.flow.protocol = protocol;
            message.stages[Stage::TxCopy] = copy;
            message.weight = 3;
            let mut tx = DirectionSummary::default();
            tx.record(&message);
            tx.begins_unseen
        };
        assert_eq!(unseen(Protocol::Udp, None), 3);
        assert_eq!(unseen(Protocol::Udp, Some(Nanos(9))), 0);
        assert_eq!(unseen(Protocol::Tcp, None), 0);
    }

    #[test]
    fn a_quota_that_was_used_up_is_in_the_json() {
        let mut summary = Summary::default();
        let json = |summary: &Summary| serde_json::to_value(summary).unwrap();
        assert!(json(&summary).get("throttled").is_none());
        summary.throttled = Some(Throttled {
            cgroup: "/web".into(),
            periods: 50,
            throttled: 42,
            time: Nanos(3_000),
        });
        let expected =
            serde_json::json!({"cgroup": "/web", "periods": 50, "throttled": 42, "time_ns": 3000});
        assert_eq!(json(&summary)["throttled"], expected);
    }

    #[test]
    fn a_listener_is_in_the_json() {
        let mut summary = Summary::default();
        let json = |summary: &Summary| serde_json::to_value(summary).unwrap();
        assert!(json(&summary).get("listeners").is_none());
        summary.listeners.push(ListenerSummary {
            local: "0.0.0.0:80".parse().unwrap(),
            netns: crate::NetnsInode(7),
            queue: 2,
            limit: 1,
            dropped: 9,
            overflowed: Some(4),
            unrouted: 3,
            half_open: None,
        });
        let expected = serde_json::json!([{
            "local": "0.0.0.0:80", "netns": 7, "queue": 2, "limit": 1, "dropped": 9, "overflowed": 4,
            "unrouted": 3, "half_open": null
        }]);
        assert_eq!(json(&summary)["listeners"], expected);
    }

    #[test]
    fn json_of_a_summary() {
        let mut summary = Summary {
            duration: Nanos::from_secs(10),
            in_flight: 3,
            adopted: 2,
            ..Summary::default()
        };
        let mut copy = Histogram::new();
        // Weights make it four messages.
        copy.record(Nanos(1_000), 3);
        copy.record(Nanos(20_000), 1);
        summary.tx.messages = 4;
        summary.tx.measured = 2;
        summary.tx.bytes = 5_792;
        summary.tx.retransmits = 1;
        summary.rx.drops = 2;
        summary.rx.drop_reasons.insert("SOCKET_RCVBUFF".into(), 2);
        summary.tx.total = copy.clone();
        summary.tx.stages[Stage::TxCopy] = Some(copy);
        summary.tx.parts[Part::Sndbuf] = Some(PartSummary {
            count: 1,
            sum_ns: 15_000,
            max_ns: Some(Nanos(15_000)),
        });
        summary.tx.complete_parts();
        summary.tx.stages[Stage::TxQueue] = Some(Histogram::new());
        summary
            .absent
            .insert(Stage::TxNic, "eth0 does not stamp in hardware".to_owned());
        summary
            .verdicts
            .extend([(Verdict::Valid, 4), (Verdict::Reset, 2), (Verdict::Hol, 0)]);
        summary.lost = Lost {
            ring: 5,
            evicted: 6,
            unmatched: 7,
            flows: 8,
            mptcp: 9,
            host_path: 10,
            neighbours: 15,
            turned_away: 13,
            groups: 11,
            datagrams: 14,
            skipped: 12,
            not_adopted: 13,
        };
        assert_eq!(
            serde_json::to_string(&summary).unwrap(),
            concat!(
                r#"{"version":1,"duration_ns":10000000000,"adopted":2,"#,
                r#""tx":{"messages":4,"measured":2,"bytes":5792,"retransmits":1,"resent":null,"segments":null,"out_of_order":0,"pipelined":0,"unpaired":{"pipelined":0,"stream":0,"pushed":0,"asked-again":0,"multiplexed":0},"drops":0,"drop_reasons":{},"#,
                r#""stages":{"#,
                r#""tx.copy":{"count":4,"min_ns":1000,"mean_ns":5750,"p50_ns":1000,"p90_ns":20000,"p99_ns":20000,"p999_ns":20000,"#,
                r#""max_ns":20000,"sum_ns":23000},"#,
                r#""tx.queue":{"count":0,"min_ns":null,"mean_ns":null,"p50_ns":null,"p90_ns":null,"p99_ns":null,"p999_ns":null,"#,
                r#""max_ns":null,"sum_ns":0}},"#,
                r#""parts":{"tx.copy":{"copy":{"count":4,"sum_ns":8000,"max_ns":null},"#,
                r#""sndbuf":{"count":1,"sum_ns":15000,"max_ns":15000}}},"#,
                r#""sent":{"count":0,"min_ns":null,"mean_ns":null,"p50_ns":null,"p90_ns":null,"p99_ns":null,"p999_ns":null,"#,
                r#""max_ns":null,"sum_ns":0},"#,
                r#""total":{"count":4,"min_ns":1000,"mean_ns":5750,"p50_ns":1000,"p90_ns":20000,"p99_ns":20000,"p999_ns":20000,"#,
                r#""max_ns":20000,"sum_ns":23000}},"#,
                r#""rx":{"messages":0,"measured":0,"bytes":0,"retransmits":0,"resent":null,"segments":null,"out_of_order":0,"#,
                r#""pipelined":0,"unpaired":{"pipelined":0,"stream":0,"pushed":0,"asked-again":0,"multiplexed":0},"drops":2,"drop_reasons":{"SOCKET_RCVBUFF":2},"#,
                r#""stages":{},"parts":{},"#,
                r#""sent":{"count":0,"min_ns":null,"mean_ns":null,"p50_ns":null,"p90_ns":null,"p99_ns":null,"p999_ns":null,"#,
                r#""max_ns":null,"sum_ns":0},"#,
                r#""total":{"count":0,"min_ns":null,"mean_ns":null,"p50_ns":null,"p90_ns":null,"p99_ns":null,"p999_ns":null,"#,
                r#""max_ns":null,"sum_ns":0}},"#,
                r#""absent":{"tx.nic":"eth0 does not stamp in hardware"},"#,
                r#""verdicts":{"valid":4,"reset":2,"in-flight":3},"#,
                r#""connections":{"opened":0,"accepted":0,"syns_again":0,"failed":{}},"#,
                r#""lost":{"ring":5,"evicted":6,"unmatched":7,"flows":8,"mptcp":9,"host_path":10,"neighbours":15,"turned_away":13,"groups":11,"datagrams":14,"skipped":12,"not_adopted":13},"interfaces":[]}"#,
            )
        );
    }
}
