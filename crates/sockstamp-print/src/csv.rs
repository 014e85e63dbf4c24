//! The table of `stat` as comma-separated values.

use std::io::{self, Write};

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::stage::Direction;
use sockstamp_model::summary::Summary;

use crate::columns::Column;
use crate::directions::DIRECTIONS;

/// The table of `stat` as comma-separated values.
pub fn summary(output: &mut dyn Write, summary: &Summary, columns: &[Column]) -> io::Result<()> {
    let titles = columns.iter().map(|column| format!(",{}", column.key()));
    writeln!(
        output,
        "direction,stage,count{},sum_ns",
        titles.collect::<String>()
    )?;
    for direction in DIRECTIONS {
        let part = summary.direction(direction);
        for (stage, histogram) in part.stages.present() {
            row(output, direction, stage.name(), histogram, columns)?;
        }
        if direction == Direction::Tx {
            row(output, direction, "sent", &part.sent, columns)?;
        }
        row(output, direction, "total", &part.total, columns)?;
    }
    Ok(())
}

fn row(
    output: &mut dyn Write,
    direction: Direction,
    name: &str,
    histogram: &Histogram,
    columns: &[Column],
) -> io::Result<()> {
    write!(output, "{},{name},{}", direction.name(), histogram.count())?;
    for column in columns {
        match column.of(histogram) {
            Some(Nanos(value)) => write!(output, ",{value}")?,
            None => write!(output, ",")?,
        }
    }
    writeln!(output, ",{}", histogram.sum_ns())
}
