//! The timelines of many messages.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::clock::Nanos;
use crate::group::Groups;
use crate::histogram::Histogram;
use crate::interface::InterfaceSummary;
use crate::listener::ListenerSummary;
use crate::message::Message;
use crate::name::Name;
use crate::part::{Part, PartMap, PartSummary};
use crate::stage::{Direction, Stage, StageMap};
use crate::verdict::Verdict;

/// The version of the JSON of [`Summary`]; raised when a key changes its meaning or goes away.
pub const JSON_VERSION: u32 = 1;

/// The figures of one distribution. The quantiles are those of [`Histogram::quantile`], with its
/// accuracy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageSummary {
    /// Messages, by weight.
    pub count: u64,
    /// Median; this and the other quantiles are `None` (JSON `null`) if there were no messages.
    pub p50: Option<Nanos>,
    /// 90 % of the messages took at most this long.
    pub p90: Option<Nanos>,
    /// 99 % of the messages took at most this long.
    pub p99: Option<Nanos>,
    /// 99.9 % of the messages took at most this long.
    pub p999: Option<Nanos>,
    /// The largest, exact.
    pub max: Option<Nanos>,
    /// Weighted sum in nanoseconds, exact.
    pub sum_ns: u128,
}

impl From<&Histogram> for StageSummary {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            p50: histogram.quantile(0.5),
            p90: histogram.quantile(0.9),
            p99: histogram.quantile(0.99),
            p999: histogram.quantile(0.999),
            max: histogram.max(),
            sum_ns: histogram.sum_ns(),
        }
    }
}

impl Serialize for StageSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("StageSummary", 7)?;
        object.serialize_field("count", &self.count)?;
        object.serialize_field("p50_ns", &self.p50)?;
        object.serialize_field("p90_ns", &self.p90)?;
        object.serialize_field("p99_ns", &self.p99)?;
        object.serialize_field("p999_ns", &self.p999)?;
        object.serialize_field("max_ns", &self.max)?;
        object.serialize_field("sum_ns", &self.sum_ns)?;
        object.end()
    }
}

/// Reads of one protocol, by the time since the RX stamp of their last byte.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reads {
    /// Until the socket could be read, from the stamp of the packet that made it so.
    pub enqueued: Histogram,
    /// Until the read call returned.
    pub read: Histogram,
}

/// The reads of each protocol that is measured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cumulative {
    /// Reads of TCP.
    pub tcp: Option<Reads>,
    /// Reads of UDP.
    pub udp: Option<Reads>,
}

impl Cumulative {
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [(&mut self.tcp, &other.tcp), (&mut self.udp, &other.udp)] {
            if let Some(theirs) = theirs {
                let mine = mine.get_or_insert_default();
                mine.enqueued.merge(&theirs.enqueued);
                mine.read.merge(&theirs.read);
            }
        }
    }
}

/// The messages of one direction. The distributions are those of the valid ones; the counters are
/// of all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectionSummary {
    /// Messages of the selected flows, whatever became of them, measured or not.
    pub messages: u64,
    /// Measured messages. Each counts with its weight.
    pub measured: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Segments that the selected flows sent again, as `tcpi_total_retrans` counts them; always 0
    /// for RX.
    pub retransmits: u64,
    /// Segments with data that the selected flows sent, those sent again included, as
    /// `tcpi_data_segs_out` counts them. `None` for RX, during a measurement, of recordings, and
    /// without BPF timestamping.
    pub segments: Option<u64>,
    /// Segments that arrived behind a missing one, as TCPOFOQueue of nstat(8) counts them; always 0
    /// for TX.
    pub out_of_order: u64,
    /// Messages whose request or answer is ambiguous, by weight. TX: sends with requests still
    /// unread, without `app.service`; RX: answers while more than one request was in flight,
    /// without `peer.answer`.
    pub pipelined: u64,
    /// Datagrams that reached sockets of the selected flows and were dropped there, mostly because
    /// their receive buffer was full (UDP); always 0 for TX.
    pub drops: u64,
    /// The distribution of every stage; `None` where the stage is absent.
    pub stages: StageMap<Option<Histogram>>,
    /// The parts of the stages; `None` where the stage is absent.
    pub parts: PartMap<Option<PartSummary>>,
    /// TX: the distribution of the time until a message left the host; empty for RX.
    pub sent: Histogram,
    /// The distribution of the sum of a message's stages.
    pub total: Histogram,
    /// RX: the same reads for `--cumulative`, which tells the protocols apart. Not in the JSON of a
    /// summary.
    pub cumulative: Cumulative,
}

impl DirectionSummary {
    /// Return the distribution that messages of this direction are judged by: of the time until
    /// they left the host, or until they were read.
    #[must_use]
    pub fn time(&self, direction: Direction) -> &Histogram {
        match direction {
            Direction::Tx => &self.sent,
            Direction::Rx => &self.total,
        }
    }

    /// Adds a message as often as its weight says: to the counters, and to the distributions if it
    /// is valid. Its direction is not looked at.
    pub fn record(&mut self, message: &Message) {
        let weight = u64::from(message.weight);
        if message.is_connection() {
            self.record_stages(message, weight);
            if message.verdict.is_valid() {
                record_parts(&mut self.parts, message, weight);
            }
            return;
        }
        self.messages = self.messages.saturating_add(weight);
        self.measured = self.measured.saturating_add(1);
        self.bytes = self.bytes.saturating_add(message.bytes.saturating_mul(weight));
        self.retransmits = self
            .retransmits
            .saturating_add(u64::from(message.retransmits) * weight);
        if !message.verdict.is_valid() {
            return;
        }
        self.pipelined = self
            .pipelined
            .saturating_add(u64::from(message.pipelined) * weight);
        self.record_stages(message, weight);
        record_parts(&mut self.parts, message, weight);
        if message.direction == Direction::Tx {
            self.sent.record(message.time(), weight);
        }
        self.total.record(message.total(), weight);
    }

    fn record_stages(&mut self, message: &Message, weight: u64) {
        for (stage, &duration) in message.stages.present() {
            if message.verdict.is_valid() {
                self.stages[stage]
                    .get_or_insert_default()
                    .record(duration, weight);
            }
        }
    }

    /// Adds everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        self.messages = self.messages.saturating_add(other.messages);
        self.measured = self.measured.saturating_add(other.measured);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.retransmits = self.retransmits.saturating_add(other.retransmits);
        self.segments = match (self.segments, other.segments) {
            (Some(mine), Some(theirs)) => Some(mine.saturating_add(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.out_of_order = self.out_of_order.saturating_add(other.out_of_order);
        self.pipelined = self.pipelined.saturating_add(other.pipelined);
        self.drops = self.drops.saturating_add(other.drops);
        for (stage, histogram) in other.stages.present() {
            self.stages[stage].get_or_insert_default().merge(histogram);
        }
        for (part, sum) in other.parts.iter() {
            if let Some(sum) = sum {
                self.parts[part].get_or_insert_default().merge(sum);
            }
        }
        self.sent.merge(&other.sent);
        self.total.merge(&other.total);
        self.cumulative.merge(&other.cumulative);
    }

    /// Compute the parts that are the rest of their stage, for every stage with parts.
    pub fn complete_parts(&mut self) {
        for rest in Part::ALL.into_iter().filter(|part| part.is_rest()) {
            let Some(stage) = &self.stages[rest.stage()] else {
                continue;
            };
            let others: u128 = self
                .parts
                .of(rest.stage())
                .filter(|(part, _)| !part.is_rest())
                .map(|(_, sum)| sum.sum_ns)
                .sum();
            self.parts[rest] = Some(PartSummary {
                count: stage.count(),
                sum_ns: stage.sum_ns().saturating_sub(others),
                max_ns: None,
            });
        }
    }
}

impl Serialize for DirectionSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Stages<'a>(&'a StageMap<Option<Histogram>>);

        impl Serialize for Stages<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(
                    self.0
                        .present()
                        .map(|(stage, histogram)| (stage, StageSummary::from(histogram))),
                )
            }
        }

        let mut object = serializer.serialize_struct("DirectionSummary", 12)?;
        object.serialize_field("messages", &self.messages)?;
        object.serialize_field("measured", &self.measured)?;
        object.serialize_field("bytes", &self.bytes)?;
        object.serialize_field("retransmits", &self.retransmits)?;
        object.serialize_field("segments", &self.segments)?;
        object.serialize_field("out_of_order", &self.out_of_order)?;
        object.serialize_field("pipelined", &self.pipelined)?;
        object.serialize_field("drops", &self.drops)?;
        object.serialize_field("stages", &Stages(&self.stages))?;
        object.serialize_field("parts", &self.parts)?;
        object.serialize_field("sent", &StageSummary::from(&self.sent))?;
        object.serialize_field("total", &StageSummary::from(&self.total))?;
        object.end()
    }
}

/// Connections of the selected flows. Their times are the stages `conn.handshake` of sent and
/// `conn.accept` of received messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connections {
    /// Those that this side opened, and that were established.
    pub opened: u64,
    /// Those that this side accepted.
    pub accepted: u64,
    /// SYNs that were sent again, of all that this side tried to open.
    pub syns_again: u64,
    /// Those that failed, or whose accept was not seen, by verdict.
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
        self.syns_again = self.syns_again.saturating_add(u64::from(connection.retransmits));
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
    /// Packets that could not be followed through the host for want of room (`--host-path`): their
    /// messages have the SND stamp of the last interface that called back for the socket.
    pub host_path: u64,
    /// Connections whose messages are not counted, since as many as may be had state
    /// (`--max-flows`, `--max-memory`).
    pub turned_away: u64,
    /// Times that a flow looked for its group and found no slot.
    pub groups: u64,
    /// Reads and sends of UDP sockets, and connects before some, that came before UDP's programs
    /// were attached. They are no messages.
    pub datagrams: u64,
    /// Times that the kernel skipped one of our programs because it had interrupted the same
    /// program on that CPU. Messages that lack a stamp for that reason are refused, or stay in
    /// flight.
    pub skipped: u64,
    /// Connections that existed at the start and were not looked at, because a task does not
    /// release the lock of one: that one and those that the kernel comes to after it.
    pub not_adopted: u64,
}

/// The NICs' own stamps, where NICs stamp sends and a measurement may ask them to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct NicStamps {
    /// Sent messages for which the NIC was asked for a stamp.
    pub asked: u64,
    /// Sent messages for which it was not asked, because the rate was used up. They are measured
    /// all the same.
    pub spared: u64,
}

/// Tags of TCP connections: options that tell the other end which numbers bytes have here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tags {
    /// Tags that were written.
    pub written: u64,
    /// Tags that were read.
    pub read: u64,
    /// Those that contradicted an earlier one of the same connection.
    pub changed: u64,
    /// Tags that were not written because no segment had room for one.
    pub no_room: u64,
    /// Tags on segments that were sent again.
    pub resent: u64,
    /// Tags that were not written because the last ones to the same peer had to be sent again.
    pub withheld: u64,
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            written,
            read,
            changed,
            no_room,
            resent,
            withheld,
        } = self;
        write!(f, "tags: written {written}, read {read}, changed {changed}, ")?;
        write!(
            f,
            "without room {no_room}, sent again {resent}, withheld {withheld}"
        )
    }
}

/// The parts of the time in which TCP was measured, where it was not all of it. Counts of messages
/// are estimated then: a message in a window stands for `one_of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Windows {
    /// Windows so far.
    pub count: u64,
    /// The inverse of the part of the time that they take at the end: the weight of a message then.
    pub one_of: u32,
    /// Windows that began later than was drawn, because their hooks were late.
    pub late: u64,
    /// Windows that were left out, because the kernel refused to attach their hooks again.
    pub failed: u64,
    /// Time in which nothing was measured, because the part of the time changed: no message of it
    /// is counted.
    #[serde(rename = "unmeasured_ns")]
    pub unmeasured: Nanos,
    /// Time that attaching the hooks took, in all.
    #[serde(rename = "attaching_ns")]
    pub attaching: Nanos,
    /// Time that detaching them took.
    #[serde(rename = "detaching_ns")]
    pub detaching: Nanos,
}

/// The cost of a measurement as its last looks found it, in millionths of one core's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cost {
    /// The most that it is to cost.
    #[serde(rename = "ceiling_ppm")]
    pub ceiling: u32,
    /// The programs.
    #[serde(rename = "programs_ppm")]
    pub programs: u32,
    /// The measuring process.
    #[serde(rename = "process_ppm")]
    pub process: u32,
    /// Messages measured per second, flow and direction, before weights come in; `None` where no
    /// rate limits them.
    pub rate_cap: Option<u32>,
    /// The rate was lowered, because of the ceiling.
    pub lowered: bool,
    /// Looks at the cost.
    pub looks: u64,
    /// Looks after which even the cheapest way of measuring cost more than the ceiling.
    pub over: u64,
}

/// A CPU quota that was used up during the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Throttled {
    /// The path of the cgroup that has the quota: a name that users may choose.
    pub cgroup: Name,
    /// Periods in which it ran.
    pub periods: u64,
    /// Those in which the quota was used up, and its programs had to wait for the next.
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
    /// Tags, if they were enabled.
    pub tags: Option<Tags>,
    /// The windows, if messages of TCP are measured in windows.
    pub windows: Option<Windows>,
    /// The cost, if it is held below a ceiling, after the first look at it.
    pub cost: Option<Cost>,
    /// Of the CPU quotas that hold for the target, the one that was used up most often, if any was.
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
        let asked = usize::from(self.nic_stamps.is_some());
        let held = usize::from(self.throttled.is_some()) + usize::from(self.windows.is_some());
        let held = held + usize::from(self.cost.is_some());
        let listening = usize::from(!self.listeners.is_empty());
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

/// Adds the parts of a message that took time, as often as its weight says.
pub(crate) fn record_parts(parts: &mut PartMap<Option<PartSummary>>, message: &Message, weight: u64) {
    for (part, &duration) in message.parts.iter() {
        let Some(duration) = duration.filter(|duration| *duration > Nanos::ZERO) else {
            continue;
        };
        parts[part].get_or_insert_default().merge(&PartSummary {
            count: weight,
            sum_ns: u128::from(duration.0) * u128::from(weight),
            max_ns: Some(duration),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let expected = serde_json::json!({"cgroup": "/web", "periods": 50, "throttled": 42, "time_ns": 3000});
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
        });
        let expected =
            serde_json::json!([{"local": "0.0.0.0:80", "netns": 7, "queue": 2, "limit": 1, "dropped": 9}]);
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
                r#""tx":{"messages":4,"measured":2,"bytes":5792,"retransmits":1,"segments":null,"out_of_order":0,"pipelined":0,"drops":0,"#,
                r#""stages":{"#,
                r#""tx.copy":{"count":4,"p50_ns":1000,"p90_ns":20000,"p99_ns":20000,"p999_ns":20000,"#,
                r#""max_ns":20000,"sum_ns":23000},"#,
                r#""tx.queue":{"count":0,"p50_ns":null,"p90_ns":null,"p99_ns":null,"p999_ns":null,"#,
                r#""max_ns":null,"sum_ns":0}},"#,
                r#""parts":{"tx.copy":{"copy":{"count":4,"sum_ns":8000,"max_ns":null},"#,
                r#""sndbuf":{"count":1,"sum_ns":15000,"max_ns":15000}}},"#,
                r#""sent":{"count":0,"p50_ns":null,"p90_ns":null,"p99_ns":null,"p999_ns":null,"#,
                r#""max_ns":null,"sum_ns":0},"#,
                r#""total":{"count":4,"p50_ns":1000,"p90_ns":20000,"p99_ns":20000,"p999_ns":20000,"#,
                r#""max_ns":20000,"sum_ns":23000}},"#,
                r#""rx":{"messages":0,"measured":0,"bytes":0,"retransmits":0,"segments":null,"out_of_order":0,"#,
                r#""pipelined":0,"drops":2,"#,
                r#""stages":{},"parts":{},"#,
                r#""sent":{"count":0,"p50_ns":null,"p90_ns":null,"p99_ns":null,"p999_ns":null,"#,
                r#""max_ns":null,"sum_ns":0},"#,
                r#""total":{"count":0,"p50_ns":null,"p90_ns":null,"p99_ns":null,"p999_ns":null,"#,
                r#""max_ns":null,"sum_ns":0}},"#,
                r#""absent":{"tx.nic":"eth0 does not stamp in hardware"},"#,
                r#""verdicts":{"valid":4,"reset":2,"in-flight":3},"#,
                r#""connections":{"opened":0,"accepted":0,"syns_again":0,"failed":{}},"#,
                r#""lost":{"ring":5,"evicted":6,"unmatched":7,"flows":8,"mptcp":9,"host_path":10,"turned_away":13,"groups":11,"datagrams":14,"skipped":12,"not_adopted":13},"interfaces":[]}"#,
            )
        );
    }
}
