//! Packets, in a file next to that of the messages: one row per packet and direction.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use sockstamp_model::clock::{Monotonic, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, SocketCookie};
use sockstamp_model::name::Name;
use sockstamp_model::packet::{MessageName, Packet, PacketStage, Segments, Way};

use crate::error::Error;
use crate::fields::Value::{Bytes, Integer, Text};
use crate::fields::{Field, OF_FLOW, OfFlow, column, flow, of_flow, write};
use crate::rows::{RowGroup, Rows};
use crate::schema::Column;
use crate::table::{Decoded, Table};

/// Rows of a row group at most; with their headers they take some ten megabytes in memory.
const ROWS: usize = 1 << 15;

/// The columns before those of the flow.
const BEFORE: [Field<Way>; FLOW] = [
    (
        "time_ns",
        false,
        Integer(|way| Some(way.packet.time.as_nanos().cast_signed())),
    ),
    ("packet", false, Integer(|way| Some(way.id.cast_signed()))),
    (
        "direction",
        false,
        Text(|way| Some(way.packet.direction.name().to_owned())),
    ),
];

/// The columns after those of the flow.
const AFTER: [Field<Way>; 19] = [
    (
        "cgroup",
        true,
        Integer(|way| way.packet.cgroup.map(|cgroup| cgroup.0.cast_signed())),
    ),
    (
        "cgroup_path",
        true,
        Text(|way| Some(way.packet.cgroup_path.as_ref()?.exact().into_owned())),
    ),
    ("pid", true, Integer(|way| way.packet.pid.map(i64::from))),
    (
        "comm",
        false,
        Text(|way| Some(way.packet.comm.exact().into_owned())),
    ),
    (
        "interface",
        false,
        Text(|way| Some(way.packet.interface.name.exact().into_owned())),
    ),
    (
        "interface_index",
        false,
        Integer(|way| Some(way.packet.interface.index.into())),
    ),
    (
        "interface_netns",
        false,
        Integer(|way| Some(way.packet.interface.netns.0.into())),
    ),
    (
        "length",
        false,
        Integer(|way| Some(way.packet.length.into())),
    ),
    (
        "segment_size",
        true,
        Integer(|way| way.packet.segments.map(|segments| segments.size.into())),
    ),
    (
        "segments",
        true,
        Integer(|way| way.packet.segments.map(|segments| segments.count.into())),
    ),
    (
        "sched_ns",
        true,
        Integer(|way| stamp(way, PacketStage::Sched)),
    ),
    (
        "driver_ns",
        true,
        Integer(|way| stamp(way, PacketStage::Driver)),
    ),
    (
        "softirq_ns",
        true,
        Integer(|way| stamp(way, PacketStage::Softirq)),
    ),
    (
        "socket_ns",
        true,
        Integer(|way| stamp(way, PacketStage::Socket)),
    ),
    ("tcp_ns", true, Integer(|way| stamp(way, PacketStage::Tcp))),
    (
        "message_cookie",
        true,
        Integer(|way| way.message.map(|message| message.cookie.0.cast_signed())),
    ),
    (
        "message_time_ns",
        true,
        Integer(|way| {
            way.message
                .map(|message| message.time.as_nanos().cast_signed())
        }),
    ),
    (
        "seq_end",
        true,
        Integer(|way| way.message?.seq_end.map(i64::from)),
    ),
    // After the others, where people do not look.
    (
        "headers",
        false,
        Bytes(|way| Some(way.packet.bytes.to_vec())),
    ),
];

fn fields() -> impl Iterator<Item = Field<Way>> {
    BEFORE.into_iter().chain(of_flow()).chain(AFTER)
}

impl OfFlow for Way {
    fn flow(&self) -> &Flow {
        &self.packet.flow
    }
}

fn stamp(way: &Way, stage: PacketStage) -> Option<i64> {
    way.stamps[stage as usize].map(|stamp| stamp.as_nanos().cast_signed())
}

/// Packets that will be one row group.
#[derive(Debug, Default)]
pub struct Packets {
    ways: Vec<Way>,
}

impl Packets {
    /// Add a packet.
    pub fn push(&mut self, way: Way) {
        self.ways.push(way);
    }
}

impl Rows for Packets {
    const VERSION: (&'static str, u32) = ("sockstamp.packets", 1);
    const GROWING: &'static [&'static str] = &["time_ns", "packet"];
    const FEW: &'static [&'static str] = &[];

    fn columns() -> Vec<Column> {
        fields().map(column).collect()
    }

    fn len(&self) -> usize {
        self.ways.len()
    }

    fn is_full(&self) -> bool {
        self.len() >= ROWS
    }

    fn clear(&mut self) {
        self.ways.clear();
    }

    fn write(&self, group: &mut RowGroup<'_>) -> Result<(), ParquetError> {
        fields().try_for_each(|field| write(group, &self.ways, field))
    }
}

/// A file of packets that is read.
#[derive(Debug)]
pub struct PacketReader(Arc<Table>);

impl PacketReader {
    /// Open a file. One that was cut off is read up to its last note.
    ///
    /// # Errors
    ///
    /// If it cannot be read, has no footer, or has no packets of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Table::open::<Packets>(path).map(|table| Self(Arc::new(table)))
    }

    /// The path that it was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The number of packets, of each direction.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows()
    }

    /// The bytes after the last note or footer: rows that the writer had no time to finish.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.0.unread()
    }

    /// Return what the writer noted about itself, such as its host.
    #[must_use]
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.0.fact(key)
    }

    /// Iterate over the packets in the order of the times at which they were seen first. Addresses
    /// in memory are 0.
    pub fn ways(&self) -> impl Iterator<Item = Result<Way, Error>> {
        self.0
            .groups(|_| true, 1)
            .flat_map(move |(group, decoded)| {
                let (rows, failed) = match decoded {
                    Ok(decoded) => (Some(decoded), None),
                    Err(error) => (None, Some(Err(error))),
                };
                let ways = rows.into_iter().flat_map(move |rows| {
                    (0..rows.count).map(move |row| {
                        way(&rows, row).map_err(|reason| self.0.damaged(group, reason))
                    })
                });
                ways.chain(failed)
            })
    }
}

/// The places of columns, as in [`fields()`].
const FLOW: usize = 3;
const CGROUP: usize = FLOW + OF_FLOW;
const INTERFACE: usize = 14;
const LENGTH: usize = 17;
const STAMPS: usize = 20;
const MESSAGE: usize = STAMPS + PacketStage::ALL.len();
const HEADERS: usize = MESSAGE + 3;

fn way(rows: &Decoded, row: usize) -> Result<Way, String> {
    let unsigned = |column: usize| rows.number::<i64>(column, row).map(i64::cast_unsigned);
    let integer = |column: usize| rows.integer(column, row);
    let small = |column: usize| {
        integer(column)
            .map(|_| rows.number(column, row))
            .transpose()
    };
    let stamps: [_; PacketStage::ALL.len()] = std::array::from_fn(|stage| {
        let nanos = integer(STAMPS + stage).map(i64::cast_unsigned);
        nanos.map(Timestamp::<Monotonic>::from_nanos)
    });
    // The first of a way is its earliest.
    let seen = PacketStage::ALL.into_iter().zip(stamps);
    let seen = seen.filter_map(|(stage, stamp)| Some((stamp?, stage)));
    let (stamp, stage) = seen.min().ok_or_else(|| rows.wrong(STAMPS))?;
    let packet = Packet {
        stage,
        direction: rows.word(2, row)?,
        time: Timestamp::from_nanos(unsigned(0)?),
        stamp,
        address: 0,
        flow: flow(rows, FLOW, row)?,
        cgroup: integer(CGROUP).map(|cgroup| CgroupId(cgroup.cast_unsigned())),
        cgroup_path: rows
            .text(CGROUP + 1, row)
            .map(|path| Cow::Owned(path.into())),
        pid: small(CGROUP + 2)?,
        comm: Name::from(
            rows.text(CGROUP + 3, row)
                .ok_or_else(|| rows.wrong(CGROUP + 3))?,
        ),
        interface: rows
            .interface(INTERFACE, row)?
            .ok_or_else(|| rows.wrong(INTERFACE))?,
        length: rows.number(LENGTH, row)?,
        segments: segments(rows, row)?,
        bytes: rows
            .text(HEADERS, row)
            .ok_or_else(|| rows.wrong(HEADERS))?
            .to_vec()
            .into(),
    };
    let time = integer(MESSAGE + 1).map(i64::cast_unsigned);
    let message = integer(MESSAGE)
        .zip(time)
        .map(|(cookie, time)| MessageName {
            cookie: SocketCookie(cookie.cast_unsigned()),
            time: Timestamp::from_nanos(time),
            seq_end: integer(MESSAGE + 2).and_then(|end| u32::try_from(end).ok()),
        });
    Ok(Way {
        id: unsigned(1)?,
        packet,
        stamps,
        message,
    })
}

fn segments(rows: &Decoded, row: usize) -> Result<Option<Segments>, String> {
    if rows.integer(LENGTH + 1, row).is_none() {
        return Ok(None);
    }
    Ok(Some(Segments {
        size: rows.number(LENGTH + 1, row)?,
        count: rows.number(LENGTH + 2, row)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_columns() {
        let fields: Vec<_> = fields().collect();
        let places = [FLOW, CGROUP, INTERFACE, LENGTH, STAMPS, MESSAGE, HEADERS];
        let names = places.map(|place| fields[place].0);
        assert_eq!(
            names,
            [
                "protocol",
                "cgroup",
                "interface",
                "length",
                "sched_ns",
                "message_cookie",
                "headers"
            ]
        );
    }
}
