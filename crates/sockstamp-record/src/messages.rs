//! Write messages as columns.

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use sockstamp_model::flow::canonical;
use sockstamp_model::interface::Interface;

use crate::batch::{Batch, Identity, Optional, ROWS};
use crate::rows::{RowGroup, Rows};
use crate::schema::{self, Column, Kind, OF_IDENTITY, VERSION, VERSION_KEY};

/// A value of an identity.
enum Value {
    Text(String),
    Integer(i64),
    Absent,
}

/// Return the values of [`OF_IDENTITY`].
fn values(identity: &Identity) -> [Value; OF_IDENTITY.len()] {
    let text = |text: &str| Value::Text(text.to_owned());
    let (local, remote) = (
        canonical(identity.flow.local),
        canonical(identity.flow.remote),
    );
    let interface = |interface: &Option<Interface>| match interface {
        Some(interface) => [
            Value::Text(interface.name.exact().into_owned()),
            Value::Integer(interface.index.into()),
            Value::Integer(interface.netns.0.into()),
        ],
        None => [const { Value::Absent }; 3],
    };
    let [first, first_index, first_netns] = interface(&identity.interfaces.first);
    let [last, last_index, last_netns] = interface(&identity.interfaces.last);
    [
        text(identity.direction.name()),
        text(identity.flow.protocol.name()),
        Value::Integer(identity.flow.netns.0.into()),
        Value::Text(local.ip().to_string()),
        Value::Integer(local.port().into()),
        Value::Text(remote.ip().to_string()),
        Value::Integer(remote.port().into()),
        Value::Integer(identity.flow.cookie.0.cast_signed()),
        Value::Integer(identity.cgroup.0.cast_signed()),
        Value::Integer(identity.pid.into()),
        Value::Text(identity.comm.exact().into_owned()),
        text(identity.verdict.name()),
        first,
        first_index,
        first_netns,
        last,
        last_index,
        last_netns,
        if_known(
            identity
                .container
                .as_ref()
                .map(|container| container.full_name()),
        ),
        if_known(identity.opened.map(|opened| opened.name().to_owned())),
    ]
}

fn if_known(text: Option<String>) -> Value {
    text.map_or(Value::Absent, Value::Text)
}

impl Rows for Batch {
    const VERSION: (&'static str, u32) = (VERSION_KEY, VERSION);
    // They grow within a flow, and flows are runs.
    const GROWING: &'static [&'static str] = &["time_ns", "seq_end"];
    // Runs of small numbers take a quarter of a byte each by zstd alone.
    const FEW: &'static [&'static str] = &[
        "cgroup",
        "weight",
        "first_interface_index",
        "interface_index",
        "cpu",
    ];

    fn columns() -> Vec<Column> {
        schema::columns()
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn is_full(&self) -> bool {
        self.len() >= ROWS
    }

    fn clear(&mut self) {
        self.remove_all();
    }

    fn write(&self, group: &mut RowGroup<'_>) -> Result<(), ParquetError> {
        write(group, self)
    }
}

/// Write all columns of a batch.
fn write(group: &mut RowGroup<'_>, batch: &Batch) -> Result<(), ParquetError> {
    let order = batch.order();
    identities(group, batch)?;
    for flags in &batch.flags {
        let values: Vec<bool> = order.iter().map(|&row| flags[row as usize]).collect();
        group.flags(&values)?;
    }
    for integers in &batch.always {
        let values: Vec<i64> = order.iter().map(|&row| integers[row as usize]).collect();
        group.integers(&values, None)?;
    }
    let nothing = vec![0; order.len()];
    for Optional { values, levels } in batch.sparse.columns(&order) {
        let levels = if values.is_empty() { &nothing } else { &levels };
        group.integers(&values, Some(levels))?;
    }
    Ok(())
}

/// Write the columns of the identities: runs.
fn identities(group: &mut RowGroup<'_>, batch: &Batch) -> Result<(), ParquetError> {
    let mut lengths = vec![0_usize; batch.identities.len()];
    for &identity in &batch.rows {
        lengths[identity as usize] += 1;
    }
    let all: Vec<_> = batch.identities.iter().map(values).collect();
    for (index, (_, kind, optional)) in OF_IDENTITY.into_iter().enumerate() {
        let runs = all.iter().map(|values| &values[index]).zip(&lengths);
        let mut levels = Vec::new();
        let mut texts = Vec::new();
        let mut integers = Vec::new();
        for (value, &length) in runs {
            let there = !matches!(value, Value::Absent);
            levels.resize(levels.len() + length, i16::from(there));
            match value {
                Value::Text(text) => {
                    texts.resize(texts.len() + length, ByteArray::from(text.as_str()))
                }
                Value::Integer(integer) => integers.resize(integers.len() + length, *integer),
                Value::Absent => {}
            }
        }
        let levels = optional.then_some(levels.as_slice());
        if kind == Kind::Text {
            group.texts(&texts, levels)?;
        } else {
            group.integers(&integers, levels)?;
        }
    }
    Ok(())
}
