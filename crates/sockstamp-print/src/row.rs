//! A row of a table: a name, a count and figures of a distribution.

use std::io::{self, Write};

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;

use crate::columns::Column;

/// Columns of a stage's name and count.
pub(super) const NAME_AND_COUNT: usize = 21;

/// Columns of a figure.
const WIDTH: usize = 9;

/// Print a row: a name, a count, the columns and a share.
pub fn row(
    output: &mut dyn Write,
    name: &str,
    histogram: &Histogram,
    columns: &[Column],
    share: &str,
) -> io::Result<()> {
    let count = histogram.count().to_string();
    let of_name = name.chars().count();
    let width = (NAME_AND_COUNT - of_name).max(count.len() + 1);
    write!(output, " {name}{count:>width$}")?;
    times(output, histogram, columns, of_name + width - NAME_AND_COUNT)?;
    writeln!(output, "{share}")
}

/// Print the count and the usual columns.
pub fn cells(output: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    write!(output, "{:>9}", histogram.count())?;
    times(output, histogram, &Column::USUAL, 0)
}

/// The first column is narrower by those that a long name and count have taken of it.
fn times(
    output: &mut dyn Write,
    histogram: &Histogram,
    columns: &[Column],
    taken: usize,
) -> io::Result<()> {
    let mut width = WIDTH.saturating_sub(taken);
    for column in columns {
        match column.of(histogram) {
            Some(value) => write!(output, "{value:>width$}")?,
            None => write!(output, "{:>width$}", "-")?,
        }
        width = WIDTH;
    }
    Ok(())
}

/// Return the usual columns.
pub fn figures(histogram: &Histogram) -> impl Iterator<Item = Option<Nanos>> {
    Column::USUAL.into_iter().map(|column| column.of(histogram))
}
