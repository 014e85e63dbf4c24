//! A small histogram of round trips as text.

use std::io::{self, Write};

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::{Histogram, range_ns};

/// Rows at most.
const ROWS: usize = 12;
/// Columns of the longest bar.
const COLUMNS: u64 = 40;

/// Neighbouring buckets, joined into at most [`ROWS`] rows.
pub(super) fn print(output: &mut dyn Write, histogram: &Histogram) -> io::Result<()> {
    let rows = rows(histogram);
    let highest = rows.iter().map(|row| row.count).max().unwrap_or(0);
    for Row { low, high, count } in rows {
        let bar = bar(count, highest);
        writeln!(output, " {low:>10} to {high:<10}{count:>10}  {bar}")?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    low: Nanos,
    high: Nanos,
    count: u64,
}

fn rows(histogram: &Histogram) -> Vec<Row> {
    let buckets = histogram.buckets();
    let used = |bucket: &sockstamp_model::histogram::Bucket| bucket.count > 0;
    let (Some(first), Some(last)) = (
        buckets.iter().position(used),
        buckets.iter().rposition(used),
    ) else {
        return Vec::new();
    };
    let width = (last - first + 1).div_ceil(ROWS);
    let groups = buckets[first..=last].chunks(width);
    let groups = groups.zip((first..).step_by(width));
    groups
        .map(|(group, start)| Row {
            low: Nanos(range_ns(start).0),
            // The overflow has no upper bound.
            high: Nanos(
                range_ns(start + group.len() - 1)
                    .1
                    .min(largest(histogram, start + group.len() > last)),
            ),
            count: group.iter().map(|bucket| bucket.count).sum(),
        })
        .collect()
}

/// No row goes beyond the largest.
fn largest(histogram: &Histogram, is_last: bool) -> u64 {
    match histogram.max() {
        Some(Nanos(max)) if is_last => max,
        _ => u64::MAX,
    }
}

/// Draw at least one mark for a non-zero count.
fn bar(count: u64, highest: u64) -> String {
    let columns = (u128::from(count) * u128::from(COLUMNS)).div_ceil(u128::from(highest.max(1)));
    "#".repeat(usize::try_from(columns).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(times: &[(u64, u64)]) -> String {
        let mut histogram = Histogram::new();
        for &(micros, weight) in times {
            histogram.record(Nanos::from_micros(micros), weight);
        }
        let mut output = Vec::new();
        print(&mut output, &histogram).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_chart_of_nothing_has_no_rows() {
        assert_eq!(printed(&[]), "");
    }

    #[test]
    fn neighbours_have_a_row_each_and_the_last_ends_with_the_largest() {
        assert_eq!(
            printed(&[(10_000, 80), (11_000, 1)]),
            concat!(
                "    9.29 ms to 10.1 ms           80  ########################################\n",
                "    10.1 ms to 11.0 ms            1  #\n",
            )
        );
    }

    #[test]
    fn a_wide_distribution_has_no_more_rows_and_loses_none() {
        let mut histogram = Histogram::new();
        for power in 0..63 {
            histogram.record(Nanos(1 << power), 2);
        }
        let rows = rows(&histogram);
        assert!(rows.len() <= ROWS, "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 126);
        assert!(rows.windows(2).all(|pair| pair[0].high < pair[1].low));
        assert_eq!(rows.last().map(|row| row.high), Some(Nanos(1 << 62)));
    }
}
