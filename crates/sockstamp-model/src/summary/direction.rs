//! The figures of sends, or of reads.

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::clock::Nanos;
use crate::histogram::Histogram;
use crate::message::Message;
use crate::part::{Part, PartMap, PartSummary};
use crate::stage::{Direction, StageMap};
use crate::summary::Estimate;
use crate::unpaired::{Unpaired, UnpairedCounts};

/// The figures of one distribution. The quantiles are those of [`Histogram::quantile`], with its
/// accuracy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageSummary {
    /// Messages, by weight.
    pub count: u64,
    /// The shortest, exact.
    pub min: Option<Nanos>,
    /// The sum divided by the count, rounded down.
    pub mean: Option<Nanos>,
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
            min: histogram.min(),
            mean: histogram.mean(),
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
        let mut object = serializer.serialize_struct("StageSummary", 9)?;
        object.serialize_field("count", &self.count)?;
        object.serialize_field("min_ns", &self.min)?;
        object.serialize_field("mean_ns", &self.mean)?;
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

/// Segments that TCP sent again, by why it did. All but `needless` add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Resent {
    /// SYNs and SYN-ACKs.
    pub syns: u64,
    /// Tail loss probes, which TCP sends when an acknowledgement is late.
    pub probes: u64,
    /// To a window that the peer closed while data was on its way.
    pub window: u64,
    /// Segments that acknowledgements of later ones showed to be missing.
    pub fast: u64,
    /// After a timeout, until it was over.
    pub timeouts: u64,
    /// Of all these: the first one had come, as the peer reported (D-SACK, RFC 2883).
    pub needless: u64,
}

impl Resent {
    /// The segments that TCP sent again although no data was lost, or before there was any.
    #[must_use]
    pub fn lossless(&self) -> u64 {
        self.syns
            .saturating_add(self.window)
            .saturating_add(self.needless)
    }

    fn merge(&mut self, other: &Self) {
        for (mine, more) in [
            (&mut self.syns, other.syns),
            (&mut self.probes, other.probes),
            (&mut self.window, other.window),
            (&mut self.fast, other.fast),
            (&mut self.timeouts, other.timeouts),
            (&mut self.needless, other.needless),
        ] {
            *mine = mine.saturating_add(more);
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
    /// The errors of `messages` and `bytes`, if both are estimates.
    pub estimate: Option<Estimate>,
    /// Segments that the selected flows sent again, as `tcpi_total_retrans` counts them; always 0
    /// for RX.
    pub retransmits: u64,
    /// The same by why TCP sent them again; `None` for RX and of recordings.
    pub resent: Option<Resent>,
    /// Segments with data that the selected flows sent, those sent again included, as
    /// `tcpi_data_segs_out` counts them. `None` for RX, during a measurement, of recordings, and
    /// without BPF timestamping.
    pub segments: Option<u64>,
    /// Segments that arrived while an earlier one was missing, as TCPOFOQueue of nstat(8) counts
    /// them; always 0 for TX.
    pub out_of_order: u64,
    /// Messages that belong to no single question or answer, by weight: TX without `app.service`,
    /// RX without `peer.answer`.
    pub unpaired: UnpairedCounts,
    /// Datagrams that reached sockets of the selected flows and were dropped there, mostly because
    /// their receive buffer was full (UDP); always 0 for TX.
    pub drops: u64,
    /// Why datagrams were dropped, by the kernel's name of the reason (`enum skb_drop_reason`,
    /// since Linux 6.11): TX: packets of messages that are refused for it; RX: those of `drops`.
    pub drop_reasons: BTreeMap<Box<str>, u64>,
    /// The distribution of every stage; `None` where the stage is absent.
    pub stages: StageMap<Option<Histogram>>,
    /// The parts of the stages; `None` where the stage is absent.
    pub parts: PartMap<Option<PartSummary>>,
    /// TX: the distribution of the time until a message left the host; empty for RX.
    pub sent: Histogram,
    /// Valid sends of UDP whose begin no hook has shown, by weight: their times are lower bounds.
    /// Not in the JSON of a summary.
    pub begins_unseen: u64,
    /// The distribution of the sum of a message's stages.
    pub total: Histogram,
    /// RX: the same reads for `--cumulative`, which separates the protocols. Not in the JSON of a
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

    /// Add a message by its weight: to the counters, and to the distributions if it is valid. Its
    /// direction is ignored.
    pub fn record(&mut self, message: &Message) {
        let weight = u64::from(message.weight);
        if message.is_connection() {
            self.record_stages(message, weight);
            if message.verdict.is_valid() {
                message.record_parts(&mut self.parts, weight);
            }
            return;
        }
        self.messages = self.messages.saturating_add(weight);
        self.measured = self.measured.saturating_add(1);
        self.bytes = self
            .bytes
            .saturating_add(message.bytes.saturating_mul(weight));
        self.retransmits = self
            .retransmits
            .saturating_add(u64::from(message.retransmits) * weight);
        if !message.verdict.is_valid() {
            return;
        }
        if let Some(reason) = message.unpaired {
            self.unpaired.add(reason, weight);
        }
        self.record_stages(message, weight);
        message.record_parts(&mut self.parts, weight);
        if message.direction == Direction::Tx {
            self.sent.record(message.time(), weight);
        }
        if message.is_begin_unseen() {
            self.begins_unseen = self.begins_unseen.saturating_add(weight);
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

    /// Add everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        self.messages = self.messages.saturating_add(other.messages);
        self.measured = self.measured.saturating_add(other.measured);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.retransmits = self.retransmits.saturating_add(other.retransmits);
        if let Some(theirs) = &other.resent {
            self.resent.get_or_insert_default().merge(theirs);
        }
        self.segments = match (self.segments, other.segments) {
            (Some(mine), Some(theirs)) => Some(mine.saturating_add(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.out_of_order = self.out_of_order.saturating_add(other.out_of_order);
        for (reason, count) in other.unpaired.iter() {
            self.unpaired.add(reason, count);
        }
        self.drops = self.drops.saturating_add(other.drops);
        for (reason, count) in &other.drop_reasons {
            let mine = self.drop_reasons.entry(reason.clone()).or_default();
            *mine = mine.saturating_add(*count);
        }
        for (stage, histogram) in other.stages.present() {
            self.stages[stage].get_or_insert_default().merge(histogram);
        }
        for (part, sum) in other.parts.iter() {
            if let Some(sum) = sum {
                self.parts[part].get_or_insert_default().merge(sum);
            }
        }
        self.sent.merge(&other.sent);
        self.begins_unseen = self.begins_unseen.saturating_add(other.begins_unseen);
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

        let errors = if self.estimate.is_some() { 2 } else { 0 };
        let mut object = serializer.serialize_struct("DirectionSummary", 15 + errors)?;
        object.serialize_field("messages", &self.messages)?;
        object.serialize_field("measured", &self.measured)?;
        object.serialize_field("bytes", &self.bytes)?;
        if let Some(estimate) = &self.estimate {
            object.serialize_field("messages_error", &estimate.messages_error)?;
            object.serialize_field("bytes_error", &estimate.bytes_error)?;
        }
        object.serialize_field("retransmits", &self.retransmits)?;
        object.serialize_field("resent", &self.resent)?;
        object.serialize_field("segments", &self.segments)?;
        object.serialize_field("out_of_order", &self.out_of_order)?;
        object.serialize_field("pipelined", &self.unpaired[Unpaired::Pipelined])?;
        object.serialize_field("unpaired", &self.unpaired)?;
        object.serialize_field("drops", &self.drops)?;
        object.serialize_field("drop_reasons", &self.drop_reasons)?;
        object.serialize_field("stages", &Stages(&self.stages))?;
        object.serialize_field("parts", &self.parts)?;
        object.serialize_field("sent", &StageSummary::from(&self.sent))?;
        object.serialize_field("total", &StageSummary::from(&self.total))?;
        object.end()
    }
}
