//! The table of `stat` as comma-separated values.

use std::io::{self, Write};

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::stage::Direction;
use sockstamp_model::summary::Summary;

use crate::directions::DIRECTIONS;
use crate::row::figures;

/// The table of `stat` as comma-separated values.
pub fn summary(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    writeln!(
        output,
        "direction,stage,count,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,sum_ns"
    )?;
    for direction in DIRECTIONS {
        let part = summary.direction(direction);
        for (stage, histogram) in part.stages.present() {
            row(output, direction, stage.name(), histogram)?;
        }
        if direction == Direction::Tx {
            row(output, direction, "sent", &part.sent)?;
        }
        row(output, direction, "total", &part.total)?;
    }
    Ok(())
}

fn row(
    output: &mut dyn Write,
    direction: Direction,
    name: &str,
    histogram: &Histogram,
) -> io::Result<()> {
    write!(output, "{},{name},{}", direction.name(), histogram.count())?;
    for value in figures(histogram) {
        match value {
            Some(Nanos(value)) => write!(output, ",{value}")?,
            None => write!(output, ",")?,
        }
    }
    writeln!(output, ",{}", histogram.sum_ns())
}
