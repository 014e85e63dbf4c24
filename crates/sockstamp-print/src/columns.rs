//! The columns of figures in a table of distributions.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;

/// A figure of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The shortest time, exact.
    Min,
    /// The sum divided by the count.
    Mean,
    /// The median.
    P50,
    /// 90 % took at most this long.
    P90,
    /// 99 % took at most this long.
    P99,
    /// 99.9 % took at most this long.
    P999,
    /// The longest time, exact.
    Max,
}

impl Column {
    /// The columns of a table for which nobody chose others.
    pub const USUAL: [Self; 5] = [Self::P50, Self::P90, Self::P99, Self::P999, Self::Max];

    /// Return the title.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
        }
    }

    /// Return the title in CSV, which is the key in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Min => "min_ns",
            Self::Mean => "mean_ns",
            Self::P50 => "p50_ns",
            Self::P90 => "p90_ns",
            Self::P99 => "p99_ns",
            Self::P999 => "p999_ns",
            Self::Max => "max_ns",
        }
    }

    /// Return the figure; `None` if nothing was counted.
    #[must_use]
    pub fn of(self, histogram: &Histogram) -> Option<Nanos> {
        match self {
            Self::Min => histogram.min(),
            Self::Mean => histogram.mean(),
            Self::P50 => histogram.quantile(0.5),
            Self::P90 => histogram.quantile(0.9),
            Self::P99 => histogram.quantile(0.99),
            Self::P999 => histogram.quantile(0.999),
            Self::Max => histogram.max(),
        }
    }
}

impl ValueEnum for Column {
    fn value_variants<'a>() -> &'a [Self] {
        use Column::{Max, Mean, Min, P50, P90, P99, P999};
        &[Min, Mean, P50, P90, P99, P999, Max]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// Return the titles, as wide as the figures below them.
#[must_use]
pub fn titles(columns: &[Column]) -> String {
    let titles = columns.iter().map(|column| format!("{:>9}", column.name()));
    titles.collect()
}
