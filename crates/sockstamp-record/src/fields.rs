//! Columns of rows that are structs: their names, and the value of each in a row.

use std::net::{IpAddr, SocketAddr};

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use sockstamp_model::flow::{Flow, NetnsInode, Protocol, SocketCookie, canonical};

use crate::rows::RowGroup;
use crate::schema::{Column, Kind};
use crate::table::Decoded;

/// Return the value of a row; none where it is absent.
pub(crate) enum Value<R> {
    Integer(fn(&R) -> Option<i64>),
    Text(fn(&R) -> Option<String>),
    Bytes(fn(&R) -> Option<Vec<u8>>),
}

use Value::{Bytes, Integer, Text};

/// A column; true if a row may lack it.
pub(crate) type Field<R> = (&'static str, bool, Value<R>);

/// A row of a flow.
pub(crate) trait OfFlow {
    fn flow(&self) -> &Flow;

    /// Return the name of its protocol, which may be none of a flow.
    fn protocol(&self) -> &'static str {
        self.flow().protocol.name()
    }
}

/// The number of columns that a flow has.
pub(crate) const OF_FLOW: usize = 7;

/// Return the columns of a row's flow.
pub(crate) fn of_flow<R: OfFlow>() -> [Field<R>; OF_FLOW] {
    [
        (
            "protocol",
            false,
            Text(|row| Some(row.protocol().to_owned())),
        ),
        (
            "netns",
            false,
            Integer(|row| Some(row.flow().netns.0.into())),
        ),
        (
            "local_address",
            false,
            Text(|row| Some(canonical(row.flow().local).ip().to_string())),
        ),
        (
            "local_port",
            false,
            Integer(|row| Some(row.flow().local.port().into())),
        ),
        (
            "remote_address",
            false,
            Text(|row| Some(canonical(row.flow().remote).ip().to_string())),
        ),
        (
            "remote_port",
            false,
            Integer(|row| Some(row.flow().remote.port().into())),
        ),
        (
            "cookie",
            false,
            Integer(|row| Some(row.flow().cookie.0.cast_signed())),
        ),
    ]
}

/// Read a flow, whose first column is at a place.
pub(crate) fn flow(rows: &Decoded, place: usize, row: usize) -> Result<Flow, String> {
    flow_of(rows, place, row, rows.word(place, row)?)
}

/// Do the same for one whose protocol is known.
pub(crate) fn flow_of(
    rows: &Decoded,
    place: usize,
    row: usize,
    protocol: Protocol,
) -> Result<Flow, String> {
    let end = |address: usize| -> Result<SocketAddr, String> {
        let ip: IpAddr = rows.word(address, row)?;
        Ok(SocketAddr::new(ip, rows.number(address + 1, row)?))
    };
    Ok(Flow {
        protocol,
        netns: NetnsInode(rows.number(place + 1, row)?),
        local: end(place + 2)?,
        remote: end(place + 4)?,
        cookie: SocketCookie(rows.number::<i64>(place + 6, row)?.cast_unsigned()),
    })
}

/// Return a column as the schema has it.
pub(crate) fn column<R>((name, optional, value): Field<R>) -> Column {
    Column {
        name: name.to_owned(),
        kind: match value {
            Integer(_) => Kind::Integer,
            Text(_) => Kind::Text,
            Bytes(_) => Kind::Bytes,
        },
        optional,
    }
}

/// Write a column of these rows.
pub(crate) fn write<R>(
    group: &mut RowGroup<'_>,
    rows: &[R],
    (_, optional, value): Field<R>,
) -> Result<(), ParquetError> {
    match value {
        Integer(value) => integers(group, optional, rows.iter().map(value)),
        Text(value) => texts(
            group,
            optional,
            rows.iter().map(|row| value(row).map(String::into_bytes)),
        ),
        Bytes(value) => texts(group, optional, rows.iter().map(value)),
    }
}

/// Write integers, which rows may lack if they are optional.
pub(crate) fn integers(
    group: &mut RowGroup<'_>,
    optional: bool,
    values: impl Iterator<Item = Option<i64>>,
) -> Result<(), ParquetError> {
    let (values, levels) = dense(values);
    group.integers(&values, optional.then_some(&levels[..]))
}

fn texts(
    group: &mut RowGroup<'_>,
    optional: bool,
    values: impl Iterator<Item = Option<Vec<u8>>>,
) -> Result<(), ParquetError> {
    let (values, levels) = dense(values.map(|value| value.map(ByteArray::from)));
    group.texts(&values, optional.then_some(&levels[..]))
}

/// Return the values that are there, and 1 for each row that has one, 0 for others.
fn dense<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let values: Vec<_> = values.collect();
    let levels = values
        .iter()
        .map(|value| i16::from(value.is_some()))
        .collect();
    (values.into_iter().flatten().collect(), levels)
}
