//! A row of a table: a name, a count, quantiles and the largest.

use std::io::{self, Write};

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Columns of a stage's name and count.
pub(super) const NAME_AND_COUNT: usize = 21;

/// Print a row: a name, a count, [`figures`] and a share.
pub fn row(
    output: &mut dyn Write,
    name: &str,
    histogram: &Histogram,
    share: &str,
) -> io::Result<()> {
    let count = histogram.count().to_string();
    let columns = name.chars().count();
    let width = (NAME_AND_COUNT - columns).max(count.len() + 1);
    write!(output, " {name}{count:>width$}")?;
    times(output, histogram, 9, columns + width - NAME_AND_COUNT)?;
    writeln!(output, "{share}")
}

/// Print the count and [`figures`].
pub fn cells(output: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    write!(output, "{:>9}", histogram.count())?;
    times(output, histogram, 9, 0)
}

/// The first column is narrower by those that a long name and count have taken of it.
fn times(
    output: &mut dyn Write,
    histogram: &Histogram,
    columns: usize,
    taken: usize,
) -> io::Result<()> {
    let mut width = columns.saturating_sub(taken);
    for value in figures(histogram) {
        match value {
            Some(value) => write!(output, "{value:>width$}")?,
            None => write!(output, "{:>width$}", "-")?,
        }
        width = columns;
    }
    Ok(())
}

/// The quantiles and the largest.
pub fn figures(histogram: &Histogram) -> impl Iterator<Item = Option<Nanos>> {
    let quantiles = QUANTILES
        .into_iter()
        .map(|quantile| histogram.quantile(quantile));
    quantiles.chain([histogram.max()])
}
