//! Write messages as columns.

use parquet::errors::ParquetError;
use sockstamp_model::flow::canonical;
use sockstamp_model::interface::Interface;

use crate::batch::{Batch, Identity, Optional, ROWS};
use crate::encode::Value;
use crate::rows::{RowGroup, Rows};
use crate::schema::{self, Column, OF_IDENTITY, VERSION, VERSION_KEY};

/// Return the values of [`OF_IDENTITY`].
fn values(identity: &Identity) -> [Option<Value>; OF_IDENTITY.len()] {
    let text = |text: &str| Some(Value::text(text));
    let integer = |value: i64| Some(Value::integer(value));
    let (local, remote) = (
        canonical(identity.flow.local),
        canonical(identity.flow.remote),
    );
    let interface = |interface: &Option<Interface>| match interface {
        Some(interface) => [
            text(&interface.name.exact()),
            integer(interface.index.into()),
            integer(interface.netns.0.into()),
        ],
        None => [None, None, None],
    };
    let [first, first_index, first_netns] = interface(&identity.interfaces.first);
    let [last, last_index, last_netns] = interface(&identity.interfaces.last);
    [
        text(identity.direction.name()),
        text(identity.flow.protocol.name()),
        integer(identity.flow.netns.0.into()),
        text(&local.ip().to_string()),
        integer(local.port().into()),
        text(&remote.ip().to_string()),
        integer(remote.port().into()),
        integer(identity.flow.cookie.0.cast_signed()),
        integer(identity.cgroup.0.cast_signed()),
        integer(identity.pid.into()),
        text(&identity.comm.exact()),
        text(identity.verdict.name()),
        first,
        first_index,
        first_netns,
        last,
        last_index,
        last_netns,
        identity
            .container
            .as_ref()
            .and_then(|container| text(&container.full_name())),
        identity.opened.and_then(|opened| text(opened.name())),
    ]
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
    let columns = batch.sparse.columns(&order);
    for (name, Optional { values, levels }) in schema::optional_integers().iter().zip(columns) {
        if values.is_empty() {
            group.runs([(None, order.len())])?;
        } else if Batch::FEW.contains(&name.as_str()) {
            group.integers(&values, Some(&levels.of_rows()))?;
        } else {
            group.plain(&values, &levels)?;
        }
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
    for column in 0..OF_IDENTITY.len() {
        let values = all.iter().map(|values| values[column].as_ref());
        group.runs(values.zip(lengths.iter().copied()))?;
    }
    Ok(())
}
