//! Write messages as columns.

use parquet::errors::ParquetError;
use sockstamp_model::flow::canonical;
use sockstamp_model::interface::Interface;

use crate::batch::{Batch, Identity, Optional, ROWS};
use crate::encode::Value;
use crate::rows::{RowGroup, Rows};
use crate::schema::{self, Column, OF_IDENTITY, VERSION, VERSION_KEY};

/// The values of [`OF_IDENTITY`].
const VALUES: [fn(&Identity) -> Option<Value>; OF_IDENTITY.len()] = [
    |identity| text(identity.direction.name()),
    |identity| text(identity.flow.protocol.name()),
    |identity| integer(identity.flow.netns.0.into()),
    |identity| text(&canonical(identity.flow.local).ip().to_string()),
    |identity| integer(identity.flow.local.port().into()),
    |identity| text(&canonical(identity.flow.remote).ip().to_string()),
    |identity| integer(identity.flow.remote.port().into()),
    |identity| integer(identity.flow.cookie.0.cast_signed()),
    |identity| integer(identity.cgroup.0.cast_signed()),
    |identity| integer(identity.pid.into()),
    |identity| text(&identity.comm.exact()),
    |identity| text(identity.verdict.name()),
    |identity| text(&first(identity)?.name.exact()),
    |identity| integer(first(identity)?.index.into()),
    |identity| integer(first(identity)?.netns.0.into()),
    |identity| text(&last(identity)?.name.exact()),
    |identity| integer(last(identity)?.index.into()),
    |identity| integer(last(identity)?.netns.0.into()),
    |identity| text(&identity.container.as_ref()?.full_name()),
    |identity| text(identity.opened?.name()),
    |identity| text(identity.unpaired?.name()),
];

#[expect(clippy::unnecessary_wraps, reason = "columns may lack a value")]
fn text(text: &str) -> Option<Value> {
    Some(Value::text(text))
}

#[expect(clippy::unnecessary_wraps, reason = "columns may lack a value")]
fn integer(value: i64) -> Option<Value> {
    Some(Value::integer(value))
}

fn first(identity: &Identity) -> Option<&Interface> {
    identity.interfaces.first.as_ref()
}

fn last(identity: &Identity) -> Option<&Interface> {
    identity.interfaces.last.as_ref()
}

impl Rows for Batch {
    const VERSION: (&'static str, u32) = (VERSION_KEY, VERSION);
    // Numbers grow within a flow, and flows are runs.
    const GROWING: &'static [&'static str] = &["time_ns", "seq_end"];
    // Runs of small numbers take a quarter of a byte each by zstd alone.
    const FEW: &'static [&'static str] = &["weight", "cpu"];

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
    for value in VALUES {
        let values: Vec<_> = batch.identities.iter().map(value).collect();
        let values = values.iter().map(Option::as_ref);
        group.runs(values.zip(lengths.iter().copied()))?;
    }
    Ok(())
}
