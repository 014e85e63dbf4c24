//! The columns of a recording.
//!
//! Integers are plain signed 64-bit ones: Spark and DuckDB refuse or misread nanosecond timestamps
//! and unsigned integers of Parquet.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::schema::types::{Type, TypePtr};
use sockstamp_model::message::Stamps;
use sockstamp_model::part::Part;
use sockstamp_model::stage::Stage;

/// The version of the columns; raised when one changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// The key of the version in a file's metadata.
pub const VERSION_KEY: &str = "sockstamp.schema";

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A signed 64-bit integer.
    Integer,
    /// True or false.
    Flag,
    /// UTF-8.
    Text,
    /// Any bytes.
    Bytes,
}

impl Kind {
    pub(crate) const fn physical(self) -> Physical {
        match self {
            Self::Integer => Physical::INT64,
            Self::Flag => Physical::BOOLEAN,
            Self::Text | Self::Bytes => Physical::BYTE_ARRAY,
        }
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: Kind,
    /// Return true if a row may lack it.
    pub optional: bool,
}

/// The columns that are the same for many messages: those of the flow, the process, the interfaces
/// and the verdict.
pub(crate) const OF_IDENTITY: [(&str, Kind, bool); 21] = [
    ("direction", Kind::Text, false),
    ("protocol", Kind::Text, false),
    ("netns", Kind::Integer, false),
    ("local_address", Kind::Text, false),
    ("local_port", Kind::Integer, false),
    ("remote_address", Kind::Text, false),
    ("remote_port", Kind::Integer, false),
    ("cookie", Kind::Integer, false),
    ("cgroup", Kind::Integer, false),
    ("pid", Kind::Integer, false),
    ("comm", Kind::Text, false),
    ("verdict", Kind::Text, false),
    ("first_interface", Kind::Text, true),
    ("first_interface_index", Kind::Integer, true),
    ("first_interface_netns", Kind::Integer, true),
    ("interface", Kind::Text, true),
    ("interface_index", Kind::Integer, true),
    ("interface_netns", Kind::Integer, true),
    // Recordings of earlier programs lack these.
    ("container", Kind::Text, true),
    ("opened", Kind::Text, true),
    ("unpaired", Kind::Text, true),
];

pub(crate) const FLAGS: [&str; 3] = ["coalesced", "ack_with_data", "pipelined"];

/// The integers of a message that each one has.
pub(crate) const ALWAYS: [&str; 7] = [
    "time_ns",
    "bytes",
    "weight",
    "retransmits",
    "repeats",
    "seq_end",
    "stamps",
];

/// The integers of a message that may be absent, besides stages, parts and stamps.
pub(crate) const SOMETIMES: [&str; 7] = [
    "min_rtt_ns",
    "older_ns",
    "clock_offset_ns",
    "snd_hw_ns",
    "clock_error_ns",
    // Recordings of earlier programs lack these.
    "cpu",
    "nic_bound_ns",
];

/// The number of stamps of CLOCK_MONOTONIC.
pub(crate) const STAMPS: usize = Stamps::NAMES.len();

/// Return the stage's column, such as `tx_copy_ns`.
#[must_use]
pub fn stage_column(stage: Stage) -> String {
    format!("{}_ns", stage.name().replace('.', "_"))
}

/// Return the part's column, such as `tx_queue_cwnd_ns`.
#[must_use]
pub fn part_column(part: Part) -> String {
    let name = format!("{}_{}_ns", part.stage().name(), part.name());
    name.replace(['.', '-'], "_")
}

/// Iterate over the parts that have a column: all but the rest of each stage.
pub(crate) fn parts() -> impl Iterator<Item = Part> {
    WITH_COLUMN.into_iter()
}

/// The number of parts that have a column.
pub(crate) const PARTS: usize = {
    let (mut count, mut place) = (0, 0);
    while place < Part::COUNT {
        count += !Part::ALL[place].is_rest() as usize;
        place += 1;
    }
    count
};

/// Each message is asked for them.
const WITH_COLUMN: [Part; PARTS] = {
    let mut parts = [Part::ALL[0]; PARTS];
    let (mut count, mut place) = (0, 0);
    while place < Part::COUNT {
        if !Part::ALL[place].is_rest() {
            parts[count] = Part::ALL[place];
            count += 1;
        }
        place += 1;
    }
    parts
};

/// Return the names of the optional integers, in the order of the columns.
pub(crate) fn optional_integers() -> Vec<String> {
    let mut names: Vec<String> = SOMETIMES.map(str::to_owned).into();
    names.extend(Stage::ALL.map(stage_column));
    names.extend(parts().map(part_column));
    names.extend(Stamps::NAMES.map(|stamp| format!("{stamp}_moved_ns")));
    names
}

/// Return true for a column of [`Detail::Durations`](crate::Detail).
pub(crate) fn is_duration(column: &Column) -> bool {
    const OTHERS: [&str; 5] = ["cookie", "verdict", "time_ns", "weight", "clock_error_ns"];
    let name = column.name.as_str();
    OTHERS.contains(&name)
        || Stage::ALL
            .into_iter()
            .any(|stage| stage_column(stage) == name)
        || parts().any(|part| part_column(part) == name)
}

/// Return true for a column of [`Detail::Dimensions`](crate::Detail).
pub(crate) fn is_dimension(column: &Column) -> bool {
    const REST: [&str; 8] = [
        "repeats",
        "seq_end",
        "stamps",
        "min_rtt_ns",
        "older_ns",
        "clock_offset_ns",
        "snd_hw_ns",
        "nic_bound_ns",
    ];
    !REST.contains(&column.name.as_str()) && !column.name.ends_with("_moved_ns")
}

/// Return all columns, in their order in a file.
#[must_use]
pub fn columns() -> Vec<Column> {
    let column = |name: String, kind, optional| Column {
        name,
        kind,
        optional,
    };
    let identity = OF_IDENTITY
        .into_iter()
        .map(|(name, kind, optional)| column(name.to_owned(), kind, optional));
    let flags = FLAGS
        .into_iter()
        .map(|name| column(name.to_owned(), Kind::Flag, false));
    let always = ALWAYS
        .into_iter()
        .map(|name| column(name.to_owned(), Kind::Integer, false));
    let optional = optional_integers()
        .into_iter()
        .map(|name| column(name, Kind::Integer, true));
    identity
        .chain(flags)
        .chain(always)
        .chain(optional)
        .collect()
}

/// Return columns as Parquet has them.
pub(crate) fn parquet(columns: Vec<Column>) -> parquet::errors::Result<TypePtr> {
    let fields: Result<Vec<TypePtr>, _> = columns
        .into_iter()
        .map(|column| {
            let repetition = match column.optional {
                true => Repetition::OPTIONAL,
                false => Repetition::REQUIRED,
            };
            Type::primitive_type_builder(&column.name, column.kind.physical())
                .with_repetition(repetition)
                .with_logical_type((column.kind == Kind::Text).then_some(LogicalType::String))
                .build()
                .map(Arc::new)
        })
        .collect();
    let message = Type::group_type_builder("message")
        .with_fields(fields?)
        .build()?;
    Ok(Arc::new(message))
}
