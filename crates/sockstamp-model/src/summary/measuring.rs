//! The method of measuring, and its cost.

use std::fmt;

use serde::Serialize;

use crate::clock::Nanos;
use crate::interface::Interface;

/// The NICs' own stamps, if NICs stamp sends and a measurement may request them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct NicStamps {
    /// Sent messages for which a stamp of the NIC was requested.
    pub asked: u64,
    /// Sent messages for which none was requested, because the rate was used up. They are measured
    /// nevertheless.
    pub spared: u64,
    /// Messages with a request that have `tx.nic`. This and the next two are of valid messages.
    pub stamped: u64,
    /// Messages without one because no stamp of the packet's first transmission came.
    pub unstamped: u64,
    /// Messages without one as the time of the NIC's stamp is not known: a clock was stepped,
    /// cannot be read, or the bound exceeds the stage.
    pub nic_clock: u64,
    /// The bounds of the error of `tx.nic`; `None` if no message has it.
    #[serde(flatten)]
    pub bounds: Option<NicBounds>,
}

/// The stamps that NICs gave read packets, if some NIC stamps all that it receives and a
/// measurement may use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct NicReads {
    /// Valid reads that have `rx.nic`.
    pub stamped: u64,
    /// Valid reads of stamped packets that were not followed, because the rate was used up.
    pub spared: u64,
    /// Valid reads whose last byte came without a stamp of a NIC that is its own: none stamped it,
    /// or its packet was merged with others.
    pub unstamped: u64,
    /// Reads without the stage as the time of the NIC's stamp is not known: the interface has no
    /// clock, a clock was stepped or cannot be read, or the bound exceeds the stage.
    pub nic_clock: u64,
    /// The bounds of the error of `rx.nic`; `None` if no read has it.
    #[serde(flatten)]
    pub bounds: Option<NicBounds>,
}

/// A NIC whose interrupts wait for further packets, which may be what a part of `rx.nic` is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CoalescingNic {
    /// The interface.
    pub interface: Interface,
    /// How long they wait after a packet, at most: `rx-usecs` of ethtool(8).
    #[serde(rename = "wait_ns")]
    pub wait: Nanos,
    /// The driver changes that with the load (`adaptive-rx`).
    pub adaptive: bool,
    /// Reads that have `rx.nic` of this NIC, by weight.
    pub reads: u64,
    /// Their median `rx.nic`.
    #[serde(rename = "p50_ns")]
    pub median: Nanos,
}

/// The smallest and the largest bound of the error of a time that a NIC's clock tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NicBounds {
    /// The smallest one.
    #[serde(rename = "bound_min_ns")]
    pub min: Nanos,
    /// The largest one.
    #[serde(rename = "bound_max_ns")]
    pub max: Nanos,
}

impl NicBounds {
    /// Extend the range, or begin one.
    pub fn widen(range: &mut Option<Self>, bound: Nanos) {
        let known = range.get_or_insert(Self {
            min: bound,
            max: bound,
        });
        known.min = known.min.min(bound);
        known.max = known.max.max(bound);
    }
}

/// Tags of TCP connections: options that tell the other end the sequence numbers of bytes on this
/// host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tags {
    /// Tags that were written.
    pub written: u64,
    /// Tags that were read.
    pub read: u64,
    /// Tags that contradicted an earlier one of the same connection.
    pub changed: u64,
    /// Tags that were not written because no segment had room for one.
    pub no_room: u64,
    /// Tags on segments that were sent again.
    pub resent: u64,
    /// Tags that were not written because the last ones to the same peer had to be sent again.
    pub withheld: u64,
    /// Connections on which later tags are not looked for, because many segments after the first
    /// tag had none.
    pub unheard: u64,
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
            unheard,
        } = self;
        write!(
            f,
            "tags: written {written}, read {read}, changed {changed}, "
        )?;
        write!(
            f,
            "without room {no_room}, sent again {resent}, withheld {withheld}, unheard {unheard}"
        )
    }
}

/// The windows of measuring, if messages were not measured all the time. Counts of messages
/// are estimates then: a message in a window has the weight `one_of`.
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
    /// Gaps between windows in which selected sockets did not call back.
    pub released: u64,
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

/// How far counts may be from the truth where messages were measured in windows: half of an
/// interval that holds in 95 of 100 measurements. `None`: too few windows have met messages to
/// tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// Of the number of messages.
    pub messages_error: Option<u64>,
    /// Of the number of bytes.
    pub bytes_error: Option<u64>,
}

/// The cost of a measurement by its last samples, in millionths of one core's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cost {
    /// The ceiling of the cost.
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
    /// Samples of the cost.
    pub looks: u64,
    /// Looks after which even the cheapest way of measuring cost more than the ceiling.
    pub over: u64,
}
